#pragma once
#include "templates/kernel_template.hpp"

namespace tilewise {

// One descriptor a kernel family, beside its .cu; catalog.cpp is the table of them.
KernelTemplate naive_template();
KernelTemplate tiled_template();
KernelTemplate simt_template();
KernelTemplate skinny_template();
KernelTemplate mma_template();
KernelTemplate small_template();

/// f32 in, f32 out, strict, any batch.
bool supports_strict_f32(const Problem& problem, const DeviceInfo& device);
/// Every kind of product whose math is strict, any batch: what runs on the ordinary units of any
/// GPU.
bool supports_any(const Problem& problem, const DeviceInfo& device);

}  // namespace tilewise
