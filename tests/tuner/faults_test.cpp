// Faults of the system are not outcomes of candidates: how a search proceeds when compilers and
// workers are killed or memory or disk space runs out, and how it ends if the faults persist.
#include "tuner/faults.hpp"

#include <stdlib.h>

#include <filesystem>

#include "tests/tuner/tune_fixture.hpp"

namespace tilewise::faults_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Work = Faults::Work;
using Next = Faults::Next;

Candidate candidate_of(int x) { return {"grid", {{"X", x}}}; }

TEST(Faults, AreTriedAgainThenWaitForAnotherCandidateThenAreGivenUp) {
  Faults faults;
  EXPECT_EQ(faults.add(candidate_of(1), Work::compile, "signal 9"), Next::try_again);
  EXPECT_EQ(faults.add(candidate_of(1), Work::compile, "signal 9"), Next::wait);
  EXPECT_THAT(faults.got_through(candidate_of(2), Work::evaluation), IsEmpty())
      << "an evaluation does not show that compilers work";
  EXPECT_THAT(faults.got_through(candidate_of(2), Work::compile), ElementsAre(candidate_of(1)));
  EXPECT_THAT(faults.got_through(candidate_of(3), Work::compile), IsEmpty()) << "tried only once";
  EXPECT_EQ(faults.add(candidate_of(1), Work::compile, "no memory"), Next::give_up);
  EXPECT_THAT(faults.got_through(candidate_of(3), Work::compile), IsEmpty());
  EXPECT_EQ(faults.count(), 3);
  EXPECT_EQ(faults.last(), "no memory");
  EXPECT_EQ(faults.without_outcome(), 1);
}

TEST(Faults, OfOneThatGotThroughAreForgotten) {
  Faults faults;
  (void)faults.add(candidate_of(1), Work::compile, "signal 9");
  EXPECT_EQ(faults.without_outcome(), 1);
  (void)faults.got_through(candidate_of(1), Work::evaluation);
  EXPECT_EQ(faults.without_outcome(), 0);
  EXPECT_EQ(faults.count(), 1);
  EXPECT_EQ(faults.add(candidate_of(1), Work::compile, "signal 9"), Next::try_again);
}

TEST(Faults, OfThreeCandidatesInARowAreTheSystems) {
  Faults faults;
  for (const int x : {1, 2}) {
    EXPECT_EQ(faults.add(candidate_of(x), Work::evaluation, ""), Next::try_again);
    EXPECT_EQ(faults.add(candidate_of(x), Work::evaluation, ""), Next::wait);
  }
  (void)faults.got_through(candidate_of(4), Work::compile);
  EXPECT_EQ(faults.add(candidate_of(3), Work::evaluation, ""), Next::try_again);
  EXPECT_EQ(faults.add(candidate_of(3), Work::evaluation, ""), Next::end_search);
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

TEST_F(TuneFaults, ACandidateThatAlwaysMeetsOneIsGivenUpWithoutARecord) {
  int met = 0;
  evaluator.fault = [&](Point p) { return p == Point(2, 2) && ++met > 0; };
  const TuneResult result = run();
  EXPECT_EQ(met, 3);
  EXPECT_EQ(result.faults, 3);
  EXPECT_EQ(result.given_up, 1);
  EXPECT_EQ(result.evaluated, 63);
  EXPECT_EQ(records().size(), 63U);
  EXPECT_EQ(outcomes()[Outcome::launch_error], 0);
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_FALSE(result.failure);
  // The next run tries only that candidate.
  evaluator.fault = nullptr;
  forget_counts();
  const TuneResult again = run();
  EXPECT_FALSE(again.already_done);
  EXPECT_THAT(evaluator.evaluated, ElementsAre(Point(2, 2)));
  EXPECT_EQ(again.given_up, 0);
  EXPECT_TRUE(run().already_done);
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

TEST_F(TuneFaults, ASearchThatMustEndStoresNoWinnerThatCouldNotBeConfirmed) {
  evaluator.fault = [&](Point) { return evaluator.evaluated.size() >= 20; };
  const TuneResult result = run();
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("signal 9"));
  EXPECT_FALSE(result.winner) << "its confirmation met the fault, too";
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

/// Compilers are killed for a few seconds: those of two candidates twice, and one once more after
/// another candidate has succeeded.
TEST_F(TuneFaults, KilledCompilersAreNoCompileErrors) {
  options.compile_threads = 1;
  std::map<int, int> met;
  compiler.fault = [&](const KernelSpec& spec) {
    const auto x = spec.defines.find("X"), y = spec.defines.find("Y");
    if (x == spec.defines.end() || x->second != 6) return;
    const int most = y->second == 2 ? 2 : y->second == 3 ? 1000 : 0;
    if (++met[y->second] <= most) throw Error(ErrorKind::transient, "ended by signal 9");
  };
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2)) << "tried a third time";
  EXPECT_EQ(outcomes()[Outcome::compile_error], 8) << "those that the compiler refuses";
  EXPECT_EQ(met[3], 3) << "not for ever";
  EXPECT_EQ(result.faults, 5);
  EXPECT_EQ(result.given_up, 1);
  EXPECT_EQ(result.evaluated, 63);
  EXPECT_FALSE(result.failure);
}

TEST_F(TuneFaults, WithoutAWinnerFaultsAreNamedAsTheCause) {
  options.subspace = {{"X", {6}}, {"Y", {2}}};
  compiler.fault = [](const KernelSpec&) {
    throw Error(ErrorKind::transient, "ended by signal 9");
  };
  const TuneResult result = run();
  EXPECT_FALSE(result.winner);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind(), ErrorKind::transient);
  EXPECT_THAT(result.failure->what(), HasSubstr("ended by signal 9"));
  EXPECT_EQ(result.given_up, 1);
  EXPECT_TRUE(records().empty());
}

/// The budget ends during a compile, whose compiler is then killed.
TEST_F(TuneFaults, AFaultAfterTheBudgetIsNamedToo) {
  options.budget_seconds = 0.2;
  compiler.fault = [](const KernelSpec&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    throw Error(ErrorKind::transient, "ended by signal 9");
  };
  const TuneResult result = run();
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("ended by signal 9"));
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
  // The next winner must be faster than the stored one by more than the spread.
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

struct TuneOnDisk : TuneFaults {
  TuneOnDisk() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tune-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~TuneOnDisk() override { std::filesystem::remove_all(folder); }
  TuneResult run_on(Database& on_disk, ImageCache& images) {
    TuneContext context{on_disk, &images, &compiler, evaluator, progress, &stop};
    return tune(problem, options, context);
  }
  std::filesystem::path folder;
};

TEST_F(TuneOnDisk, ADatabaseThatFailsLosesNoWinnerOfWhatWasMeasured) {
  Database on_disk = Database::open(folder / "x.db");
  evaluator.fault = [&](Point p) {
    if (p == Point(6, 2)) std::filesystem::remove_all(folder);
    return false;
  };
  const TuneResult result = run_on(on_disk, cache);
  ASSERT_TRUE(result.winner);
  const Configuration& best = result.winner->record.candidate.configuration;
  EXPECT_EQ(Point(best.at("X"), best.at("Y")), Point(6, 2)) << "the one that was not stored";
  EXPECT_FALSE(result.stored);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind(), ErrorKind::database);
}

TEST_F(TuneOnDisk, NorDoesOneThatFailsInTheRace) {
  Database on_disk = Database::open(folder / "x.db");
  progress = [&](const TuneProgress& now) {
    if (now.phase == "race") std::filesystem::remove_all(folder);
  };
  const TuneResult result = run_on(on_disk, cache);
  ASSERT_TRUE(result.winner);
  EXPECT_FALSE(result.stored);
  EXPECT_EQ(result.winner->record.measurement->median_us, 100);
}

TEST_F(TuneOnDisk, AFinalistThatIsWrongInTheRaceIsNotNamed) {
  Database on_disk = Database::open(folder / "x.db");
  progress = [&](const TuneProgress& now) {
    if (now.phase == "race") std::filesystem::remove_all(folder);
  };
  evaluator.race_wrong = [](Point p) { return p == Point(6, 2); };
  const TuneResult result = run_on(on_disk, cache);
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.winner->record.measurement->median_us, 105);
}

TEST_F(TuneOnDisk, WhatAnotherProcessCompilesIsWaitedForAndThatIsSaid) {
  ImageCache ours(folder / "x.db.cache"), theirs(folder / "x.db.cache");
  const Target target = evaluator.device_info().target;
  ASSERT_EQ(theirs.claim({source_name(), "pack", {}}, target), ImageCache::Claim::held);
  options.budget_seconds = 0.3;
  const TuneResult result = run_on(database, ours);
  EXPECT_FALSE(result.winner);
  EXPECT_EQ(result.waited, 1) << "one compiler thread";
  EXPECT_EQ(result.given_up, 0);
  EXPECT_FALSE(result.failure);
  EXPECT_FALSE(database.searches(problem, gpu).front().finished);
}

}  // namespace
}  // namespace tilewise::faults_test
