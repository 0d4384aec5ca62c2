#include <cstdlib>
#include <filesystem>
#include <memory>

#include "device/cuda/cublas.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/cuda_device.hpp"

namespace tilewise::cuda {
namespace {

using Handle = void*;
// Attributes, as numbered by cublasLt's header.
constexpr int kTransposeA = 3, kTransposeB = 4;  // CUBLASLT_MATMUL_DESC_TRANSA, _TRANSB
constexpr int kMostWorkspace = 1;                // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;
constexpr int kBestAlignment = 256;  // bytes; what cublasLt assumes when it is told nothing

/// cublasLtMatmulHeuristicResult_t.
struct Candidate {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Candidate) == 96, "cublasLt fills an array of these");

struct CublasLtApi {
  Library library;
  BlasStatus (*create)(Handle*) = nullptr;
  BlasStatus (*destroy)(Handle) = nullptr;
  BlasStatus (*property)(int, int*) = nullptr;
  const char* (*status_string)(BlasStatus) = nullptr;
  BlasStatus (*create_product)(Handle*, int, int) = nullptr;
  BlasStatus (*destroy_product)(Handle) = nullptr;
  BlasStatus (*set_of_product)(Handle, int, const void*, std::size_t) = nullptr;
  BlasStatus (*create_matrix)(Handle*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  BlasStatus (*destroy_matrix)(Handle) = nullptr;
  BlasStatus (*create_preference)(Handle*) = nullptr;
  BlasStatus (*destroy_preference)(Handle) = nullptr;
  BlasStatus (*set_of_preference)(Handle, int, const void*, std::size_t) = nullptr;
  BlasStatus (*heuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Candidate*,
                          int*) = nullptr;
  BlasStatus (*multiply)(Handle, Handle, const void*, const void*, Handle, const void*, Handle,
                         const void*, const void*, Handle, void*, Handle, const void*, void*,
                         std::size_t, CUstream) = nullptr;

  /// False, with the first missing symbol in `why`, when the library is not one that can be used.
  bool resolve(std::string& why) {
    const auto need = [&](auto& function, const char* symbol) {
      if (library.get(function, symbol)) return true;
      why = "it lacks " + std::string(symbol);
      return false;
    };
    return need(create, "cublasLtCreate") && need(destroy, "cublasLtDestroy") &&
           need(property, "cublasLtGetProperty") &&
           need(status_string, "cublasLtGetStatusString") &&
           need(create_product, "cublasLtMatmulDescCreate") &&
           need(destroy_product, "cublasLtMatmulDescDestroy") &&
           need(set_of_product, "cublasLtMatmulDescSetAttribute") &&
           need(create_matrix, "cublasLtMatrixLayoutCreate") &&
           need(destroy_matrix, "cublasLtMatrixLayoutDestroy") &&
           need(create_preference, "cublasLtMatmulPreferenceCreate") &&
           need(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
           need(set_of_preference, "cublasLtMatmulPreferenceSetAttribute") &&
           need(heuristic, "cublasLtMatmulAlgoGetHeuristic") && need(multiply, "cublasLtMatmul");
  }

  void check(BlasStatus status, const char* tried) const {
    if (status == kBlasSuccess) return;
    throw Error(ErrorKind::device, std::string(tried) + " failed: " + status_string(status));
  }
};

/// One of cublasLt's descriptors with its owner. Empty until made.
using Descriptor = std::unique_ptr<void, BlasStatus (*)(Handle)>;

template <class Create, class... Arguments>
Descriptor make_descriptor(const CublasLtApi& api, Create create, BlasStatus (*destroy)(Handle),
                           Arguments... arguments) {
  Handle handle = nullptr;
  api.check(create(&handle, arguments...), "describing a product to cublasLt");
  return {handle, destroy};
}

/// The largest power of two that divides every address `pick` gives, kBestAlignment at most.
template <class Pick>
std::uint32_t alignment_of(std::span<const Call> calls, Pick pick) {
  int alignment = kBestAlignment;
  for (const Call& call : calls)
    alignment = common_alignment({reinterpret_cast<std::uintptr_t>(pick(call))}, alignment);
  return static_cast<std::uint32_t>(alignment);
}

/// cublasLt in strict f32. Column-major, so it is asked for C^T = op(B)^T op(A)^T: the operands
/// change places (its first is our B) and a row-major matrix is its own transpose.
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
  void describe(const Problem& problem, const Call& call);
  Descriptor preference(std::span<const Call> calls) const;

  CudaDevice& device_;
  CublasLtApi api_;
  DeviceBuffer workspace_;
  Handle handle_ = nullptr;
  Descriptor product_{nullptr, nullptr}, a_{nullptr, nullptr}, b_{nullptr, nullptr},
      c_{nullptr, nullptr};
  std::vector<Candidate> candidates_;
};

void LoadedCublasLt::describe(const Problem& problem, const Call& call) {
  const auto matrix = [this](std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    return make_descriptor(api_, api_.create_matrix, api_.destroy_matrix, kReal32,
                           static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                           ld);
  };
  product_ = make_descriptor(api_, api_.create_product, api_.destroy_product, kCompute32, kReal32);
  const std::int32_t op_a = a_transposed(problem.layout) ? kTransposed : kNotTransposed;
  const std::int32_t op_b = b_transposed(problem.layout) ? kTransposed : kNotTransposed;
  api_.check(api_.set_of_product(product_.get(), kTransposeA, &op_b, sizeof op_b),
             "telling cublasLt how B is stored");
  api_.check(api_.set_of_product(product_.get(), kTransposeB, &op_a, sizeof op_a),
             "telling cublasLt how A is stored");
  a_ = matrix(rows_a(problem), min_lda(problem), call.lda);
  b_ = matrix(rows_b(problem), min_ldb(problem), call.ldb);
  c_ = matrix(problem.m, problem.n, call.ldc);
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
  set(kAlignmentC, c);
  set(kAlignmentD, c);
  return wanted;
}

int LoadedCublasLt::ask(const Problem& problem, std::span<const Call> calls, int most) {
  candidates_.clear();
  if (problem.batch != 1 || problem.m == 0 || problem.n == 0 || problem.k == 0 || calls.empty())
    throw Error(ErrorKind::unsupported, "cublasLt is asked for single, not empty products only");
  const CurrentContext current(device_.context());
  describe(problem, calls.front());
  const Descriptor wanted = preference(calls);
  std::vector<Candidate> given(static_cast<std::size_t>(most));
  int count = 0;
  api_.check(api_.heuristic(handle_, product_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
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
  const float alpha = static_cast<float>(call.alpha);
  const float beta = static_cast<float>(call.beta);
  const Candidate& chosen = candidates_.at(static_cast<std::size_t>(candidate));
  api_.check(
      api_.multiply(handle_, product_.get(), &alpha, call.b, b_.get(), call.a, a_.get(), &beta,
                    call.c, c_.get(), call.c, c_.get(), chosen.algorithm, workspace_.data(),
                    static_cast<std::size_t>(kBlasWorkspaceBytes), stream_handle(call.stream)),
      "cublasLt's product");
}

/// cublasLt lies beside cuBLAS: TILEWISE_CUBLAS names its folder, or a file there.
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

}  // namespace tilewise::cuda
