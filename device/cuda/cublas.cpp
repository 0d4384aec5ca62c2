#include <optional>

#include "device/cuda/cuda.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/library.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

// cuBLAS's interface, as far as it is used, in the 64-bit form of versions 12 and later: its
// headers are not needed to build.
using CublasHandle = void*;
using CublasStatus = int;
constexpr CublasStatus kSuccess = 0;
constexpr int kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2;
constexpr int kNotTransposed = 0, kTransposed = 1;
constexpr int kPointersOnHost = 0, kPointersOnDevice = 1;
constexpr int kReal32 = 0;       // CUDA_R_32F
constexpr int kCompute32 = 68;   // CUBLAS_COMPUTE_32F: f32 throughout, no TF32
constexpr int kDefaultMath = 0;  // CUBLAS_DEFAULT_MATH
constexpr int kDefaultAlgorithm = -1;

/// cuBLAS's own default on Hopper. Ours, so that a captured product needs no allocation.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

struct CublasApi {
  Library library;
  CublasStatus (*create)(CublasHandle*) = nullptr;
  CublasStatus (*destroy)(CublasHandle) = nullptr;
  CublasStatus (*property)(int, int*) = nullptr;
  const char* (*status_string)(CublasStatus) = nullptr;
  CublasStatus (*set_stream)(CublasHandle, CUstream) = nullptr;
  CublasStatus (*set_workspace)(CublasHandle, void*, std::size_t) = nullptr;
  CublasStatus (*set_math_mode)(CublasHandle, int) = nullptr;
  CublasStatus (*set_pointer_mode)(CublasHandle, int) = nullptr;
  CublasStatus (*gemm)(CublasHandle, int, int, std::int64_t, std::int64_t, std::int64_t,
                       const void*, const void*, int, std::int64_t, const void*, int, std::int64_t,
                       const void*, void*, int, std::int64_t, int, int) = nullptr;
  CublasStatus (*gemm_batched)(CublasHandle, int, int, std::int64_t, std::int64_t, std::int64_t,
                               const void*, const void*, int, std::int64_t, long long, const void*,
                               int, std::int64_t, long long, const void*, void*, int, std::int64_t,
                               long long, std::int64_t, int, int) = nullptr;

  /// False, with the first missing symbol in `why`, when the library is not one that can be used.
  bool resolve(std::string& why) {
    const auto need = [&](auto& function, const char* symbol) {
      if (library.get(function, symbol)) return true;
      why = "it lacks " + std::string(symbol);
      return false;
    };
    return need(create, "cublasCreate_v2") && need(destroy, "cublasDestroy_v2") &&
           need(property, "cublasGetProperty") && need(status_string, "cublasGetStatusString") &&
           need(set_stream, "cublasSetStream_v2") && need(set_workspace, "cublasSetWorkspace_v2") &&
           need(set_math_mode, "cublasSetMathMode") &&
           need(set_pointer_mode, "cublasSetPointerMode_v2") && need(gemm, "cublasGemmEx_64") &&
           need(gemm_batched, "cublasGemmStridedBatchedEx_64");
  }

  void check(CublasStatus status, const char* tried) const {
    if (status == kSuccess) return;
    throw Error(ErrorKind::device, std::string(tried) + " failed: " + status_string(status));
  }
};

/// cuBLAS in strict f32. Column-major, so it is asked for C^T = op(B)^T op(A)^T: the operands
/// change places and a row-major matrix is its own transpose.
class Cublas final : public BaselineLibrary {
 public:
  Cublas(CudaDevice& device, CublasApi api)
      : device_(device), api_(std::move(api)), workspace_(device, kWorkspaceBytes) {
    const CurrentContext current(device_.context());
    api_.check(api_.create(&handle_), "starting cuBLAS");
    try {
      api_.check(api_.set_math_mode(handle_, kDefaultMath), "setting cuBLAS's math mode");
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
  std::string version() const override {
    int major = 0, minor = 0, patch = 0;
    api_.check(api_.property(kMajorVersion, &major), "asking cuBLAS for its version");
    api_.check(api_.property(kMinorVersion, &minor), "asking cuBLAS for its version");
    api_.check(api_.property(kPatchLevel, &patch), "asking cuBLAS for its version");
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }
  bool supports(const Problem& problem) const override {
    return problem.a == DType::f32 && problem.b == DType::f32 && problem.c == DType::f32 &&
           problem.accumulator == DType::f32 && problem.math == MathMode::strict && problem.m > 0 &&
           problem.n > 0 && problem.k > 0 && problem.batch > 0;
  }
  void multiply(const Problem& problem, const Call& call) override;

 private:
  void use_stream(Stream stream);
  void use_pointers(int mode);

  CudaDevice& device_;
  CublasApi api_;
  DeviceBuffer workspace_;
  CublasHandle handle_ = nullptr;
  std::optional<Stream> stream_;
  int pointers_ = -1;
};

void Cublas::use_stream(Stream stream) {
  if (stream_ == stream) return;
  stream_.reset();
  api_.check(api_.set_stream(handle_, stream_handle(stream)), "giving cuBLAS a stream");
  // Each change of stream takes cuBLAS back to a workspace of its own.
  api_.check(api_.set_workspace(handle_, workspace_.data(), kWorkspaceBytes),
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
  const CurrentContext current(device_.context());
  const bool on_device = call.alpha_device != nullptr;
  use_stream(call.stream);
  use_pointers(on_device ? kPointersOnDevice : kPointersOnHost);
  const float alpha = static_cast<float>(call.alpha);
  const float beta = static_cast<float>(call.beta);
  const void* alpha_at = on_device ? call.alpha_device : &alpha;
  const void* beta_at = on_device ? call.beta_device : &beta;
  const int op_a = a_transposed(problem.layout) ? kTransposed : kNotTransposed;
  const int op_b = b_transposed(problem.layout) ? kTransposed : kNotTransposed;
  if (problem.batch == 1) {
    api_.check(api_.gemm(handle_, op_b, op_a, problem.n, problem.m, problem.k, alpha_at, call.b,
                         kReal32, call.ldb, call.a, kReal32, call.lda, beta_at, call.c, kReal32,
                         call.ldc, kCompute32, kDefaultAlgorithm),
               "cuBLAS's product");
  } else {
    api_.check(api_.gemm_batched(handle_, op_b, op_a, problem.n, problem.m, problem.k, alpha_at,
                                 call.b, kReal32, call.ldb, call.stride_b, call.a, kReal32,
                                 call.lda, call.stride_a, beta_at, call.c, kReal32, call.ldc,
                                 call.stride_c, problem.batch, kCompute32, kDefaultAlgorithm),
               "cuBLAS's batched product");
  }
}

}  // namespace

std::unique_ptr<BaselineLibrary> load_cublas(Device& device, std::string* why) {
  auto* gpu = dynamic_cast<CudaDevice*>(&device);
  const auto give_up = [why](const std::string& reason) {
    if (why) *why = reason;
    return nullptr;
  };
  if (!gpu) return give_up("cuBLAS runs on NVIDIA GPUs only");
  const LibrarySearch search =
      find_library({"libcublas", {13, 12}, "", "TILEWISE_CUBLAS"}, driver_major());
  std::vector<std::string> refused;
  for (const LibraryCandidate& candidate : search.candidates) {
    std::string reason;
    CublasApi api;
    api.library = open_with_neighbours(candidate, {"libcublasLt"}, reason);
    if (!api.library) {
      refused.push_back(reason);
      continue;
    }
    try {
      if (api.resolve(reason)) return std::make_unique<Cublas>(*gpu, std::move(api));
    } catch (const Error& error) {
      reason = error.what();
    }
    refused.push_back(candidate.path + ": " + reason);
  }
  return give_up("no usable cuBLAS (libcublas.so.13 or libcublas.so.12); looked in " +
                 join(search.places) + (refused.empty() ? "" : "; tried: " + join(refused, "; ")));
}

}  // namespace tilewise::cuda
