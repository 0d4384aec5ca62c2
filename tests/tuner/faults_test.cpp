// Faults of the system are no candidate's: what a search does when compilers and workers are
// killed, memory or disk space runs out, and how it ends when they go on.
#include "tuner/faults.hpp"

#include "tests/tuner/tune_fixture.hpp"

namespace tilewise {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Record record_of(int x) {
  Record record;
  record.candidate = {"grid", {{"X", x}}};
  record.detail = "signal 9";
  return record;
}

TEST(Faults, AreTriedAgainThenWaitForAnotherCandidate) {
  Faults faults;
  EXPECT_EQ(faults.add(record_of(1)), Faults::Next::try_again);
  EXPECT_FALSE(faults.any_suspect());
  EXPECT_EQ(faults.add(record_of(1)), Faults::Next::go_on);
  EXPECT_TRUE(faults.any_suspect());
  const std::vector<Record> own = faults.acquit_system();
  ASSERT_THAT(own, SizeIs(1));
  EXPECT_EQ(own[0].detail, "twice: signal 9");
  EXPECT_FALSE(faults.any_suspect());
  EXPECT_EQ(faults.count(), 2);
}

TEST(Faults, OfThreeCandidatesInARowAreTheSystems) {
  Faults faults;
  for (const int x : {1, 2}) {
    EXPECT_EQ(faults.add(record_of(x)), Faults::Next::try_again);
    EXPECT_EQ(faults.add(record_of(x)), Faults::Next::go_on);
  }
  EXPECT_EQ(faults.add(record_of(3)), Faults::Next::try_again);
  EXPECT_EQ(faults.add(record_of(3)), Faults::Next::end_search);
}

struct TuneFaults : Tune {
  std::map<Outcome, int> outcomes() const {
    std::map<Outcome, int> counts;
    for (const Record& record : records()) ++counts[record.outcome];
    return counts;
  }
};

TEST_F(TuneFaults, AWorkerKilledOnceCostsNoCandidate) {
  int met = 0;
  evaluator.fault = [&](Point p) { return p == Point(6, 2) && ++met == 1; };
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2)) << "it was evaluated again";
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.faults, 1);
  EXPECT_THAT(result.last_fault, HasSubstr("signal 9"));
  EXPECT_FALSE(result.failure);
}

TEST_F(TuneFaults, ACandidateThatAlwaysMeetsOneIsRecordedOnceAnotherGotThrough) {
  evaluator.fault = [](Point p) { return p == Point(2, 2); };
  const TuneResult result = run();
  EXPECT_EQ(outcomes()[Outcome::launch_error], 1);
  for (const Record& record : records()) {
    if (record.outcome != Outcome::launch_error) continue;
    EXPECT_THAT(record.detail, testing::StartsWith("twice: signal 9"));
  }
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(result.faults, 2);
}

TEST_F(TuneFaults, TheIncumbentIsNotDisplacedByAKilledWorker) {
  options.subspace = {{"X", {6}}, {"Y", {2}}};
  run();
  const auto before = database.winner(problem, gpu);
  evaluator.fault = [](Point) { return true; };
  options.subspace = {};
  options.force = true;
  EXPECT_THROW(run(), Error) << "nothing could be measured";
  const auto after = database.winner(problem, gpu);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->quarantined, "");
  EXPECT_EQ(after->record, before->record);
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
}

TEST_F(TuneFaults, ASearchThatMustEndNamesTheWinnerOfWhatItMeasured) {
  evaluator.fault = [&](Point) { return evaluator.evaluated.size() >= 20; };
  const TuneResult result = run();
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("signal 9"));
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(evaluator.races, 1) << "the race is tried all the same";
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
  EXPECT_FALSE(database.searches(problem, gpu).front().finished) << "the next run goes on";
}

TEST_F(TuneFaults, ACompilerKilledOnceCostsNoCandidate) {
  std::atomic<int> met{0};
  compiler.fault = [&](const KernelSpec& spec) {
    const auto x = spec.defines.find("X"), y = spec.defines.find("Y");
    if (x == spec.defines.end() || x->second != 6 || y->second != 2 || ++met > 1) return;
    throw Error(ErrorKind::transient, "the compiler was killed");
  };
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(outcomes()[Outcome::compile_error], 8) << "those that the compiler refuses";
  EXPECT_EQ(result.faults, 1);
}

TEST_F(TuneFaults, ACompilerThatIsGoneEndsTheSearchWithTheWinnerOfWhatWasMeasured) {
  compiler.fault = [&](const KernelSpec&) {
    if (compiler.count > 20) throw Error(ErrorKind::compiler, "c++: No such file or directory");
  };
  const TuneResult result = run();
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("No such file"));
  ASSERT_TRUE(result.winner);
  EXPECT_GE(result.evaluated, 10);
}

TEST_F(TuneFaults, ARaceThatMeetsOneIsRunAgain) {
  evaluator.race_faults = [](int race) { return race == 1; };
  const TuneResult result = run();
  EXPECT_EQ(evaluator.races, 2);
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
}

TEST_F(TuneFaults, WithoutARaceTheBestOfTheSearchWins) {
  evaluator.race_faults = [](int) { return true; };
  run();
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
  // And where something is served already: what is faster by more than the spread, else not.
  evaluator.time = [](Point p) { return p == Point(1, 1) ? 50.0 : 200.0; };
  options.force = true;
  run();
  EXPECT_EQ(winner(), Point(1, 1));
}

TEST_F(TuneFaults, ADatabaseThatFailsIsThrown) {
  evaluator.fault = [&](Point) -> bool {
    throw Error(ErrorKind::database, "the file was deleted while it was open");
  };
  try {
    run();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::database);
  }
}

}  // namespace
}  // namespace tilewise
