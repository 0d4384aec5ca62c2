#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"

/// NVIDIA's driver, NVRTC, NVML, cuBLAS and cublasLt, every one loaded at run time. No CUDA type
/// appears here.
namespace tilewise::cuda {

/// The GPUs the driver shows (CUDA_VISIBLE_DEVICES obeyed), in its order. Creates no context.
/// Throws Error(no_device): no driver library, driver too old, no GPU, all hidden - one clear line.
std::vector<DeviceInfo> list_devices();

/// Opens a device by index ("0"), by UUID ("GPU-..." or a unique prefix of it), or "auto" (the
/// first), and retains its primary context. Throws Error(no_device) naming the devices there are.
std::unique_ptr<Device> open_device(const std::string& which);

/// The device whose context is current on this thread (a program that uses the CUDA runtime has
/// one), else device 0. Throws Error(no_device).
std::unique_ptr<Device> open_current_device();

/// Loads NVRTC. `path` names a library file or a folder (of libraries, a toolkit, an environment);
/// empty searches: TILEWISE_NVRTC (a file or folder, and then nothing else), the loader's path,
/// CUDA_HOME and CUDA_PATH, /usr/local/cuda*, pip's NVIDIA wheels (.tilewise/venv beside the
/// program, the active, the user's and the system's Python). Takes the newest major version that is
/// not above the driver's where there is a driver; one above it only where there is no other.
/// Throws Error(compiler) listing where it looked and what to do.
std::unique_ptr<Compiler> load_compiler(const std::string& path = "");

/// How cuBLAS is told to compute: its default call, or CUBLAS_PEDANTIC_MATH.
enum class CublasMath : std::uint8_t { default_, pedantic };

/// Why cuBLAS does not do a problem, as far as its documentation says; empty where it does. What
/// it refuses beyond that throws Error(device) with its words when it is called. f32x3 counts as
/// done: by strict f32, the nearest that cuBLAS has. Pedantic: strict f32 only.
std::string why_not_cublas(const Problem& problem, CublasMath math = CublasMath::default_);
/// The same of cublasLt.
std::string why_not_cublas_lt(const Problem& problem);

/// cuBLAS where its library is found, else null (and `why` says what was tried). Searched like
/// NVRTC; TILEWISE_CUBLAS names it. Every product kind that it has, each in the kind's own math (no
/// TF32 unless the problem's mode is tf32), with a workspace of its own of 32 MiB on `device`,
/// which must live longer.
std::unique_ptr<BaselineLibrary> load_cublas(Device& device, std::string* why = nullptr,
                                             CublasMath math = CublasMath::default_);

/// cublasLt, asked for several ways to do a problem: what a careful user times before settling for
/// one. Types and modes as load_cublas(), and e4m3. Not thread-safe.
class CublasLt {
 public:
  virtual ~CublasLt() = default;
  virtual std::string version() const = 0;  ///< "13.1.0"
  /// Asks the heuristic for at most `most` candidates for `problem`, best first by its own guess,
  /// on operands placed as those of `calls` are (leading dimensions and strides of the first; the
  /// alignment that all share). Returns how many it gave. Forgets what was asked before. Throws
  /// Error(unsupported) with why_not_cublas_lt(), Error(device) with cublasLt's words.
  virtual int ask(const Problem& problem, std::span<const Call> calls, int most) = 0;
  /// Enqueues one product by candidate 0 .. ask() - 1. alpha and beta are the host's; beta must be
  /// 0 where C is 8-bit floats, else Error(unsupported). Throws Error(device) with cublasLt's words
  /// where it refuses what its own heuristic gave: the other candidates may be tried.
  virtual void multiply(int candidate, const Call& call) = 0;
};

/// cublasLt where its library is found (beside cuBLAS), else null, and `why` says what was tried.
/// With a workspace of its own of 32 MiB on `device`, which must live longer.
std::unique_ptr<CublasLt> load_cublas_lt(Device& device, std::string* why = nullptr);

/// How many candidates a careful user has cublasLt's heuristic give.
inline constexpr int kCublasLtCandidates = 32;
/// cublasLt as a library among others: it offers its heuristic's candidates. Null where it is not
/// found.
std::unique_ptr<BaselineLibrary> load_best_of_cublas_lt(Device& device);

}  // namespace tilewise::cuda
