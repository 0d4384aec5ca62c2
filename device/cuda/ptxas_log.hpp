#pragma once
#include <string>

#include "vocabulary/image.hpp"

namespace tilewise::cuda {

/// A kernel's resources in the assembler's report (--ptxas-options=-v); 0 for each value that the
/// log lacks.
ResourceUsage usage_in_log(const std::string& log, const std::string& entry);

/// The assembler's remark that it serialises wgmma instructions, adds waits between them or does
/// not move registers (C7510 and similar); empty without one. Such a kernel is correct, but several
/// times slower than its source suggests.
std::string serialisation_in_log(const std::string& log);

}  // namespace tilewise::cuda
