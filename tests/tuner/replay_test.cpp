// Strategies on recorded times.
#include "tuner/search/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tuner/search/strategy.hpp"

namespace tilewise::replay_test {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

/// A space of four parameters; some combinations are not valid, some fail.
RecordedSpace made_up() {
  RecordedTable table{"made_up", {"A", "B", "C", "KIND"}, {}};
  const std::vector<std::string> kinds{"first", "second", "third"};
  for (int a = 0; a < 6; ++a)
    for (int b = 1; b <= 32; b *= 2)
      for (int c = 1; c < 6; ++c)
        for (const std::string& kind : kinds) {
          if ((a + b + c) % 4 == 3) continue;
          RecordedTable::Row row{{std::to_string(a), std::to_string(b), std::to_string(c), kind},
                                 std::nullopt};
          const double time = 100 + 10 * std::abs(a - 4) + 8 * std::abs(std::log2(b) - 3) +
                              5 * std::abs(c - 2) + (kind == "second" ? 0 : 20);
          if ((a * b + c) % 7 != 5) row.microseconds = time;
          table.rows.push_back(row);
        }
  RecordedSpace space{"made up", {}, {}};
  add_table(space, table);
  return space;
}

RecordedSpace times_in_order(const std::vector<std::optional<double>>& times) {
  RecordedTable table{"made_up", {"A"}, {}};
  for (std::size_t i = 0; i < times.size(); ++i)
    table.rows.push_back({{std::to_string(i)}, times[i]});
  RecordedSpace space{"made up", {}, {}};
  add_table(space, table);
  return space;
}

TEST(Replay, CountsFailuresAndKeepsTheBest) {
  const RecordedSpace space = times_in_order({std::nullopt, 40, 80, 20});
  const ReplayResult result =
      replay(space, "exhaustive", {.repeats = 2, .evaluations = 6, .threads = 1});
  EXPECT_THAT(result.reached, ElementsAre(0, 0.5, 0.5, 1, 1, 1));
}

TEST(Replay, TheExpectationOfRandomDrawsIsExact) {
  EXPECT_THAT(random_expectation(times_in_order({10, 20}), 2), ElementsAre(DoubleEq(0.75), 1));
  EXPECT_THAT(random_expectation(times_in_order({10, std::nullopt, 20, 40}), 2),
              ElementsAre(DoubleEq((1 + 0.5 + 0.25) / 4), DoubleEq((3 + 2 * 0.5 + 0.25) / 6)));
}

TEST(Replay, RandomSearchReachesItsExpectation) {
  const RecordedSpace space = made_up();
  const auto reached = replay(space, "random", {.repeats = 300, .evaluations = 40}).reached;
  const auto expected = random_expectation(space, 40);
  for (const std::size_t i : {4u, 19u, 39u}) EXPECT_NEAR(reached[i], expected[i], 0.02) << i;
}

TEST(Replay, IsTheSameOnAnyNumberOfThreads) {
  const RecordedSpace space = made_up();
  const ReplayOptions one{.repeats = 6, .evaluations = 30, .under_way = 4, .threads = 1};
  ReplayOptions four = one;
  four.threads = 4;
  EXPECT_EQ(replay(space, "local", one).reached, replay(space, "local", four).reached);
}

/// Each strategy proposes the same candidates for any order of the listed values.
TEST(Replay, NoStrategyProfitsFromTheOrderOfValues) {
  const RecordedSpace space = made_up();
  RecordedSpace shuffled = space;
  shuffled.shuffle_values(3);
  const ReplayOptions options{.repeats = 3, .evaluations = 60, .under_way = 3, .threads = 1};
  for (const StrategyInfo& info : strategies())
    EXPECT_EQ(replay(space, info.name, options).reached,
              replay(shuffled, info.name, options).reached)
        << info.name;
}

TEST(Replay, EachSearchIsBetterThanRandomDraws) {
  const RecordedSpace space = made_up();
  const auto random = random_expectation(space, 80);
  for (const StrategyInfo& info : strategies()) {
    if (info.name == "exhaustive" || info.name == "random") continue;
    const auto reached = replay(space, info.name, {.repeats = 12, .evaluations = 80}).reached;
    EXPECT_GT(reached.back(), random.back()) << info.name;
  }
}

}  // namespace
}  // namespace tilewise::replay_test
