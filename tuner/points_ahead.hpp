#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise {

/// Points of a range that may be taken next, with their expected loss. Not thread-safe.
class PointsAhead {
 public:
  static constexpr std::size_t kPoints = 24;

  /// Takes points from `next` until there are kPoints, or no more. Calls `loss_of` (on `threads`
  /// threads, 0 = all cores) for new points, or for all points when `version` has changed.
  void fill(const std::function<std::optional<Problem>()>& next, std::size_t version,
            const std::function<double(const Problem&)>& loss_of, int threads);
  /// Removes the point with the greatest loss, but every third time the oldest one, so that every
  /// part of the range is visited. Empty without a point.
  std::optional<Problem> take();

 private:
  struct Point {
    Problem problem;
    double loss = 0;
    bool known = false;  ///< `loss` is that of the current version
  };
  std::vector<Point> points_;
  std::size_t version_ = 0;
  int turn_ = 0;
};

}  // namespace tilewise
