#pragma once
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"

namespace tilewise::check {

/// The checkers' own templates, in no catalog: small kernels for single features.
///   staged:    a pipeline filled by cp.async
///   fragments: tensor core operations, on floats that are small integers, exact in 16 bits
///   tiles:     tiles loaded by TMA, through a pipeline
std::vector<KernelTemplate> own_templates();

/// The source of one of them (tests/kernels/NAME), or of the program.
KernelSource source_by_name(const std::string& name);

}  // namespace tilewise::check
