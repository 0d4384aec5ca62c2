#pragma once
#include <string_view>

#include "vocabulary/plan.hpp"

namespace tilewise {

/// The inverse of to_string(KernelSpec): "simt.cu:simt TILE_K=8 TILE_M=128". Throws
/// Error(invalid_argument).
KernelSpec parse_kernel(std::string_view text);

}  // namespace tilewise
