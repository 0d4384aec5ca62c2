#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise {

/// Points of a range that may be the next one, with the loss that is expected there. Not
/// thread-safe.
class PointsAhead {
 public:
  static constexpr std::size_t kPoints = 24;

  /// Takes points from `next` until there are kPoints, or no more. Asks `loss_of` (on `threads`
  /// threads, 0 = all cores) for those that are new, or for all where `version` is another than the
  /// last time.
  void fill(const std::function<std::optional<Problem>()>& next, std::size_t version,
            const std::function<double(const Problem&)>& loss_of, int threads);
  /// Removes the point with the greatest loss; each third time the one that has waited longest, so
  /// that every part of the range is seen. None where there is none.
  std::optional<Problem> take();

 private:
  struct Point {
    Problem problem;
    double loss = 0;
    bool known = false;  ///< the loss, of this version
  };
  std::vector<Point> points_;
  std::size_t version_ = 0;
  int turn_ = 0;
};

}  // namespace tilewise
