#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/matmul/resolver_parts.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::resolve_test {
namespace {

using namespace resolver_parts;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Distance, IsInLogarithmsOfTheSizes) {
  EXPECT_DOUBLE_EQ(distance_between(problem_of(64, 64, 64), problem_of(64, 64, 64)), 0);
  EXPECT_DOUBLE_EQ(distance_between(problem_of(64, 64, 64), problem_of(128, 32, 512)), 1 + 1 + 3);
  // Volume does not determine the distance: 1 x N x N is far from a cube of equal volume.
  EXPECT_GT(distance_between(problem_of(1, 4096, 4096), problem_of(256, 256, 256)), 15);
  // Large sizes do not overflow, and 0 counts as 1.
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_DOUBLE_EQ(distance_between(problem_of(huge, huge, huge), problem_of(1, 1, 1)), 120);
  EXPECT_DOUBLE_EQ(distance_between(problem_of(8, 8, 0), problem_of(8, 8, 2)), 1);
}

TEST(Resolver, AnswersWithTheRecordOfTheProblemItself) {
  const Problem problem = problem_of(1024, 1024, 1024);
  const Resolver resolver({default_winner(7, problem, 41.2)}, device(), kCompiler);
  const Resolution match = resolver.resolve(problem);
  EXPECT_EQ(match.kind, MatchKind::exact);
  EXPECT_EQ(match.candidate, candidate(problem));
  EXPECT_EQ(match.distance, 0);
  EXPECT_FALSE(match.stale) << match.why;
  ASSERT_TRUE(match.record);
  EXPECT_EQ(match.record->id, 7);
  EXPECT_THAT(match.why, testing::StartsWith("measured on this GPU for nn 1024x1024x1024 f32 on "
                                             "2026-11-21: 41.2 us (52.1 TFLOP/s); the cost model "
                                             "expects "));
}

TEST(Resolver, OtherGpusSayNothing) {
  const Problem problem = problem_of(512, 512, 512);
  Winner elsewhere = default_winner(2, problem);
  elsewhere.record.gpu = "Other|8.0|108";
  const Resolver resolver({elsewhere}, device());
  EXPECT_EQ(resolver.resolve(problem).kind, MatchKind::default_);
  EXPECT_THAT(resolver.notes(), IsEmpty());
}

TEST(Resolver, ConstraintsAreThoseOfTheRealProblem) {
  // Rows of partial sums have length n, so vectors of C with SPLIT_K require that n is a multiple.
  const Problem tuned = problem_of(256, 256, 4096);
  Candidate split = with(candidate(tuned), "SPLIT_K", 4);
  split = with(with(split, "TRANSPOSE_B", 0), "VECTOR_C", 4);
  ASSERT_EQ(rejection(find_template("simt"), tuned, split.configuration, device()), "");
  const Resolver resolver({winner(1, tuned, split)}, device());
  EXPECT_EQ(served(resolver, problem_of(256, 320, 4096)), 1);
  Problem odd = problem_of(256, 257, 4096);
  set_alignment(odd, {16, 16, 16});  // as with padded leading dimensions
  EXPECT_EQ(resolver.resolve(odd).kind, MatchKind::default_);
}

TEST(Resolver, SaysWhatTheCostModelExpects) {
  const Problem problem = problem_of(1024, 1024, 1024);
  const Resolution stored = Resolver({default_winner(1, problem)}, device()).resolve(problem);
  EXPECT_GT(stored.predicted_us, 30);
  EXPECT_LT(stored.predicted_us, 300);
  EXPECT_THAT(stored.limited_by, Not(IsEmpty()));
  EXPECT_THAT(stored.why, HasSubstr("the cost model expects"));
  EXPECT_THAT(stored.why, HasSubstr("limited by " + stored.limited_by));
  const Resolution fallback = Resolver({}, device()).resolve(problem);
  EXPECT_EQ(fallback.predicted_us, stored.predicted_us);
  EXPECT_THAT(fallback.why, HasSubstr("limited by " + stored.limited_by + "); to tune it: "));

  DeviceInfo silent = device();
  silent.clock_khz = 0;
  const Resolution unknown = Resolver({}, silent).resolve(problem);
  EXPECT_EQ(unknown.predicted_us, 0);
  EXPECT_EQ(unknown.limited_by, "");
  EXPECT_THAT(unknown.why, Not(HasSubstr("cost model")));
}

TEST(Resolver, WithNothingStoredTheDefaultSaysHowToTuneIt) {
  const Resolution match = Resolver({}, device()).resolve(problem_of(1000, 1000, 1000));
  EXPECT_EQ(match.kind, MatchKind::default_);
  EXPECT_EQ(match.candidate.kernel_template, "simt");
  EXPECT_FALSE(match.record);
  EXPECT_THAT(match.why, HasSubstr("autotune --device 0 --sizes 1000x1000x1000"));
  EXPECT_THAT(match.why, Not(HasSubstr("--layout")));
  EXPECT_THAT(match.why, Not(HasSubstr("--align")));

  DeviceInfo named = device();
  named.uuid = "GPU-1f2e3d4c-0000";
  Problem odd = problem_of(64, 64, 64, Layout::tn);
  odd.b.alignment = 4;
  EXPECT_THAT(
      Resolver({}, named).resolve(odd).why,
      HasSubstr("autotune --device GPU-1f2e3d4c --sizes 64x64x64 --layout tn --align 16,4,16"));
  named.target = parse_target("host:sm_90a");
  EXPECT_THAT(Resolver({}, named).resolve(odd).why, HasSubstr("--device host:sm_90a --sizes"));
}

TEST(Resolver, TheDefaultIsValidForAnythingAsked) {
  const Resolver resolver({}, device());
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt})
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{17}, std::int64_t{1} << 20}) {
      Problem problem = problem_of(size, size, size, layout);
      set_alignment(problem, {4, 4, 4});
      const Candidate chosen = resolver.resolve(problem).candidate;
      EXPECT_EQ(
          rejection(find_template(chosen.kernel_template), problem, chosen.configuration, device()),
          "");
    }
  EXPECT_EQ(resolver.resolve(problem_of(8, 8, 0)).kind, MatchKind::default_);
}

TEST(Resolver, WhatThisVersionDoesNotKnowIsSkippedWithANote) {
  const Problem problem = problem_of(512, 512, 512);
  Winner unknown = default_winner(1, problem);
  unknown.record.candidate.kernel_template = "from_the_future";
  const Winner parameter = winner(2, problem, with(candidate(problem), "WARP_SPECIALISED", 1));
  Winner bad = default_winner(3, problem);
  bad.quarantined = "image does not load";
  const Winner good = default_winner(4, problem_of(1024, 1024, 1024));
  const Resolver resolver({unknown, parameter, bad, good}, device());
  EXPECT_EQ(served(resolver, problem), 4);
  EXPECT_THAT(resolver.notes(),
              ElementsAre(AllOf(HasSubstr("record 1"), HasSubstr("from_the_future")),
                          AllOf(HasSubstr("record 2"), HasSubstr("WARP_SPECIALISED")),
                          AllOf(HasSubstr("record 3"), HasSubstr("image does not load"))));
}

TEST(Resolver, ValuesThatThisVersionHasNotAreNamedOnce) {
  const Problem problem = problem_of(512, 512, 512);
  const Winner other = winner(1, problem, with(candidate(problem), "GROUP_M", 3));
  Winner older = default_winner(2, problem);
  older.record.candidate = {"naive", Configuration{{"TILE_M", 8}}};
  const Resolver resolver({other, other, older}, device());
  EXPECT_EQ(resolver.resolve(problem).kind, MatchKind::default_);
  EXPECT_THAT(resolver.notes(),
              ElementsAre(AllOf(HasSubstr("GROUP_M=3 is not one of"), HasSubstr("and 1 more")),
                          HasSubstr("parameter TILE_N is missing; tune again")));
}

TEST(Resolver, RefusedKernelsGiveWayToTheNextUntilNothingIsLeft) {
  const Problem problem = problem_of(512, 512, 512);
  const Candidate first = with(candidate(problem), "UNROLL", 8);
  const Candidate second = with(candidate(problem), "UNROLL", 4);
  const Resolver resolver(
      {winner(1, problem, first), winner(2, problem_of(1024, 512, 512), second),
       winner(3, problem_of(1024, 512, 512), with(second, "GROUP_M", 1))},  // the same kernel
      device());
  Conditions conditions;
  std::vector<std::string> order;
  std::vector<std::string> expected{"1", "2", "simt"};
  for (const KernelTemplate& kernel : catalog())
    if (kernel.name != "simt" && kernel.name != "skinny" && kernel.supports(problem, device()))
      expected.push_back(kernel.name);
  expected.emplace_back("skinny");  // it is slow for large products
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Resolution match = resolver.resolve(problem, conditions);
    order.push_back(match.record ? std::to_string(match.record->id)
                                 : match.candidate.kernel_template);
    for (const LaunchStep& step : plan_of(match.candidate, problem, device()).steps)
      conditions.refused.insert(step.kernel);
  }
  EXPECT_EQ(order, expected);
  try {
    resolver.resolve(problem, conditions);
    FAIL() << "everything was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("nn 512x512x512"));
  }
}

TEST(Resolver, SaysWhenAMeasurementIsStale) {
  const Problem problem = problem_of(512, 512, 512);
  Winner other_source = default_winner(1, problem);
  other_source.record.source_hash = "0123";
  const Resolver unaware({other_source}, device());
  EXPECT_FALSE(unaware.resolve(problem).stale);
  const Resolution match = unaware.with_compiler(kCompiler).resolve(problem);
  EXPECT_TRUE(match.stale);
  EXPECT_THAT(match.why, HasSubstr("source or the compiler has changed"));
  EXPECT_EQ(match.kind, MatchKind::exact) << "stale is not unusable";

  Winner other_revision = default_winner(1, problem);
  other_revision.record.launch_revision = "simt.0 plan.0";
  const Resolution revised = Resolver({other_revision}, device()).resolve(problem);
  EXPECT_TRUE(revised.stale);
  EXPECT_THAT(revised.why, AllOf(HasSubstr("simt.0 plan.0"), HasSubstr("must compile")));
}

TEST(Resolver, RecordsOfOtherTypesAndModesSayNothing) {
  const Problem f32 = problem_of(512, 512, 512);
  std::vector<Winner> winners;
  for (const ProductKind& kind : product_kinds()) {
    Problem problem = f32;
    set_types(problem, kind);
    if (kind.math == MathMode::strict)
      winners.push_back(
          winner(std::int64_t(winners.size()) + 1, problem, candidate(problem, "naive")));
  }
  const Resolver resolver(winners, device());
  for (const Winner& own : winners) {
    EXPECT_EQ(served(resolver, own.record.problem), own.record.id);
    EXPECT_EQ(served(resolver, batch_of(own.record.problem, 2)), own.record.id);
  }
  std::vector<Winner> others(winners.begin() + 1, winners.end());
  EXPECT_EQ(Resolver(others, device()).resolve(f32).kind, MatchKind::default_);
  Problem tf32 = f32;
  tf32.math = MathMode::tf32;
  try {
    EXPECT_EQ(resolver.resolve(tf32).kind, MatchKind::default_);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

TEST(Resolver, TensorCoresComeFirstWhereTheyAreAndCanDoIt) {
  for (const Target& target : known_targets()) {
    const DeviceInfo info = nominal_device(target);
    for (const ProductKind& kind : product_kinds()) {
      Problem problem = problem_of(512, 512, 512);
      set_types(problem, kind);
      set_alignment(problem, {1, 1, 1});
      std::vector<std::string> able;
      for (const KernelTemplate& kernel : catalog())
        if (kernel.supports(problem, info) &&
            rejection(kernel, problem, kernel.default_configuration(problem, info), info).empty())
          able.push_back(kernel.name);
      if (able.empty()) {
        EXPECT_NE(kind.math, MathMode::strict) << to_string(problem) << " on " << info.name;
        EXPECT_THROW(Resolver({}, info).resolve(problem), Error);
        continue;
      }
      std::string expected = able.front();
      for (const char* preferred : {"tiled", "simt", "mma", "wgmma"})
        if (std::count(able.begin(), able.end(), preferred) > 0) expected = preferred;
      EXPECT_EQ(Resolver({}, info).resolve(problem).candidate.kernel_template, expected)
          << to_string(problem) << " on " << info.name;
    }
  }
}

TEST(Resolver, WhatNoTemplateCanDoIsRefusedWithWhatTheyCan) {
  DeviceInfo old = nominal_device(parse_target("sm_75"));
  Problem problem = problem_of(512, 512, 512);
  problem.math = MathMode::tf32;
  try {
    Resolver({default_winner(1, problem_of(512, 512, 512))}, old).resolve(problem);
    FAIL() << "there are no tensor cores for tf32";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("tf32"),
              HasSubstr("can do f32, f32 by emulated, f64, f64 by emulated, f16, f16 to f32"),
              HasSubstr("e5m2 to e5m2"), Not(HasSubstr("by tf32"))));
  }
}

}  // namespace
}  // namespace tilewise::resolve_test
