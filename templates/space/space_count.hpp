#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tilewise {

/// A point of a product of finite axes. By axis: the index of its value.
using SpacePoint = std::vector<std::uint16_t>;

/// A condition on points. `holds` depends only on the axes of `reads`.
struct PointCondition {
  std::vector<std::size_t> reads;
  std::function<bool(const SpacePoint&)> holds;
};

struct CountLimits {
  /// At most so many combinations of values in one sum. Conditions that need more are left out of
  /// sums.
  double combinations = 1 << 22;
  /// The conditions left out are checked on every combination of the values that they read, where
  /// these are at most so many; else on `draws` points.
  int listed = 1'000'000;
  int draws = 20'000;
  std::uint64_t seed = 1;
};

struct PointCount {
  double points = 0;  ///< points that meet every condition
  /// Of `points`; 0 where exact. One more draw of either result is assumed, so that it is positive
  /// where all draws have the same result.
  double standard_error = 0;
  bool exact = true;  ///< counted, not estimated; above 2^53 rounded as a double is
};

/// The number of points of sizes[0] x sizes[1] x ... that meet every condition.
///
/// By variable elimination: each axis in turn is summed out of the product of the conditions and
/// earlier sums that read it, into a table over the other axes of these. Where a sum would run over
/// too many combinations, the condition that reads the most combinations is left out. The
/// conditions left out are checked afterwards: on every combination of the values that they read
/// where these are few; else on points drawn uniformly from those that meet the other conditions,
/// and the count is scaled by the share of draws that pass. Deterministic; thread-safe where the
/// conditions are.
PointCount count_points(const std::vector<std::size_t>& sizes,
                        const std::vector<PointCondition>& conditions,
                        const CountLimits& limits = {});

}  // namespace tilewise
