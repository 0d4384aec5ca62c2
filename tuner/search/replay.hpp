#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tuner/search/recorded_space.hpp"

namespace tilewise {

struct ReplayOptions {
  int repeats = 100;          ///< seeds 1 .. repeats
  int evaluations = 200;      ///< per repeat; failed configurations count
  std::size_t under_way = 1;  ///< proposals without a result at a time; results return in order
  int threads = 0;            ///< 0 = all cores; does not affect the result
};

/// Results of a strategy. Index i is after i + 1 evaluations.
struct ReplayResult {
  std::string strategy;
  /// The least time of all over the least time found, averaged over the repeats: 0 to 1.
  std::vector<double> reached;
  double ms_per_proposal = 0;  ///< core time, without reading results
};

/// Replays a strategy (strategies()) on recorded times. Deterministic except for ms_per_proposal.
ReplayResult replay(const RecordedSpace& recorded, const std::string& strategy,
                    const ReplayOptions& options);

/// The exact expectation of ReplayResult::reached for random draws without replacement.
std::vector<double> random_expectation(const RecordedSpace& recorded, int evaluations);

}  // namespace tilewise
