#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cublas.hpp"
#include "device/cuda/cublas_terms.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/cuda_device.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::cuda {
namespace {

using Handle = void*;
// Attributes, with the numbers of cublasLt's header.
constexpr int kTransposeA = 3, kTransposeB = 4;   // CUBLASLT_MATMUL_DESC_TRANSA, _TRANSB
constexpr int kEpilogue = 7, kBias = 8;           // CUBLASLT_MATMUL_DESC_EPILOGUE, _BIAS_POINTER
constexpr int kAux = 11, kAuxLd = 12;             // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, ..
constexpr int kScaleA = 17, kScaleB = 18;         // CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, _B_
constexpr int kFastSums = 25;                     // CUBLASLT_MATMUL_DESC_FAST_ACCUM
constexpr int kBatchCount = 5, kBatchStride = 6;  // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, ..
constexpr int kMostWorkspace = 1;                 // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;
constexpr int kBestAlignment = 256;  // bytes; cublasLt's default

/// cublasLtMatmulHeuristicResult_t.
struct Candidate {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Candidate) == 96, "cublasLt fills an array of these");

struct CublasLtApi : BlasApi {
  BlasStatus (*create_product)(Handle*, int, int) = nullptr;
  BlasStatus (*destroy_product)(Handle) = nullptr;
  BlasStatus (*set_of_product)(Handle, int, const void*, std::size_t) = nullptr;
  BlasStatus (*create_matrix)(Handle*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  BlasStatus (*destroy_matrix)(Handle) = nullptr;
  BlasStatus (*set_of_matrix)(Handle, int, const void*, std::size_t) = nullptr;
  BlasStatus (*create_preference)(Handle*) = nullptr;
  BlasStatus (*destroy_preference)(Handle) = nullptr;
  BlasStatus (*set_of_preference)(Handle, int, const void*, std::size_t) = nullptr;
  BlasStatus (*heuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Candidate*,
                          int*) = nullptr;
  BlasStatus (*multiply)(Handle, Handle, const void*, const void*, Handle, const void*, Handle,
                         const void*, const void*, Handle, void*, Handle, const void*, void*,
                         std::size_t, CUstream) = nullptr;

  /// False when the library lacks a symbol; `why` then has the first missing one.
  bool resolve(std::string& why) {
    const auto need = [&](auto& function, const char* symbol) {
      return needs(function, symbol, why);
    };
    return need(create, "cublasLtCreate") && need(destroy, "cublasLtDestroy") &&
           need(property, "cublasLtGetProperty") &&
           need(status_string, "cublasLtGetStatusString") &&
           need(create_product, "cublasLtMatmulDescCreate") &&
           need(destroy_product, "cublasLtMatmulDescDestroy") &&
           need(set_of_product, "cublasLtMatmulDescSetAttribute") &&
           need(create_matrix, "cublasLtMatrixLayoutCreate") &&
           need(destroy_matrix, "cublasLtMatrixLayoutDestroy") &&
           need(set_of_matrix, "cublasLtMatrixLayoutSetAttribute") &&
           need(create_preference, "cublasLtMatmulPreferenceCreate") &&
           need(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
           need(set_of_preference, "cublasLtMatmulPreferenceSetAttribute") &&
           need(heuristic, "cublasLtMatmulAlgoGetHeuristic") && need(multiply, "cublasLtMatmul");
  }
};

/// An owned cublasLt descriptor; empty until created.
using Descriptor = std::unique_ptr<void, BlasStatus (*)(Handle)>;

template <class Create, class... Arguments>
Descriptor make_descriptor(const CublasLtApi& api, Create create, BlasStatus (*destroy)(Handle),
                           Arguments... arguments) {
  Handle handle = nullptr;
  api.check(create(&handle, arguments...), "describing a product to cublasLt");
  return {handle, destroy};
}

/// The largest power of two that divides every address returned by `pick`, at most kBestAlignment.
template <class Pick>
std::uint32_t alignment_of(std::span<const Call> calls, Pick pick) {
  int alignment = kBestAlignment;
  for (const Call& call : calls)
    alignment = common_alignment({reinterpret_cast<std::uintptr_t>(pick(call))}, alignment);
  return static_cast<std::uint32_t>(alignment);
}

/// cublasLt, described by blas_terms(): its first operand is our B.
class LoadedCublasLt final : public CublasLt {
 public:
  LoadedCublasLt(CudaDevice& device, CublasLtApi api)
      : device_(device), api_(std::move(api)), workspace_(device, kBlasWorkspaceBytes) {
    const CurrentContext current(device_.context());
    api_.check(api_.create(&handle_), "starting cublasLt");
  }
  ~LoadedCublasLt() override {
    const CurrentContext current(device_.context());
    api_.destroy(handle_);
  }
  LoadedCublasLt(const LoadedCublasLt&) = delete;
  LoadedCublasLt& operator=(const LoadedCublasLt&) = delete;

  std::string version() const override { return version_of(api_); }
  int ask(const Problem& problem, std::span<const Call> calls, int most) override;
  void multiply(int candidate, const Call& call) override;

 private:
  Descriptor matrix(int type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                    std::int64_t stride) const;
  void describe(const Call& call);
  void set_operands(const Call& call);
  const EpilogueOperand* operand(const Call& call, const char* name) const;
  double beta_of(const Call& call);
  Descriptor preference(std::span<const Call> calls) const;

  CudaDevice& device_;
  CublasLtApi api_;
  DeviceBuffer workspace_;
  Handle handle_ = nullptr;
  Problem problem_;
  LtEpilogue epilogue_;
  double beta_ = 0;  ///< of a C apart from D
  Descriptor product_{nullptr, nullptr}, a_{nullptr, nullptr}, b_{nullptr, nullptr},
      addend_{nullptr, nullptr}, c_{nullptr, nullptr};
  std::vector<Candidate> candidates_;
};

Descriptor LoadedCublasLt::matrix(int type, std::int64_t rows, std::int64_t columns,
                                  std::int64_t ld, std::int64_t stride) const {
  Descriptor made =
      make_descriptor(api_, api_.create_matrix, api_.destroy_matrix, type,
                      static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), ld);
  if (problem_.batch == 1) return made;
  const auto count = static_cast<std::int32_t>(problem_.batch);
  api_.check(api_.set_of_matrix(made.get(), kBatchCount, &count, sizeof count),
             "telling cublasLt how many products there are");
  api_.check(api_.set_of_matrix(made.get(), kBatchStride, &stride, sizeof stride),
             "telling cublasLt how far apart the products lie");
  return made;
}

void LoadedCublasLt::describe(const Call& call) {
  const BlasTerms terms = blas_terms(problem_);
  product_ =
      make_descriptor(api_, api_.create_product, api_.destroy_product, terms.compute, terms.scalar);
  const std::int32_t op_b = terms.op_first, op_a = terms.op_second;
  api_.check(api_.set_of_product(product_.get(), kTransposeA, &op_b, sizeof op_b),
             "telling cublasLt how B is stored");
  api_.check(api_.set_of_product(product_.get(), kTransposeB, &op_a, sizeof op_a),
             "telling cublasLt how A is stored");
  const std::int8_t fast_sums = terms.fast_sums;
  if (is_fp8(problem_.a.type))
    api_.check(api_.set_of_product(product_.get(), kFastSums, &fast_sums, sizeof fast_sums),
               "telling cublasLt how sums are accumulated");
  epilogue_ = lt_epilogue(problem_).value();
  const std::int32_t number = epilogue_.number;
  api_.check(api_.set_of_product(product_.get(), kEpilogue, &number, sizeof number),
             "telling cublasLt the epilogue");
  set_operands(call);
  beta_ = beta_of(call);
  a_ = matrix(terms.operand, rows_a(problem_), min_lda(problem_), call.lda, call.stride_a);
  b_ = matrix(terms.operand, rows_b(problem_), min_ldb(problem_), call.ldb, call.stride_b);
  const EpilogueOperand* addend = operand(call, "addend");
  addend_ = matrix(terms.addend, problem_.m, problem_.n, addend ? addend->ld : call.ldc,
                   addend ? addend->stride : call.stride_c);
  c_ = matrix(terms.result, problem_.m, problem_.n, call.ldc, call.stride_c);
}

/// Null if the epilogue has no such operand.
const EpilogueOperand* LoadedCublasLt::operand(const Call& call, const char* name) const {
  const Epilogue* const epilogue = epilogue_of(epilogue_);
  if (!epilogue) return nullptr;
  const std::vector<std::string>& names = epilogue->names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return nullptr;
  return &call.operands[static_cast<std::size_t>(found - names.begin())];
}

void LoadedCublasLt::set_operands(const Call& call) {
  if (!problem_.epilogue) return;
  for (const auto& [name, attribute] :
       {std::pair{"bias", kBias}, {"scale_a", kScaleA}, {"scale_b", kScaleB}, {"aux", kAux}}) {
    const EpilogueOperand* const bound = operand(call, name);
    if (!bound) continue;
    if (!bound->data)
      throw Error(ErrorKind::unsupported, "cublasLt reads scales from device memory only");
    api_.check(api_.set_of_product(product_.get(), attribute,
                                   static_cast<const void*>(&bound->data), sizeof bound->data),
               "telling cublasLt where the epilogue's operands are");
    if (attribute == kAux)
      api_.check(api_.set_of_product(product_.get(), kAuxLd, &bound->ld, sizeof bound->ld),
                 "telling cublasLt how the epilogue's matrix is stored");
  }
}

/// The factor of a C apart from D, which cublasLt needs on the host if alpha is there.
double LoadedCublasLt::beta_of(const Call& call) {
  const EpilogueOperand* const beta = operand(call, "beta");
  if (!beta || !beta->data) return beta ? beta->value : 0;
  float value = 0;
  device_.copy_to_host(&value, beta->data, sizeof value, call.stream);
  device_.synchronize(call.stream);
  return static_cast<double>(value);
}

Descriptor LoadedCublasLt::preference(std::span<const Call> calls) const {
  Descriptor wanted = make_descriptor(api_, api_.create_preference, api_.destroy_preference);
  const auto set = [&](int attribute, auto value) {
    api_.check(api_.set_of_preference(wanted.get(), attribute, &value, sizeof value),
               "telling cublasLt what may be used");
  };
  set(kMostWorkspace, static_cast<std::uint64_t>(kBlasWorkspaceBytes));
  const std::uint32_t c = alignment_of(calls, [](const Call& call) { return call.c; });
  set(kAlignmentA, alignment_of(calls, [](const Call& call) { return call.b; }));
  set(kAlignmentB, alignment_of(calls, [](const Call& call) { return call.a; }));
  set(kAlignmentC,
      epilogue_.addend
          ? alignment_of(calls, [this](const Call& call) { return operand(call, "addend")->data; })
          : c);
  set(kAlignmentD, c);
  return wanted;
}

int LoadedCublasLt::ask(const Problem& problem, std::span<const Call> calls, int most) {
  candidates_.clear();
  std::string why = why_not_cublas_lt(problem);
  if (why.empty() && problem.batch > std::numeric_limits<std::int32_t>::max())
    why = "it counts the products of a batch in 32 bits";
  if (!why.empty()) throw Error(ErrorKind::unsupported, "not a product for cublasLt: " + why);
  if (calls.empty()) throw Error(ErrorKind::invalid_argument, "cublasLt needs at least one call");
  const CurrentContext current(device_.context());
  problem_ = problem;
  describe(calls.front());
  const Descriptor wanted = preference(calls);
  std::vector<Candidate> given(static_cast<std::size_t>(most));
  int count = 0;
  api_.check(api_.heuristic(handle_, product_.get(), b_.get(), a_.get(), addend_.get(), c_.get(),
                            wanted.get(), most, given.data(), &count),
             "asking cublasLt's heuristic");
  for (int i = 0; i < count; ++i) {
    const Candidate& candidate = given[static_cast<std::size_t>(i)];
    if (candidate.state == kBlasSuccess &&
        candidate.workspace_bytes <= static_cast<std::size_t>(kBlasWorkspaceBytes))
      candidates_.push_back(candidate);
  }
  return static_cast<int>(candidates_.size());
}

void LoadedCublasLt::multiply(int candidate, const Call& call) {
  if (call.alpha_device || call.beta_device)
    throw Error(ErrorKind::unsupported, "cublasLt is given alpha and beta from the host only");
  const CurrentContext current(device_.context());
  if (is_fp8(problem_.c.type) && call.beta != 0)
    throw Error(ErrorKind::unsupported, "cublasLt adds no C of 8-bit floats: beta must be 0");
  if (epilogue_.addend && call.beta != 0)
    throw Error(ErrorKind::unsupported, "cublasLt adds one C: beta must be 0 beside an addend");
  set_operands(call);
  const BlasScalar alpha = blas_scalar(call.alpha, problem_.accumulator);
  const BlasScalar beta = blas_scalar(epilogue_.addend ? beta_ : call.beta, problem_.accumulator);
  const Candidate& chosen = candidates_.at(static_cast<std::size_t>(candidate));
  // CUDA 13 and later refuse one address with two types. If C is 8-bit floats, beta is 0 and no
  // addend is passed.
  const void* addend = is_fp8(problem_.c.type) ? nullptr
                       : epilogue_.addend      ? operand(call, "addend")->data
                                               : call.c;
  api_.check(
      api_.multiply(handle_, product_.get(), &alpha, call.b, b_.get(), call.a, a_.get(), &beta,
                    addend, addend_.get(), call.c, c_.get(), chosen.algorithm, workspace_.data(),
                    static_cast<std::size_t>(kBlasWorkspaceBytes), stream_handle(call.stream)),
      "cublasLt's product");
}

class BestOfCublasLt final : public BaselineLibrary {
 public:
  explicit BestOfCublasLt(std::unique_ptr<CublasLt> library) : library_(std::move(library)) {}
  std::string name() const override { return "cuBLAS"; }
  std::string version() const override { return library_->version(); }
  std::string variant() const override { return "lt_best"; }
  bool supports(const Problem& problem) const override {
    return why_not_cublas_lt(problem).empty();
  }
  int offer(const Problem& problem, std::span<const Call> calls) override {
    return library_->ask(problem, calls, kCublasLtCandidates);
  }
  void choose(int way) override { way_ = way; }
  void multiply(const Problem&, const Call& call) override { library_->multiply(way_, call); }

 private:
  std::unique_ptr<CublasLt> library_;
  int way_ = 0;
};

/// The folder of TILEWISE_CUBLAS (a folder, or a file in it): cublasLt is next to cuBLAS.
std::string named_folder() {
  const char* named = std::getenv("TILEWISE_CUBLAS");
  if (!named || !*named) return "";
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(named, ignored);
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string();
}

}  // namespace

std::unique_ptr<CublasLt> load_cublas_lt(Device& device, std::string* why) {
  auto* gpu = dynamic_cast<CudaDevice*>(&device);
  if (!gpu) {
    if (why) *why = "cublasLt runs on NVIDIA GPUs only";
    return nullptr;
  }
  return load_first_usable<CublasLtApi>(
      {"libcublasLt", {13, 12}, named_folder(), ""}, {}, why,
      [&](CublasLtApi api) { return std::make_unique<LoadedCublasLt>(*gpu, std::move(api)); });
}

std::unique_ptr<BaselineLibrary> load_best_of_cublas_lt(Device& device) {
  std::unique_ptr<CublasLt> library = load_cublas_lt(device);
  if (!library) return nullptr;
  return std::make_unique<BestOfCublasLt>(std::move(library));
}

}  // namespace tilewise::cuda
