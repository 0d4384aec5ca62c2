#pragma once
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "device/device.hpp"

namespace tilewise {

/// Opens a device by name: "host" or "host:sm_90a" is the CPU, all else a GPU (see
/// cuda::open_device).
std::unique_ptr<Device> open_device(const std::string& which);

/// The compiler that makes images for a target: NVRTC (at `nvrtc`; empty searches), or the system's
/// C++ compiler. Throws Error(compiler) when it is not there.
std::unique_ptr<Compiler> load_compiler(const Target& target, const std::string& nvrtc = "");

/// The other library's default call on a device; null where there is none.
std::unique_ptr<BaselineLibrary> load_baseline(Device& device);
/// Every way in which that library is timed beside our kernels: its default call, strict f32 by
/// CUBLAS_PEDANTIC_MATH, and the best of what cublasLt offers. `device` must outlive them.
BaselineLibraries load_baselines(Device& device);

}  // namespace tilewise
