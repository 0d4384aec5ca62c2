#include "device/cuda/cublas.hpp"

#include <optional>

#include "device/cuda/cublas_terms.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/cuda_device.hpp"

namespace tilewise::cuda {
namespace {

using CublasHandle = void*;
constexpr int kPointersOnHost = 0, kPointersOnDevice = 1;
constexpr int kDefaultMath = 0, kPedanticMath = 2;
constexpr int kDefaultAlgorithm = -1;

struct CublasApi : BlasApi {
  BlasStatus (*set_stream)(CublasHandle, CUstream) = nullptr;
  BlasStatus (*set_workspace)(CublasHandle, void*, std::size_t) = nullptr;
  BlasStatus (*set_math_mode)(CublasHandle, int) = nullptr;
  BlasStatus (*set_pointer_mode)(CublasHandle, int) = nullptr;
  BlasStatus (*gemm)(CublasHandle, int, int, std::int64_t, std::int64_t, std::int64_t, const void*,
                     const void*, int, std::int64_t, const void*, int, std::int64_t, const void*,
                     void*, int, std::int64_t, int, int) = nullptr;
  BlasStatus (*gemm_batched)(CublasHandle, int, int, std::int64_t, std::int64_t, std::int64_t,
                             const void*, const void*, int, std::int64_t, long long, const void*,
                             int, std::int64_t, long long, const void*, void*, int, std::int64_t,
                             long long, std::int64_t, int, int) = nullptr;

  /// False when the library lacks a symbol; `why` then has the first missing one.
  bool resolve(std::string& why) {
    const auto need = [&](auto& function, const char* symbol) {
      return needs(function, symbol, why);
    };
    return need(create, "cublasCreate_v2") && need(destroy, "cublasDestroy_v2") &&
           need(property, "cublasGetProperty") && need(status_string, "cublasGetStatusString") &&
           need(set_stream, "cublasSetStream_v2") && need(set_workspace, "cublasSetWorkspace_v2") &&
           need(set_math_mode, "cublasSetMathMode") &&
           need(set_pointer_mode, "cublasSetPointerMode_v2") && need(gemm, "cublasGemmEx_64") &&
           need(gemm_batched, "cublasGemmStridedBatchedEx_64");
  }
};

/// cuBLAS through one call for every type, described by blas_terms().
class Cublas final : public BaselineLibrary {
 public:
  Cublas(CudaDevice& device, CublasMath math, CublasApi api)
      : device_(device),
        api_(std::move(api)),
        math_(math),
        workspace_(device, kBlasWorkspaceBytes) {
    const CurrentContext current(device_.context());
    api_.check(api_.create(&handle_), "starting cuBLAS");
    try {
      const int mode = math == CublasMath::pedantic ? kPedanticMath : kDefaultMath;
      api_.check(api_.set_math_mode(handle_, mode), "setting cuBLAS's math mode");
      use_stream(nullptr);
    } catch (const Error&) {
      api_.destroy(handle_);
      throw;
    }
  }
  ~Cublas() override {
    const CurrentContext current(device_.context());
    api_.destroy(handle_);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  std::string name() const override { return "cuBLAS"; }
  std::string version() const override { return version_of(api_); }
  std::string variant() const override {
    return math_ == CublasMath::pedantic ? "pedantic" : "default";
  }
  bool supports(const Problem& problem) const override {
    return why_not_cublas(problem, math_).empty();
  }
  void multiply(const Problem& problem, const Call& call) override;

 private:
  void use_stream(Stream stream);
  void use_pointers(int mode);

  CudaDevice& device_;
  CublasApi api_;
  const CublasMath math_;
  DeviceBuffer workspace_;
  CublasHandle handle_ = nullptr;
  std::optional<Stream> stream_;
  int pointers_ = -1;
};

void Cublas::use_stream(Stream stream) {
  if (stream_ == stream) return;
  stream_.reset();
  api_.check(api_.set_stream(handle_, stream_handle(stream)), "giving cuBLAS a stream");
  // A change of stream resets cuBLAS to its own workspace.
  api_.check(api_.set_workspace(handle_, workspace_.data(), kBlasWorkspaceBytes),
             "giving cuBLAS a workspace");
  stream_ = stream;
}

void Cublas::use_pointers(int mode) {
  if (pointers_ == mode) return;
  api_.check(api_.set_pointer_mode(handle_, mode), "telling cuBLAS where alpha and beta are");
  pointers_ = mode;
}

void Cublas::multiply(const Problem& problem, const Call& call) {
  if ((call.alpha_device == nullptr) != (call.beta_device == nullptr)) {
    throw Error(ErrorKind::unsupported,
                "cuBLAS takes alpha and beta both from the device or both from the host");
  }
  if (const std::string why = why_not_cublas(problem, math_); !why.empty())
    throw Error(ErrorKind::unsupported, "not a product for cuBLAS: " + why);
  const CurrentContext current(device_.context());
  const bool on_device = call.alpha_device != nullptr;
  use_stream(call.stream);
  use_pointers(on_device ? kPointersOnDevice : kPointersOnHost);
  const BlasScalar alpha = blas_scalar(call.alpha, problem.accumulator);
  const BlasScalar beta = blas_scalar(call.beta, problem.accumulator);
  const void* alpha_at = on_device ? call.alpha_device : &alpha;
  const void* beta_at = on_device ? call.beta_device : &beta;
  const BlasTerms terms = blas_terms(problem, math_);
  if (problem.batch == 1) {
    api_.check(api_.gemm(handle_, terms.op_first, terms.op_second, problem.n, problem.m, problem.k,
                         alpha_at, call.b, terms.operand, call.ldb, call.a, terms.operand, call.lda,
                         beta_at, call.c, terms.result, call.ldc, terms.compute, kDefaultAlgorithm),
               "cuBLAS's product");
  } else {
    api_.check(
        api_.gemm_batched(handle_, terms.op_first, terms.op_second, problem.n, problem.m, problem.k,
                          alpha_at, call.b, terms.operand, call.ldb, call.stride_b, call.a,
                          terms.operand, call.lda, call.stride_a, beta_at, call.c, terms.result,
                          call.ldc, call.stride_c, problem.batch, terms.compute, kDefaultAlgorithm),
        "cuBLAS's batched product");
  }
}

}  // namespace

std::unique_ptr<BaselineLibrary> load_cublas(Device& device, std::string* why, CublasMath math) {
  auto* gpu = dynamic_cast<CudaDevice*>(&device);
  if (!gpu) {
    if (why) *why = "cuBLAS runs on NVIDIA GPUs only";
    return nullptr;
  }
  return load_first_usable<CublasApi>(
      {"libcublas", {13, 12}, "", "TILEWISE_CUBLAS"}, {"libcublasLt"}, why,
      [&](CublasApi api) { return std::make_unique<Cublas>(*gpu, math, std::move(api)); });
}

}  // namespace tilewise::cuda
