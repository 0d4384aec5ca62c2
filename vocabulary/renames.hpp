#pragma once
#include "vocabulary/configuration.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// The candidate with today's parameter names. Databases of schema version 2 and exports of that
/// time have older ones (docs/database.md lists both). A current candidate is returned unchanged.
Candidate renamed(Candidate candidate);

/// The same for a kernel's constants. Source and entry stay: an image's symbol is its entry.
KernelSpec renamed(KernelSpec kernel);

}  // namespace tilewise
