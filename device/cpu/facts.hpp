#pragma once
#include <string_view>

namespace tilewise::cpu {

/// The processor type that kernels are compiled for: "x86-64 avx2 fma", "x86-64", "aarch64",
/// "other".
std::string_view processor();
/// Whether an image for `cpu` runs on this processor.
bool runs_here(std::string_view cpu);

}  // namespace tilewise::cpu
