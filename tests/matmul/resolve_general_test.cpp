// General records serve other sizes instead of winners that are specialised on their own size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resolver_parts.hpp"

namespace tilewise::resolve_general_test {
namespace {

using namespace resolver_parts;

Candidate simt(int specialised) {
  return with(candidate(problem_of(512, 512, 512)), find_template("simt").specialises, specialised);
}

Record general(std::int64_t id, const Problem& problem, double us) {
  return winner(id, problem, simt(0), us).record;
}

TEST(ResolveGeneral, OtherSizesAreExpectedByTheGeneralRecordsTime) {
  const Problem own = problem_of(512, 512, 512), other = problem_of(500, 512, 512);
  const Winner special = winner(1, own, simt(1), 10);
  const Resolution without = Resolver({special}, device()).resolve(other);
  const Resolution with_general =
      Resolver({special}, device(), "", {general(2, own, 15)}).resolve(other);
  EXPECT_EQ(without.record->id, 1);
  EXPECT_EQ(with_general.record->id, 2);
  EXPECT_EQ(without.candidate, with_general.candidate);
  EXPECT_NEAR(with_general.predicted_us / without.predicted_us, 1.5, 1e-9);
}

TEST(ResolveGeneral, TheOwnSizeIsTheWinners) {
  const Problem own = problem_of(512, 512, 512);
  const Resolver resolver({winner(1, own, simt(1), 10)}, device(), "", {general(2, own, 5)});
  EXPECT_EQ(resolver.resolve(own).record->id, 1);
  EXPECT_EQ(resolver.resolve(own).kind, MatchKind::exact);
}

TEST(ResolveGeneral, WithoutAWinnerItStillServes) {
  const Problem own = problem_of(512, 512, 512);
  const Resolver resolver({}, device(), "", {general(2, own, 5)});
  EXPECT_EQ(resolver.resolve(own).kind, MatchKind::predicted);
  Record foreign = general(3, own, 5);
  foreign.gpu = "another GPU";
  EXPECT_EQ(Resolver({}, device(), "", {foreign}).resolve(own).kind, MatchKind::default_);
}

TEST(ResolveGeneral, OfOneCandidatesRecordsTheNearestCounts) {
  // The far problem was ten times as slow as the model predicts, the near one as fast.
  const Problem near = problem_of(512, 512, 512), far = problem_of(4096, 4096, 4096);
  const Problem asked = problem_of(520, 512, 512);
  const Resolver both({winner(1, near, simt(0), 10), winner(2, far, simt(0), 1e5)}, device());
  EXPECT_EQ(both.resolve(asked).record->id, 1);
  const Resolver near_only({winner(1, near, simt(0), 10)}, device());
  EXPECT_EQ(both.resolve(asked).predicted_us, near_only.resolve(asked).predicted_us);
  EXPECT_EQ(both.resolve(problem_of(4000, 4096, 4096)).record->id, 2);
}

TEST(ResolveGeneral, ExpectedAreDistinctAndFastestFirst) {
  std::vector<Winner> winners;
  for (int i = 0; i < 6; ++i) {
    const int group_m[] = {1, 4, 8};
    winners.push_back(winner(i + 1, problem_of(256 << (i % 3), 512, 512),
                             with(simt(0), "GROUP_M", group_m[i / 2]), 10 + i));
  }
  const Resolver resolver(winners, device());
  const auto expected = resolver.expected(problem_of(300, 500, 512), 10);
  EXPECT_EQ(expected.size(), 3U);
  for (std::size_t i = 1; i < expected.size(); ++i) {
    EXPECT_LE(expected[i - 1].us, expected[i].us);
    EXPECT_NE(expected[i - 1].candidate, expected[i].candidate);
  }
  EXPECT_EQ(expected.front().candidate, resolver.resolve(problem_of(300, 500, 512)).candidate);
  EXPECT_EQ(resolver.expected(problem_of(300, 500, 512), 2).size(), 2U);
  EXPECT_TRUE(Resolver({}, device()).expected(problem_of(300, 500, 512), 2).empty());
}

TEST(ResolveGeneral, HowFarOffExpectationsAreIsStated) {
  std::vector<Winner> winners;
  for (int i = 0; i < 3; ++i)
    winners.push_back(winner(i + 1, problem_of(512 << i, 512, 512), simt(0), 10 * (1 << i)));
  const Problem asked = problem_of(700, 512, 512);
  EXPECT_EQ(Resolver({winners[0], winners[1]}, device()).how_far_off(asked), "");
  const std::string right = Resolver(winners, device()).how_far_off(asked);
  EXPECT_THAT(right, testing::HasSubstr("3 nearest measured problems"));
  winners[2].record.measurement->median_us *= 3;  // now the other records predict a third of it
  const std::string wrong = Resolver(winners, device()).how_far_off(asked);
  EXPECT_NE(right, wrong);
}

}  // namespace
}  // namespace tilewise::resolve_general_test
