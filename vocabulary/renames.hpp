#pragma once
#include "vocabulary/configuration.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// The candidate with today's parameter names: databases of schema version 2 and exports of that
/// time hold older ones (docs/database.md lists both). A candidate of today is returned as it is.
Candidate renamed(Candidate candidate);

/// The same for the constants of a kernel. The source and entry stay: an image's symbol is its
/// entry.
KernelSpec renamed(KernelSpec kernel);

}  // namespace tilewise
