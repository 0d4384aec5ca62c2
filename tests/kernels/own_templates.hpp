#pragma once
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"

namespace tilewise::check {

/// The checkers' own templates, in no catalog: small, and with what the catalog's do not use yet.
///   staged:    a pipeline filled by cp.async
///   fragments: tensor core operations, on floats that are small integers, which 16-bit numbers
///              hold exactly
///   tiles:     tiles that the GPU copies by itself, through a pipeline
std::vector<KernelTemplate> own_templates();

/// The source of one of them (tests/kernels/NAME), or one of the program's.
KernelSource source_by_name(const std::string& name);

}  // namespace tilewise::check
