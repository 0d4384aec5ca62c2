#pragma once
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "device/device.hpp"

namespace tilewise {

/// Opens a device by name: "host" or "host:sm_90a" is the CPU, any other name a GPU (see
/// cuda::open_device).
std::unique_ptr<Device> open_device(const std::string& which);

/// The compiler for a target: NVRTC (at `nvrtc`; empty searches) or the system's C++ compiler.
/// Throws Error(compiler) when it is missing.
std::unique_ptr<Compiler> load_compiler(const Target& target, const std::string& nvrtc = "");

/// The other library's default call on a device; null without one.
std::unique_ptr<BaselineLibrary> load_baseline(Device& device);
/// Every way of timing that library beside our kernels: its default call, strict f32 by
/// CUBLAS_PEDANTIC_MATH, and the best candidate of cublasLt. `device` must outlive them.
BaselineLibraries load_baselines(Device& device);

}  // namespace tilewise
