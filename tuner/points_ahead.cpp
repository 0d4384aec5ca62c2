#include "tuner/points_ahead.hpp"

#include <algorithm>
#include <utility>

#include "vocabulary/thread_pool.hpp"

namespace tilewise {

void PointsAhead::fill(const std::function<std::optional<Problem>()>& next, std::size_t version,
                       const std::function<double(const Problem&)>& loss_of, int threads) {
  if (version != std::exchange(version_, version))
    for (Point& point : points_) point.known = false;
  while (points_.size() < kPoints) {
    std::optional<Problem> problem = next();
    if (!problem) break;
    points_.push_back({*std::move(problem)});
  }
  parallel_for(static_cast<std::int64_t>(points_.size()), threads, [&](std::int64_t i, int) {
    Point& point = points_[static_cast<std::size_t>(i)];
    if (!std::exchange(point.known, true)) point.loss = loss_of(point.problem);
  });
}

std::optional<Problem> PointsAhead::take() {
  constexpr int kTurns = 3;
  if (points_.empty()) return std::nullopt;
  const auto chosen =
      ++turn_ % kTurns == 0
          ? points_.begin()
          : std::max_element(points_.begin(), points_.end(),
                             [](const Point& x, const Point& y) { return x.loss < y.loss; });
  Problem problem = std::move(chosen->problem);
  points_.erase(chosen);
  return problem;
}

}  // namespace tilewise
