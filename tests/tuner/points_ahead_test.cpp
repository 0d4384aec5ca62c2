// PointsAhead: the order in which cover() takes points.
#include "tuner/points_ahead.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace tilewise::points_ahead_test {
namespace {

using testing::ElementsAre;

struct AheadOfRange : testing::Test {
  /// Points of m = 1, 2, ..., last.
  std::optional<Problem> next() {
    if (made == last) return std::nullopt;
    Problem problem;
    problem.m = ++made;
    return problem;
  }
  void fill(std::size_t version = 1) {
    points.fill([this] { return next(); }, version,
                [this](const Problem& problem) {
                  ++asked;
                  return loss(problem.m);
                },
                2);
  }
  std::vector<std::int64_t> take(int count) {
    std::vector<std::int64_t> taken;
    for (int i = 0; i < count; ++i) {
      const std::optional<Problem> problem = points.take();
      taken.push_back(problem ? problem->m : 0);
    }
    return taken;
  }

  PointsAhead points;
  std::function<double(std::int64_t)> loss = [](std::int64_t m) {
    return static_cast<double>(m * 7 % 30);
  };
  std::int64_t made = 0, last = 1000;
  std::atomic<int> asked{0};
};

TEST_F(AheadOfRange, TheGreatestLossComesFirstAndEachThirdTimeTheOldest) {
  last = 6;  // losses 7, 14, 21, 28, 5, 12
  fill();
  EXPECT_THAT(take(7), ElementsAre(4, 3, 1, 2, 6, 5, 0));
}

TEST_F(AheadOfRange, ALossIsAskedForOnceAndAgainOfANewVersion) {
  constexpr int kPoints = PointsAhead::kPoints;
  fill();
  EXPECT_EQ(asked, kPoints);
  EXPECT_EQ(made, kPoints) << "no more points than are needed";
  take(2);
  fill();
  EXPECT_EQ(asked, kPoints + 2) << "the new ones";
  loss = [](std::int64_t m) { return -static_cast<double>(m); };
  fill(2);
  EXPECT_EQ(asked, 2 * kPoints + 2);
  take(1);  // the third: the oldest
  EXPECT_THAT(take(1), ElementsAre(2)) << "the greatest of -m";
}

TEST_F(AheadOfRange, OfAnEmptyRangeIsNone) {
  last = 0;
  fill();
  EXPECT_THAT(take(1), ElementsAre(0));
}

}  // namespace
}  // namespace tilewise::points_ahead_test
