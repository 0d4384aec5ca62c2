#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"

/// NVIDIA's driver, NVRTC, NVML, cuBLAS and cublasLt, all loaded at run time. This header has no
/// CUDA types.
namespace tilewise::cuda {

/// The GPUs visible to the driver (after CUDA_VISIBLE_DEVICES), in its order. Creates no context.
/// Throws Error(no_device), in one line, for a missing or old driver and when no GPU is visible.
std::vector<DeviceInfo> list_devices();

/// Whether a text has the form of a device name for open_device().
bool names_gpu(const std::string& which);

/// Opens a device by index ("0"), by UUID ("GPU-..." or a unique prefix of it), or "auto" (the
/// first), and retains its primary context. Throws Error(no_device) with the list of devices.
std::unique_ptr<Device> open_device(const std::string& which);

/// The device of the context that is current on this thread (programs that use the CUDA runtime
/// have one), otherwise device 0. Throws Error(no_device).
std::unique_ptr<Device> open_current_device();

/// The index of the device whose primary context is current on this thread. -1 with another
/// context, without a context, or without a driver. Some 20 ns.
int device_of_current_primary_context() noexcept;

/// Loads NVRTC. `path` is a library file or a folder (of libraries, a toolkit, an environment). If
/// it is empty, the search covers TILEWISE_NVRTC (a file or folder; when set, nothing else), the
/// loader's path, CUDA_HOME and CUDA_PATH, /usr/local/cuda*, and pip's NVIDIA wheels
/// (.tilewise/venv next to the program; the active, the user's and the system's Python). Prefers
/// the newest major version that is not above the driver's, then newer ones. Throws Error(compiler)
/// with the searched places and the remedy.
std::unique_ptr<Compiler> load_compiler(const std::string& path = "");

/// cuBLAS's math mode: its default, or CUBLAS_PEDANTIC_MATH.
enum class CublasMath : std::uint8_t { default_, pedantic };

/// Why cuBLAS does not support a problem, by its documentation; empty if it does. Refusals beyond
/// the documentation throw Error(device) at the call. f32x3 counts as supported, computed by strict
/// f32, the nearest mode of cuBLAS. pedantic: strict f32 only.
std::string why_not_cublas(const Problem& problem, CublasMath math = CublasMath::default_);
/// The same for cublasLt.
std::string why_not_cublas_lt(const Problem& problem);

/// cuBLAS, or null when its library is not found (`why` then lists the attempts). The search is
/// that of NVRTC, with the variable TILEWISE_CUBLAS. Computes every product kind of the library
/// with that kind's own math (TF32 only in mode tf32), with its own workspace of 32 MiB on
/// `device`, which must outlive it.
std::unique_ptr<BaselineLibrary> load_cublas(Device& device, std::string* why = nullptr,
                                             CublasMath math = CublasMath::default_);

/// cublasLt with several candidates per problem, for timing all of them. Supports the types and
/// modes of load_cublas(), and e4m3. Not thread-safe.
class CublasLt {
 public:
  virtual ~CublasLt() = default;
  virtual std::string version() const = 0;  ///< "13.1.0"
  /// Makes the heuristic list at most `most` candidates for `problem`, best first by its estimate.
  /// Leading dimensions and strides are those of the first call; the alignment is common to all
  /// calls. Returns the number of candidates; earlier ones are dropped. Throws Error(unsupported)
  /// with why_not_cublas_lt(), Error(device) with cublasLt's message.
  virtual int ask(const Problem& problem, std::span<const Call> calls, int most) = 0;
  /// Enqueues one product with candidate 0 .. ask() - 1. alpha and beta are in host memory. If C is
  /// 8-bit floats, beta must be 0, otherwise throws Error(unsupported). Throws Error(device) if
  /// cublasLt refuses a candidate of its heuristic; other candidates may still work.
  virtual void multiply(int candidate, const Call& call) = 0;
};

/// cublasLt, or null when its library is not found next to cuBLAS (`why` then lists the attempts).
/// Has its own workspace of 32 MiB on `device`, which must outlive it.
std::unique_ptr<CublasLt> load_cublas_lt(Device& device, std::string* why = nullptr);

/// The number of timed candidates of cublasLt's heuristic.
inline constexpr int kCublasLtCandidates = 32;
/// cublasLt as a BaselineLibrary that offers its heuristic's candidates. Null if it is not found.
std::unique_ptr<BaselineLibrary> load_best_of_cublas_lt(Device& device);

}  // namespace tilewise::cuda
