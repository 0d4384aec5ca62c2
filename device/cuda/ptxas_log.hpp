#pragma once
#include <string>

#include "vocabulary/image.hpp"

namespace tilewise::cuda {

/// What the assembler's report (--ptxas-options=-v) says a kernel uses. Zeros where the log does
/// not speak of it.
ResourceUsage usage_in_log(const std::string& log, const std::string& entry);

}  // namespace tilewise::cuda
