#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "templates/sources.hpp"
#include "tests/tuner/tune_fixture.hpp"
#include "tilewise/error.hpp"
#include "tuner/tuner.hpp"

namespace tilewise::tune_test {
namespace {

using testing::HasSubstr;

TEST_F(Tune, FindsTheOptimumAndStoresEverything) {
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2));
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.winner->record.measurement->median_us, 100);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.rejected, 16);  // X is 3 or 5
  EXPECT_EQ(result.compiled, 64);
  EXPECT_EQ(result.reused, 0);
  EXPECT_FALSE(result.interrupted || result.already_done);
  EXPECT_EQ(compiler.count, 65) << "64 multiply kernels, and one pack kernel for all";
  EXPECT_EQ(evaluator.begins, 3) << "the problem, an edge size, the problem";
  EXPECT_EQ(evaluator.races, 1);
  ASSERT_EQ(result.baselines.size(), 1u);
  EXPECT_EQ(result.baselines[0].problem, problem);
  EXPECT_EQ(result.baselines[0].gpu, gpu);
  const Record& best = result.winner->record;
  EXPECT_EQ(best.gpu, gpu);
  EXPECT_EQ(best.launch_revision, launch_revision(kernel));
  EXPECT_EQ(best.environment.driver, "580.1");
  EXPECT_EQ(best.environment.compiler, "fake 1");
  EXPECT_EQ(best.environment.date.size(), 20u);
  EXPECT_EQ(best.source_hash,
            source_hash({source_name(), "grid", {{"X", 6}, {"Y", 2}}}, compiler.identity()));
}

TEST_F(Tune, LocalFindsItToo) {
  options.strategy = "local";
  options.max_evaluations = 50;
  const TuneResult result = run();
  EXPECT_EQ(result.evaluated, 50);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(Tune, CommitsAsItGoes) {
  int seen = 0;
  std::set<std::string> phases;
  progress = [&](const TuneProgress& now) {
    phases.insert(now.phase);
    EXPECT_EQ(*now.problem, problem);
    if (!now.last) return;
    ++seen;
    EXPECT_EQ(now.evaluated, seen);
    ASSERT_TRUE(database.record(now.last->id));
    EXPECT_EQ(database.counts().records, seen);
  };
  run();
  EXPECT_EQ(seen, 64);
  EXPECT_EQ(phases, (std::set<std::string>{"reference", "search", "race", "confirm", "done"}));
}

TEST_F(Tune, ASecondIdenticalRunDoesNothing) {
  run();
  forget_counts();
  const TuneResult result = run();
  EXPECT_TRUE(result.already_done);
  EXPECT_EQ(compiler.count, 0);
  EXPECT_TRUE(evaluator.evaluated.empty());
  EXPECT_EQ(evaluator.races, 0);
  EXPECT_EQ(evaluator.begins, 0);
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.baselines.size(), 1u);
  EXPECT_EQ(database.searches(problem, gpu).size(), 1u);

  options.budget_seconds /= 2;  // a smaller budget
  EXPECT_TRUE(run().already_done);
  options.seed = 2;
  EXPECT_FALSE(run().already_done);
  EXPECT_TRUE(evaluator.evaluated.empty()) << "every candidate is known";
}

TEST_F(Tune, AQuarantinedWinnerIsLookedForAgain) {
  run();
  database.quarantine(database.winner(problem, gpu)->record.id, "broke");
  EXPECT_FALSE(run().already_done);
  EXPECT_EQ(database.winner(problem, gpu)->quarantined, "");
}

TEST_F(Tune, ForceMeasuresAgain) {
  run();
  forget_counts();
  evaluator.time = [](Point p) { return p == Point(1, 1) ? 50.0 : 200.0; };
  options.force = true;
  const TuneResult result = run();
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.reused, 0);
  EXPECT_EQ(compiler.count, 8) << "images are kept; what was refused is tried again";
  EXPECT_EQ(evaluator.evaluated.front(), Point(6, 2)) << "whoever is served comes first";
  EXPECT_EQ(winner(), Point(1, 1));
  EXPECT_EQ(database.counts().records, 64) << "one row a configuration";
}

TEST_F(Tune, AnInterruptedRunKeepsAllAndIsResumed) {
  evaluator.stop = &stop;
  evaluator.stop_after = 10;
  const TuneResult first = run();
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.evaluated, 10);
  EXPECT_EQ(database.counts().records, 10);
  EXPECT_EQ(evaluator.races, 0);
  ASSERT_TRUE(first.winner) << "the best so far is served where nothing was";
  const std::set<Point> before(evaluator.evaluated.begin(), evaluator.evaluated.end());

  stop = false;
  evaluator.stop = nullptr;
  forget_counts();
  const TuneResult second = run();
  EXPECT_FALSE(second.interrupted || second.already_done);
  EXPECT_EQ(second.reused, 10);
  EXPECT_EQ(second.evaluated, 54);
  for (const Point& p : evaluator.evaluated) EXPECT_FALSE(before.count(p));
  EXPECT_EQ(winner(), Point(6, 2));
  const auto searches = database.searches(problem, gpu);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_TRUE(searches[0].finished);
  EXPECT_EQ(searches[0].evaluations, 64);
}

TEST_F(Tune, AnInterruptionDoesNotDethroneTheWinner) {
  run();
  stop = true;
  options.force = true;
  EXPECT_TRUE(run().interrupted);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(Tune, StaysWithinTheBudget) {
  options.strategy = "random";
  options.budget_seconds = 10;
  clock = [this] { return 0.5 * (compiler.count + evaluator.evaluations); };
  const TuneResult result = run();
  EXPECT_GT(result.evaluated, 2);
  EXPECT_LT(result.evaluated, 25) << "of 64";
  EXPECT_LT(result.seconds, 15);
  EXPECT_TRUE(result.winner);
  EXPECT_TRUE(run().already_done) << "a budget used up is a finished search";
}

TEST_F(Tune, StopsAtTheLimitOfEvaluations) {
  options.max_evaluations = 7;
  EXPECT_EQ(run().evaluated, 7);
  EXPECT_EQ(evaluator.races, 1);
  options.max_evaluations = 9;
  const TuneResult more = run();
  EXPECT_FALSE(more.already_done);
  EXPECT_EQ(more.reused, 7);
}

TEST_F(Tune, RejectedCandidatesAreRecordsWithTheirCommand) {
  const TuneResult result = run();
  std::map<Outcome, int> counts;
  for (const Record& record : records()) {
    ++counts[record.outcome];
    if (record.outcome == Outcome::ok) continue;
    EXPECT_THAT(record.detail,
                HasSubstr(record.outcome == Outcome::compile_error ? "error: refused"
                                                                   : "C[1][2] = 3 instead of 5"));
    EXPECT_THAT(record.detail,
                HasSubstr("reproduce: autotune tune --device 0 --sizes 8x8x8 --layout nn --align "
                          "16,16,16 --only '" +
                          to_string(record.candidate) + "'"));
  }
  EXPECT_EQ(counts,
            (std::map<Outcome, int>{
                {Outcome::ok, 48}, {Outcome::compile_error, 8}, {Outcome::wrong_result, 8}}));
  EXPECT_EQ(result.wrong.size(), 8U);
}

TEST_F(Tune, AWinnerIsReplacedOnlyByMoreThanTheSpread) {
  options.subspace = {{"X", {6}}, {"Y", {2}}};
  run();
  ASSERT_EQ(winner(), Point(6, 2));
  // Candidates that are found later: one is faster by less than the spread, then one by more.
  evaluator.time = [](Point p) {
    return p == Point(6, 2) ? 100.0 : p == Point(1, 1) ? 99.5 : 105.0;
  };
  options.subspace = {{"X", {1, 2}}};
  run();
  EXPECT_THAT(evaluator.raced, testing::Contains(Point(6, 2))) << "it must be beaten side by side";
  EXPECT_EQ(winner(), Point(6, 2));
  const std::string since = database.winner(problem, gpu)->since;
  evaluator.time = [](Point p) { return p == Point(4, 4) ? 97.0 : 100.0; };
  options.subspace = {{"X", {4}}};
  run();
  EXPECT_EQ(winner(), Point(4, 4));
}

TEST_F(Tune, FirstCandidatesComeBeforeTheStrategysAndOnce) {
  const auto candidate = [](int x, int y) {
    return Candidate{"grid", Configuration{{"X", x}, {"Y", y}}};
  };
  options.first = {candidate(7, 3), candidate(5, 1), candidate(7, 3), candidate(1000, 1)};
  options.compile_threads = 1;
  run();
  ASSERT_GE(evaluator.evaluated.size(), 2U);
  EXPECT_EQ(evaluator.evaluated[0], Point(7, 3));
  EXPECT_EQ(evaluator.evaluated[1], Point(5, 1));
  EXPECT_EQ(std::count(evaluator.evaluated.begin(), evaluator.evaluated.end(), Point(7, 3)), 1);
}

TEST_F(Tune, TheRaceDecidesNotTheSearch) {
  evaluator.race_time = [this](Point p) {
    return p == Point(6, 2) ? 109.0 : evaluator.time(p);  // its search measurement was too fast
  };
  run();
  EXPECT_EQ(winner(), Point(6, 1)) << "105 us, as 6,3 has; the first of equals";
}

TEST_F(Tune, ARaceThatDiesChangesNothing) {
  evaluator.race_dies = true;
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2)) << "the best of the search, since nothing was served before";
  for (const Record& record : records()) EXPECT_NE(record.outcome, Outcome::timeout);
  ASSERT_TRUE(result.winner);
}

TEST_F(Tune, FinalistsThatAreWrongInTheRaceLeaveItToTheNextBest) {
  options.finalists = 3;
  evaluator.race_wrong = [](Point p) { return p.first == 6; };
  const TuneResult result = run();
  EXPECT_EQ(evaluator.races, 2);
  EXPECT_NE(winner().first, 6);
  EXPECT_EQ(winner().second, 2) << "107 us";
  int wrong = 0;
  for (const Record& record : records())
    wrong += record.outcome == Outcome::wrong_result &&
             record.detail.starts_with("not the same each time");
  EXPECT_GE(wrong, 3);
  EXPECT_EQ(std::count_if(result.wrong.begin(), result.wrong.end(),
                          [](const Record& record) {
                            return record.detail.starts_with("not the same each time");
                          }),
            wrong);
}

TEST_F(Tune, WhoIsServedIsNotWhenTheRaceFindsItWrong) {
  options.subspace = {{"X", {6}}, {"Y", {2}}};
  run();
  ASSERT_EQ(winner(), Point(6, 2));
  evaluator.race_wrong = [](Point p) { return p == Point(6, 2); };
  options.subspace = {{"X", {1}}};
  run();
  EXPECT_EQ(winner(), Point(1, 2)) << "slow, but right";
}

TEST_F(Tune, WhoFailsInARaceOfWrongOnesIsNotServedForIt) {
  // One of the three best is wrong, and the race cannot determine which of the others broke the
  // device.
  options.finalists = 3;
  evaluator.race_wrong = [](Point p) { return p == Point(6, 2); };
  evaluator.race_lost = [this](Point) { return evaluator.races == 1; };
  run();
  EXPECT_EQ(evaluator.races, 2);
  EXPECT_EQ(winner(), Point(6, 1)) << "raced again without the wrong one";
  for (const Record& record : records()) EXPECT_NE(record.outcome, Outcome::timeout);
}

TEST_F(Tune, AWrongFinalistsRecordSaysHowToReproduceIt) {
  options.reproduce = "autotune --device 0";
  evaluator.race_wrong = [](Point p) { return p == Point(6, 2); };
  run();
  EXPECT_NE(winner(), Point(6, 2));
  int said = 0;
  for (const Record& record : records())
    said += record.detail.starts_with("not the same each time\nreproduce: autotune --device 0");
  EXPECT_EQ(said, 1);
}

TEST_F(Tune, NothingIsServedWhenAllAreWrongInTheRace) {
  evaluator.race_wrong = [](Point) { return true; };
  const TuneResult result = run();
  EXPECT_FALSE(result.winner);
  EXPECT_GT(evaluator.races, 1);
  EXPECT_LE(evaluator.races, 5);
}

TEST_F(Tune, ImagesOfFinalistsAreKeptThoseOfLosersAreInTheCache) {
  options.finalists = 3;
  run();
  EXPECT_EQ(database.counts().images, 3 + 1) << "three multiply kernels and their pack";
  const auto stored = [&](auto& where, int x, int y) {
    return where
        .image({source_name(), "grid", {{"X", x}, {"Y", y}}}, evaluator.device_info().target,
               launch_revision(kernel))
        .has_value();
  };
  EXPECT_TRUE(stored(database, 6, 2));
  EXPECT_TRUE(stored(database, 6, 1));
  EXPECT_FALSE(stored(database, 0, 0));
  EXPECT_TRUE(stored(cache, 0, 0));
  EXPECT_EQ(evaluator.raced.size(), 3u);
}

TEST_F(Tune, WorksWithoutACache) {
  TuneContext context{database, nullptr, &compiler, evaluator, {}, nullptr};
  EXPECT_EQ(tune(problem, options, context).evaluated, 64);
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(database.counts().images, 7);
}

TEST_F(Tune, ABrokenDeviceEndsTheRunAfterWhatIsCommitted) {
  evaluator.break_after = 12;
  evaluator.race_breaks = true;
  const TuneResult broken = run();
  ASSERT_TRUE(broken.failure);
  EXPECT_EQ(broken.failure->kind(), ErrorKind::device);
  EXPECT_THAT(broken.failure->what(), HasSubstr("the device is gone"));
  EXPECT_EQ(database.counts().records, 12);
  EXPECT_FALSE(broken.winner) << "none could be confirmed";
  EXPECT_FALSE(database.searches(problem, gpu).front().finished);
  evaluator.break_after = -1;
  evaluator.race_breaks = false;
  EXPECT_GE(run().reused, 12);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(Tune, AnotherCompilerMakesMeasurementsStale) {
  run();
  const std::int64_t before = database.winner(problem, gpu)->record.id;
  forget_counts();
  compiler.name = "fake 2";
  const TuneResult result = run();
  EXPECT_FALSE(result.already_done);
  EXPECT_EQ(result.reused, 0);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(evaluator.evaluated.front(), Point(6, 2)) << "whoever is served comes first";
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_NE(database.winner(problem, gpu)->record.id, before) << "served with today's measurement";
}

TEST_F(Tune, WithoutACompilerStoredImagesAreEvaluated) {
  TuneContext context{database, &cache, nullptr, evaluator, {}, nullptr};
  try {
    tune(problem, options, context);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
    EXPECT_THAT(error.what(), HasSubstr("no image is stored"));
  }
  run();
  problem.m = 16;  // another size, whose kernels are stored
  forget_counts();
  const TuneResult result = tune(problem, options, context);
  EXPECT_EQ(result.evaluated, 56) << "all but those that were refused";
  EXPECT_EQ(result.compiled, 0);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(Tune, StartsFromWhatWasGoodForSimilarProblems) {
  run();  // 8x8x8: (6, 2) is best
  forget_counts();
  problem.m = problem.n = problem.k = 16;
  options.strategy = "local";
  options.max_evaluations = 6;
  run();
  EXPECT_THAT(evaluator.evaluated, testing::Contains(Point(6, 2)));
}

TEST_F(Tune, EndsEarlyWhereNoGainIsExpected) {
  options.strategy = "model";
  options.least_gain = 0.5;
  const TuneResult early = run();
  EXPECT_TRUE(early.ended_early);
  EXPECT_GE(early.evaluated, 50);
  EXPECT_LT(early.evaluated, 64);
  ASSERT_TRUE(early.winner);
  EXPECT_FALSE(database.searches(problem, early.winner->record.gpu).at(0).finished);
  options.least_gain = 0;
  const TuneResult whole = run();
  EXPECT_FALSE(whole.ended_early);
  EXPECT_EQ(early.evaluated + whole.evaluated, 64);
}

TEST_F(Tune, RefusesNonsense) {
  options.strategy = "guess";
  EXPECT_THROW(run(), Error);
  options.strategy = "local";
  options.budget_seconds = 0;
  EXPECT_THROW(run(), Error);
  options.budget_seconds = 1;
  problem.k = 0;
  EXPECT_THROW(run(), Error);
}

}  // namespace
}  // namespace tilewise::tune_test
