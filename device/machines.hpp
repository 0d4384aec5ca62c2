#pragma once
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "device/device.hpp"

namespace tilewise {

/// Opens a device by name: names of cpu::is_host() are the CPU, "current" is the GPU of this
/// thread (cuda::open_current_device()), "auto", an index or a UUID is a GPU (cuda::open_device()).
/// Throws Error(invalid_argument) with the list for any other text.
std::unique_ptr<Device> open_device(const std::string& which);

/// The compiler for a target: NVRTC (at `nvrtc`; empty searches) or the system's C++ compiler.
/// Throws Error(compiler) when it is missing.
std::unique_ptr<Compiler> load_compiler(const Target& target, const std::string& nvrtc = "");

/// The other library's default call on a device; null without that library.
std::unique_ptr<BaselineLibrary> load_baseline(Device& device);
/// Every way to time that library in the same run as our kernels: its default call, strict f32 by
/// CUBLAS_PEDANTIC_MATH, and the best candidate of cublasLt. `device` must outlive them.
BaselineLibraries load_baselines(Device& device);

}  // namespace tilewise
