#pragma once
#include "templates/kernel_template.hpp"

namespace tilewise::emulated {

/// The family whose kernel multiplies residues, or halves.
const KernelTemplate& multiplier();
/// Its configuration for the inner products, from the configuration of an emulated problem.
Configuration of_multiplier(const Configuration& c);

/// The plan of an emulated product: see docs/emulation.md.
Plan make_plan(const Problem& problem, const Configuration& c, const DeviceInfo& device);

}  // namespace tilewise::emulated
