#pragma once
#include <string>

#include "vocabulary/image.hpp"

namespace tilewise::cuda {

/// A kernel's resources in the assembler's report (--ptxas-options=-v); 0 for each value that the
/// log lacks.
ResourceUsage usage_in_log(const std::string& log, const std::string& entry);

/// The assembler's remark that it runs wgmma one instruction at a time, adds waits between them or
/// leaves registers where they are (C7510 and its kin); empty without one. Such a kernel is right,
/// and several times slower than its source says.
std::string serialisation_in_log(const std::string& log);

}  // namespace tilewise::cuda
