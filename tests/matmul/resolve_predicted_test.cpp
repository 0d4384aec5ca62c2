#include "matmul/resolve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "templates/space/search_space.hpp"
#include "tests/matmul/resolver_parts.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::resolve_predicted_test {
namespace {

using namespace resolver_parts;
using testing::AllOf;
using testing::HasSubstr;

TEST(PredictedMatch, AnUnseenSizeIsServedByTheExpectedFastest) {
  // The cost model predicts the same time for both configurations; measured times correct it.
  const Candidate one = candidate(problem_of(512, 512, 512)), other = with(one, "GROUP_M", 1);
  const Problem near = problem_of(512, 512, 512), far = problem_of(4096, 4096, 4096);
  const Problem asked = problem_of(1024, 512, 512);
  const auto resolver = [&](double near_ratio, double far_ratio) {
    return Resolver(
        {winner_by_model(1, near, one, near_ratio), winner_by_model(2, far, other, far_ratio)},
        device());
  };
  EXPECT_EQ(served(resolver(1.5, 1.2), asked), 2);
  EXPECT_EQ(served(resolver(1.2, 1.5), asked), 1);
  EXPECT_EQ(served(resolver(1.2, 1.2), asked), 1) << "equal: the nearer";
  EXPECT_EQ(served(resolver(50, 5), asked), 1) << "both are corrected by 4, the limit";
  EXPECT_EQ(served(resolver(1.5, 1.2), near), 1) << "an exact winner is never replaced";

  const Resolution match = resolver(1.5, 1.25).resolve(asked);
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_DOUBLE_EQ(match.distance, 2 + 3 + 3);
  EXPECT_NEAR(match.predicted_us, 1.25 * modelled(match.candidate, asked), 1e-6);
  EXPECT_THAT(match.why,
              AllOf(HasSubstr("expected to be the fastest of 2 stored"), HasSubstr("times 1.25"),
                    HasSubstr("nn 4096x4096x4096 f32"), HasSubstr("distance 8.00")));
}

TEST(PredictedMatch, AKernelForManyRowsServesManyRowsHoweverFarItsOwnSize) {
  const Problem few = problem_of(4, 4096, 4096), many = problem_of(256, 256, 256);
  const Resolver resolver({winner_by_model(1, few, candidate(few, "skinny")),
                           winner_by_model(2, many, candidate(many))},
                          device());
  const Problem asked = problem_of(64, 4096, 4096);
  ASSERT_LT(distance_between(few, asked), distance_between(many, asked));
  EXPECT_EQ(served(resolver, asked), 2);
}

TEST(PredictedMatch, AnotherLayoutServesWhereItsKernelCan) {
  const Problem nn = problem_of(512, 512, 512), tn = problem_of(512, 512, 512, Layout::tn);
  const Candidate either = candidate(nn, "naive");  // reads any layout
  const Resolver resolver({winner_by_model(1, tn, either)}, device());
  EXPECT_EQ(resolver.resolve(tn).kind, MatchKind::exact);
  const Resolution match = resolver.resolve(nn);
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_EQ(match.distance, 0);
  EXPECT_THAT(match.why, HasSubstr("tn 512x512x512 f32"));
  // The same layout is first if both are expected to take the same time.
  const Resolver both({winner_by_model(1, tn, either), winner_by_model(2, nn, either)}, device());
  EXPECT_EQ(served(both, problem_of(512, 512, 640)), 2);
}

// A kernel that was measured with the epilogue and without it is expected to take what it took with
// it. Where that is longer than another kernel takes, the other one serves.
TEST(PredictedMatch, RecordsThatHaveTheEpilogueCountFirst) {
  const Problem bare = problem_of(512, 512, 512);
  Problem relu = bare;
  set_epilogue(relu, Epilogue("relu(acc + bias[j])"));
  const Candidate one = candidate(bare), other = with(one, "GROUP_M", 1);
  const Resolver resolver({winner_by_model(1, bare, one, 1.1), winner_by_model(2, relu, one, 2),
                           winner_by_model(3, bare, other, 1.5)},
                          device());
  Problem asked = problem_of(640, 512, 512);
  EXPECT_EQ(served(resolver, asked), 1);
  asked.epilogue = relu.epilogue;
  EXPECT_EQ(served(resolver, asked), 3);
}

TEST(PredictedMatch, WithoutACostModelTheNearestOfTheLayoutServes) {
  DeviceInfo silent = device();
  silent.clock_khz = 0;
  const auto stored = [](std::int64_t id, const Problem& problem, int group_m) {
    return winner(id, problem, with(candidate(problem), "GROUP_M", group_m));
  };
  const Resolver resolver(
      {stored(1, problem_of(512, 512, 512), 1), stored(2, problem_of(4096, 4096, 4096), 4),
       stored(3, problem_of(64, 4096, 4096), 8)},
      silent);
  EXPECT_EQ(served(resolver, problem_of(640, 640, 640)), 1);
  EXPECT_EQ(served(resolver, problem_of(2048, 2048, 2048)), 2);
  EXPECT_EQ(served(resolver, problem_of(16, 4096, 4096)), 3);
  EXPECT_EQ(served(resolver, problem_of(512, 512, 512, Layout::tt)), 0);
  const Resolution match = resolver.resolve(problem_of(1024, 512, 512));
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_EQ(match.predicted_us, 0);
  EXPECT_THAT(match.why, AllOf(HasSubstr("nearest of 3"), HasSubstr("distance 1.00"),
                               HasSubstr("nn 512x512x512 f32")));
}

TEST(PredictedMatch, PartsOfKAreChosenForTheSizeThatIsAsked) {
  // With few tiles and a long k, parts fill the device. All numbers of parts above 1 have the same
  // kernel.
  // above 1.
  const Problem tuned = problem_of(1024, 1024, 1024), asked = problem_of(64, 64, 65536);
  const Candidate two = with(candidate(tuned), "SPLIT_K", 2);
  const Resolver resolver({winner_by_model(1, tuned, two)}, device());
  const Candidate fitted = resolver.resolve(asked).candidate;
  EXPECT_GT(fitted.configuration.at("SPLIT_K"), 2);
  EXPECT_LT(modelled(fitted, asked), modelled(two, asked) / 2);
  EXPECT_EQ(with(fitted, "SPLIT_K", 2), two) << "nothing else changes";
  EXPECT_EQ(resolver.resolve(tuned).candidate, two) << "its own size is served as stored";
}

TEST(PredictedMatch, ATableOfAThousandIsComparedInPart) {
  const SearchSpace space(problem_of(1024, 512, 512), device(), {&find_template("simt")},
                          {{find_template("simt").specialises, {0}}});
  std::mt19937_64 generator(1);
  std::vector<Winner> winners;
  for (int i = 0; i < 1000; ++i)
    winners.push_back(winner(i + 1, problem_of(256 + i, 512, 512), *space.random(generator)));
  const Resolution match =
      Resolver(std::move(winners), device()).resolve(problem_of(2000, 512, 512));
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_THAT(match.why,
              HasSubstr("fastest of " + std::to_string(Resolver::kCompared) + " stored"));
}

TEST(PredictedMatch, ConstraintsDecideWhetherAnotherAlignmentIsServed) {
  Problem low = problem_of(512, 512, 512), high = low;
  set_alignment(low, {4, 4, 4});
  {
    const Resolver resolver({default_winner(1, low)}, device());
    const Resolution match = resolver.resolve(high);
    EXPECT_EQ(match.kind, MatchKind::predicted);
    EXPECT_EQ(match.distance, 0);
    EXPECT_THAT(match.why, HasSubstr("tuned for alignment 4,4,4 where this has 16,16,16"));
  }
  EXPECT_EQ(served({{winner(1, high, candidate(high, "naive"))}, device()}, low), 1);
  const Candidate vectors = with(with(candidate(high), "VECTOR_A", 4), "VECTOR_B", 4);
  ASSERT_NE(rejection(find_template("simt"), low, vectors.configuration, device()), "");
  const Resolver resolver({winner(1, high, vectors)}, device());
  EXPECT_EQ(resolver.resolve(low).kind, MatchKind::default_);
  Problem mixed = high;  // one operand is enough
  mixed.b.alignment = 8;
  EXPECT_EQ(resolver.resolve(mixed).kind, MatchKind::default_);
  EXPECT_EQ(resolver.resolve(high).kind, MatchKind::exact);
}

TEST(PredictedMatch, BetweenEquallyFastTheNearerAlignmentServes) {
  const Problem problem = problem_of(512, 512, 512);
  Problem low = problem, lower = problem;
  set_alignment(low, {16, 16, 8});
  set_alignment(lower, {4, 4, 4});
  const Candidate either = candidate(lower);
  const Winner lower_winner = winner_by_model(1, lower, either);
  const Winner low_winner = winner_by_model(2, low, either);
  EXPECT_EQ(served(Resolver({lower_winner, low_winner}, device()), problem), 2);
  EXPECT_EQ(served(Resolver({low_winner, lower_winner}, device()), problem), 2);
}

TEST(PredictedMatch, ABatchIsASizeLikeTheOthers) {
  const Problem one = problem_of(512, 512, 512);
  EXPECT_DOUBLE_EQ(distance_between(batch_of(one, 8), one), 3);
  const auto naive = [](std::int64_t id, const Problem& p) {
    return winner_by_model(id, p, candidate(p, "naive"));
  };
  const Resolver resolver({naive(1, one), naive(2, batch_of(one, 16)),
                           naive(3, batch_of(problem_of(256, 512, 512), 4))},
                          device());
  EXPECT_EQ(served(resolver, batch_of(one, 16)), 2);
  EXPECT_EQ(served(resolver, batch_of(one, 2)), 1);
  EXPECT_EQ(served(resolver, batch_of(problem_of(256, 512, 512), 8)), 3);
  const Resolution match = resolver.resolve(batch_of(one, 64));
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_DOUBLE_EQ(match.distance, 2);
  EXPECT_THAT(Resolver({}, device()).resolve(batch_of(one, 64)).why,
              AllOf(HasSubstr("batch 64"), HasSubstr("--batch 64")));
}

TEST(PredictedMatch, GroupsAreServedByOtherGroupsAndByBatches) {
  const auto groups_of = [](std::int64_t rows, std::int64_t batch, const char* grouping) {
    Problem problem = batch_of(problem_of(rows, 512, 512), batch);
    set_grouping(problem, grouping);
    return problem;
  };
  const auto naive = [](std::int64_t id, const Problem& p) {
    return winner_by_model(id, p, candidate(p, "naive"));
  };
  const Resolver resolver(
      {naive(1, groups_of(4096, 8, "rows even")), naive(2, groups_of(4096, 64, "rows even")),
       naive(3, groups_of(4096, 64, "rows one_hot"))},
      device());
  EXPECT_EQ(served(resolver, groups_of(8192, 16, "rows even")), 1) << "512 rows of each product";
  EXPECT_EQ(served(resolver, groups_of(4096, 32, "rows even")), 2);
  EXPECT_EQ(served(resolver, groups_of(8192, 64, "rows one_hot")), 3);
  EXPECT_EQ(served(resolver, groups_of(512, 8, "counts even")), 1);
  const Resolver by_batch({naive(4, batch_of(problem_of(512, 512, 512), 8))}, device());
  const Resolution match = by_batch.resolve(groups_of(4096, 8, "rows even"));
  EXPECT_EQ(match.kind, MatchKind::predicted);
  ASSERT_TRUE(match.record);
  EXPECT_EQ(match.record->id, 4);
}

TEST(PredictedMatch, AWinnerWhoseKernelIsOfOneSizeAnswersThatSizeAlone) {
  const Problem tuned = batch_of(problem_of(16, 16, 16), 1000);
  Problem lower = tuned;
  set_alignment(lower, {4, 4, 4});
  const Candidate small = candidate(lower, "small");
  const Resolver resolver({winner(1, lower, small)}, device());
  EXPECT_EQ(served(resolver, lower), 1);
  EXPECT_EQ(served(resolver, tuned), 1) << "a higher alignment of its size";
  EXPECT_EQ(served(resolver, batch_of(tuned, 500)), 1) << "the same kernel";
  EXPECT_EQ(served(resolver, batch_of(tuned, 1)), 0) << "a kernel without batches";
  for (const auto& [m, n, k] : {std::array{17, 16, 16}, {16, 17, 16}, {16, 16, 32}}) {
    const Problem near = batch_of(problem_of(m, n, k), 1000);
    ASSERT_EQ(rejection(find_template("small"), near, small.configuration, device()), "");
    EXPECT_EQ(served(resolver, near), 0) << to_string(near);
    // A farther record with an image for every size is served instead.
    Problem far = batch_of(problem_of(64, 64, 64), 1000);
    set_alignment(far, {4, 4, 4});
    const Resolver both({winner(1, lower, small), default_winner(2, far)}, device());
    EXPECT_EQ(served(both, near), 2) << to_string(near);
    EXPECT_EQ(served(both, tuned), 1);
  }
  // If a parameter makes the sizes constants, the nearest winner still serves.
  const Problem square = problem_of(512, 512, 512);
  const Candidate constant = with(candidate(square), "SPECIALIZE_SIZE", 1);
  EXPECT_EQ(served({{winner(1, square, constant)}, device()}, problem_of(512, 512, 640)), 1);
}

}  // namespace
}  // namespace tilewise::resolve_predicted_test
