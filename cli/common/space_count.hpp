#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/common/output.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise::cli {

/// The size of one template's space for one problem.
struct SpaceCount {
  std::string target;
  Problem problem;
  std::string kernel_template;
  double raw = 0;
  PointCount valid;
  std::int64_t draws = 0, refused = 0;          ///< uniform draws of the raw space
  std::map<std::string, std::int64_t> reasons;  ///< constraint -> draws that violate it first

  double acceptance() const {
    return static_cast<double>(draws - refused) / static_cast<double>(draws);
  }
  double share() const { return raw > 0 ? valid.points / raw : 0; }
};

/// Counts the space of each template. `limits` also has the number of draws for the refusals.
std::vector<SpaceCount> count_space(const Problem& problem, const DeviceInfo& device,
                                    const std::vector<const KernelTemplate*>& templates,
                                    const Subspace& subspace, const CountLimits& limits);
/// The array "spaces" as text.
Json counts_json(const std::vector<SpaceCount>& counts);
/// "324", "8.8e10".
std::string count_text(double value);
/// A table of sizes, and one of the constraints that refuse draws.
void print_counts(const std::vector<SpaceCount>& counts, const Output& output);

}  // namespace tilewise::cli
