#pragma once
#include "templates/kernel_template.hpp"

namespace tilewise {

// One descriptor a kernel family, beside its .cu; catalog.cpp is the table of them.
KernelTemplate naive_template();
KernelTemplate tiled_template();
KernelTemplate simt_template();
KernelTemplate skinny_template();

/// f32 in, f32 out, strict, one product at a time: what the SIMT families do today.
bool supports_strict_f32(const Problem& problem, const DeviceInfo& device);

}  // namespace tilewise
