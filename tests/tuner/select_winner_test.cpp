#include "tuner/select_winner.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tuner/reproduce.hpp"

namespace tilewise::select_winner_test {
namespace {

Record timed(const std::string& name, double us, double spread = 0.01) {
  Record record;
  record.candidate.kernel_template = name;
  record.measurement = Measurement{};
  record.measurement->median_us = us;
  record.measurement->spread = spread;
  return record;
}

TEST(SelectWinner, BeatsByMoreThanTheLargerSpread) {
  const auto beats_at = [](double us, double spread, double other_us, double other_spread) {
    return beats(*timed("a", us, spread).measurement,
                 *timed("b", other_us, other_spread).measurement);
  };
  EXPECT_TRUE(beats_at(98, 0.01, 100, 0.01));
  EXPECT_FALSE(beats_at(99.5, 0.01, 100, 0.01));
  EXPECT_FALSE(beats_at(98, 0.01, 100, 0.05));
  EXPECT_FALSE(beats_at(98, 0.05, 100, 0.01));
  EXPECT_FALSE(beats_at(100, 0, 100, 0));
  EXPECT_FALSE(beats_at(std::nan(""), 0.01, 100, 0.01));
  EXPECT_FALSE(beats_at(50, std::nan(""), 100, 0.01));
}

TEST(SelectWinner, FinalistsAreTheBestWithinTenPercentAndWhoIsServed) {
  Record failed = timed("failed", 1);
  failed.outcome = Outcome::wrong_result;
  const std::vector<Record> all{timed("c", 108),           timed("a", 100),   failed,
                                timed("far", 120),         timed("old", 150), timed("b", 101),
                                timed("nan", std::nan(""))};
  const auto names = [&](int count, std::optional<Candidate> incumbent = {}) {
    std::string text;
    for (const Record& r : pick_finalists(all, count, incumbent))
      text += r.candidate.kernel_template + " ";
    return text;
  };
  EXPECT_EQ(names(6), "a b c ");
  EXPECT_EQ(names(1), "a b ") << "one of another template besides";
  EXPECT_EQ(names(2, Candidate{"old", {}}), "a b c old ");
  EXPECT_EQ(names(6, Candidate{"b", {}}), "a b c ");
  EXPECT_EQ(names(1, Candidate{"failed", {}}), "a b ");
}

TEST(SelectWinner, FinalistsIncludeOthersThanTheFastestsNeighbours) {
  const auto record = [](double us, int p, int q, int r, int s) {
    Record made = timed("simt", us);
    made.candidate.configuration = {{"P", p}, {"Q", q}, {"R", r}, {"S", s}};
    return made;
  };
  const std::vector<Record> all{record(100, 1, 1, 1, 1), record(101, 1, 1, 1, 2),
                                record(102, 1, 1, 2, 2), record(103, 2, 2, 3, 3),
                                record(104, 2, 2, 2, 3), record(105, 3, 3, 4, 4)};
  std::string times;
  for (const Record& r : pick_finalists(all, 2, {}))
    times += std::to_string(static_cast<int>(r.measurement->median_us)) + " ";
  EXPECT_EQ(times, "100 101 103 105 ");
}

TEST(SelectWinner, TheIncumbentStaysUnlessBeaten) {
  const Candidate old{"old", {}};
  const auto who = [&](std::vector<Record> raced) {
    const Record* winner = select_winner(raced, old);
    return winner ? winner->candidate.kernel_template : "";
  };
  EXPECT_EQ(who({timed("new", 99.5), timed("old", 100)}), "old");
  EXPECT_EQ(who({timed("new", 90), timed("old", 100)}), "new");
  EXPECT_EQ(who({timed("new", 90)}), "new");
  Record broken = timed("old", 1);
  broken.outcome = Outcome::launch_error;
  EXPECT_EQ(who({timed("new", 200), broken}), "new");
  EXPECT_EQ(who({broken}), "");
}

TEST(Reproduce, QuotesForTheShell) {
  EXPECT_EQ(reproduce_command("autotune tune --device 0", {"simt", {{"TILE_K", 8}}}),
            R"(autotune tune --device 0 --only 'simt {"TILE_K":8}')");
}

}  // namespace
}  // namespace tilewise::select_winner_test
