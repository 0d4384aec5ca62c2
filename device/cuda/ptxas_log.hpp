#pragma once
#include <string>

#include "vocabulary/image.hpp"

namespace tilewise::cuda {

/// A kernel's resources in the assembler's report (--ptxas-options=-v); 0 for each value that the
/// log lacks.
ResourceUsage usage_in_log(const std::string& log, const std::string& entry);

}  // namespace tilewise::cuda
