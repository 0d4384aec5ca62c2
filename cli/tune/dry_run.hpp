#pragma once
#include <vector>

#include "cli/common/output.hpp"
#include "db/database.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise::cli {

/// A search that `tune` would make.
struct PlannedSearch {
  DeviceInfo device;
  Problem problem;
  double budget_seconds = 0;
  std::int64_t max_evaluations = 0;  ///< 0 = no limit
  std::vector<const KernelTemplate*> templates;
  Subspace subspace;
};

/// Prints the spaces of the searches, the constraints that refuse configurations, and the expected
/// time. The time is the budget, or less where the space or the candidate limit is smaller, at the
/// rate of earlier searches on the same GPU in `database` (null: no rate). The searches share the
/// work of one count: those of a long list are estimates with errors.
void print_dry_run(const std::vector<PlannedSearch>& searches, const Database* database,
                   std::uint64_t seed, const Output& output);

}  // namespace tilewise::cli
