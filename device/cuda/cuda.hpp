#pragma once
#include <memory>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"

/// NVIDIA's driver, NVRTC, NVML and cuBLAS, every one loaded at run time. No CUDA type appears
/// here.
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

/// cuBLAS where its library is found, else null (and `why` says what was tried). Searched like
/// NVRTC; TILEWISE_CUBLAS names it. Strict f32, no TF32, with a workspace of its own of 32 MiB on
/// `device`, which must live longer.
std::unique_ptr<BaselineLibrary> load_cublas(Device& device, std::string* why = nullptr);

}  // namespace tilewise::cuda
