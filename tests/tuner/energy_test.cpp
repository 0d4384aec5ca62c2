// Energy per product: the span of a counter, the race on a fake device, and searches by energy on a
// fake template with made-up energies.
#include "tuner/evaluate/energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "tests/tuner/fake_baseline.hpp"
#include "tests/tuner/fake_kernels.hpp"
#include "tests/tuner/tune_fixture.hpp"
#include "tilewise/error.hpp"
#include "tuner/select_winner.hpp"

namespace tilewise::energy_test {
namespace {

using testing::HasSubstr;

// The span ----------------------------------------------------------------------------------------

/// A device of constant power whose counter changes once in a period. It is read every `step`
/// seconds while products of a constant time run.
struct Load {
  double watts = 500, period = 0.1, step = 0.0007, product_seconds = 0.01, began = 0.0123;
  double most_seconds = 3;

  struct Result {
    double mj = 0, seconds = 0;
    bool ended = false;
  };
  Result run() const {
    EnergySpan span;
    Result result;
    for (double t = began; t < began + most_seconds && !result.ended; t += step) {
      const double counter = 7e6 + 1e3 * watts * std::floor(t / period) * period;
      result.ended = span.add(t, counter, static_cast<std::int64_t>((t - began) / product_seconds));
      result.seconds = t - began;
    }
    result.mj = span.mj_per_product();
    return result;
  }
};

TEST(EnergySpan, IsThePowerTimesTheTimeOfAProduct) {
  for (const double period : {0.02, 0.05, 0.1})
    for (const double product_seconds : {1e-5, 0.003, 0.01, 0.0711}) {
      const Load load{.period = period, .product_seconds = product_seconds};
      const Load::Result result = load.run();
      const double expected = 1e3 * 500 * product_seconds;
      EXPECT_TRUE(result.ended);
      EXPECT_NEAR(result.mj, expected, 0.01 * expected) << period << " " << product_seconds;
      EXPECT_GE(result.seconds, 0.5);
      EXPECT_LE(result.seconds, 0.5 + 3 * period);
    }
}

TEST(EnergySpan, LastsUntilTwoProductsHaveEnded) {
  const Load::Result result = Load{.product_seconds = 0.7}.run();
  EXPECT_TRUE(result.ended);
  EXPECT_GT(result.seconds, 1.4);
  EXPECT_NEAR(result.mj, 350'000, 3'500);
}

TEST(EnergySpan, OfACounterThatStandsStillHasNoEnd) {
  const Load::Result result = Load{.period = 100}.run();
  EXPECT_FALSE(result.ended);
  EXPECT_EQ(result.mj, 0);
}

TEST(EnergySpan, OfACounterThatGoesBackIsNotKnown) {
  EnergySpan span;
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) ended = span.add(0.02 * i, 1e6 - i, i);
  EXPECT_TRUE(ended);
  EXPECT_EQ(span.mj_per_product(), 0);
}

TEST(EnergyCounter, SumsThePowerOverTimeWhereThereIsNoCounter) {
  fake::Device device;
  device.power_w = 300;
  EnergyCounter counter(device);
  EXPECT_EQ(counter.read(5), 0);
  EXPECT_NEAR(counter.read(5.5).value(), 150e3, 1);
  device.power_w = 100;
  EXPECT_NEAR(counter.read(7.5).value(), 350e3, 1);
  device.power_w = 0;
  EXPECT_EQ(counter.read(8), std::nullopt);
  device.energy = [] { return 7e6; };
  EXPECT_EQ(counter.read(9), 7e6);
}

// The race on a device ----------------------------------------------------------------------------

constexpr double kMillijoules = 2.5;  // of each launch on the fake device

struct EnergyOnADevice : testing::Test {
  EnergyOnADevice() {
    problem.m = 37;
    problem.n = 29;
    problem.k = 41;
    set_alignment(problem, {4, 4, 4});
    TimingOptions timing;
    timing.max_seconds = 0.01;
    timing.race_rounds = 2;
    evaluator = make_local_evaluator(device, {&baseline}, timing);
    evaluator->begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
  }
  /// Sets a counter of kMillijoules a launch that changes every 20 ms.
  void count_launches() {
    device.energy = [this]() -> std::optional<double> {
      const auto now = std::chrono::steady_clock::now();
      if (now - changed_ > std::chrono::milliseconds(20)) {
        counter_ = kMillijoules * device.launch_count;
        changed_ = now;
      }
      return counter_;
    };
  }
  RaceResult race(bool energy, bool with_baselines = false) {
    EvaluationRequest request = fake::make_request(problem, "right");
    request.energy = energy;
    return evaluator->race({request}, with_baselines);
  }

  fake::Device device;
  fake::Baseline baseline{device};
  Problem problem;
  std::unique_ptr<Evaluator> evaluator;

 private:
  std::chrono::steady_clock::time_point changed_;
  double counter_ = 0;
};

TEST_F(EnergyOnADevice, IsThatOfAProductByTheCounter) {
  count_launches();
  EXPECT_TRUE(evaluator->measures_energy());
  const Measurement measured = race(true).finalists.at(0).measurement.value();
  // On a busy machine, the distances of launches and of the counter's changes are uneven.
  EXPECT_GT(measured.energy_mj, 0.2 * kMillijoules);
  EXPECT_LT(measured.energy_mj, 5 * kMillijoules);
  EXPECT_EQ(measured.power_limit_w, 700);
}

TEST_F(EnergyOnADevice, IsNotMeasuredUnlessAsked) {
  count_launches();
  EXPECT_EQ(race(false).finalists.at(0).measurement->energy_mj, 0);
}

TEST_F(EnergyOnADevice, IsThePowerTimesTheTimeWithoutACounter) {
  EXPECT_TRUE(evaluator->measures_energy()) << "by its power";
  const RaceResult result = race(true, true);
  const Measurement& measured = result.finalists.at(0).measurement.value();
  // On a busy machine, the time in the race and in the span differ.
  EXPECT_GT(measured.energy_mj, 0.03 * 300 * measured.median_us * 1e-3);
  EXPECT_LT(measured.energy_mj, 30 * 300 * measured.median_us * 1e-3);
  EXPECT_GT(result.baselines.at(0).measurement.energy_mj, 0.1 * 300 * 2000 * 1e-3) << "2 ms";
}

TEST_F(EnergyOnADevice, CannotBeMeasuredWithoutEither) {
  device.power_w = 0;
  EXPECT_FALSE(evaluator->measures_energy());
  const Evaluation evaluation = race(true).finalists.at(0);
  EXPECT_EQ(evaluation.outcome, Outcome::ok);
  EXPECT_EQ(evaluation.measurement->energy_mj, 0);
}

TEST_F(EnergyOnADevice, IsUnknownWhereTheCounterStandsStill) {
  device.energy = [] { return 7e6; };
  const Evaluation evaluation = race(true).finalists.at(0);
  EXPECT_EQ(evaluation.outcome, Outcome::ok);
  EXPECT_EQ(evaluation.measurement->energy_mj, 0);
  EXPECT_GT(evaluation.measurement->median_us, 0);
}

// Each span of such a counter takes three seconds.
TEST_F(EnergyOnADevice, IsNotAskedForAgainWhereTheCounterStoodStill) {
  device.energy = [] { return 7e6; };
  EvaluationRequest request = fake::make_request(problem, "right");
  request.energy = true;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(evaluator->race({request, request, request}, false).finalists.size(), 3U);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
  EXPECT_LT(spent.count(), 6);
}

// The selection -----------------------------------------------------------------------------------

Record measured(const std::string& name, double us, double mj) {
  Record record;
  record.candidate.kernel_template = name;
  record.measurement = Measurement{};
  record.measurement->median_us = us;
  record.measurement->spread = 0.01;
  record.measurement->energy_mj = mj;
  return record;
}

std::string chosen(const std::vector<Record>& raced, const char* incumbent = "") {
  const auto served = *incumbent ? std::optional(Candidate{incumbent, {}}) : std::nullopt;
  const Record* winner = select_winner(raced, served, Objective::energy);
  return winner ? winner->candidate.kernel_template : "none";
}

TEST(SelectByEnergy, TakesTheLeastEnergyNotTheLeastTime) {
  EXPECT_EQ(chosen({measured("fast", 100, 60), measured("frugal", 125, 50)}), "frugal");
}

TEST(SelectByEnergy, OfAlikeEnergiesTakesTheFaster) {
  EXPECT_EQ(chosen({measured("slow", 110, 50), measured("fast", 100, 50.4)}), "fast");
  EXPECT_EQ(chosen({measured("slow", 110, 50), measured("fast", 100, 50.6)}), "slow");
}

TEST(SelectByEnergy, LeavesOutWhoseEnergyIsNotKnown) {
  Record failed = measured("failed", 50, 10);
  failed.outcome = Outcome::wrong_result;
  EXPECT_EQ(chosen({measured("unknown", 90, 0), measured("nan", 80, std::nan("")),
                    measured("minus", 70, -1), failed, measured("known", 100, 50)}),
            "known");
  EXPECT_EQ(chosen({measured("unknown", 90, 0)}), "none");
  EXPECT_EQ(chosen({}), "none");
}

TEST(SelectByEnergy, TheIncumbentStaysUnlessBeaten) {
  const Record served = measured("served", 100, 50);
  EXPECT_EQ(chosen({measured("new", 100, 49.8), served}, "served"), "served");
  EXPECT_EQ(chosen({measured("new", 99.5, 50), served}, "served"), "served");
  EXPECT_EQ(chosen({measured("new", 97, 50), served}, "served"), "new") << "as frugal, and faster";
  EXPECT_EQ(chosen({measured("new", 120, 48), served}, "served"), "new");
}

TEST(SelectByEnergy, FinalistsAreMoreAndMayBeSlower) {
  std::vector<Record> records;
  for (int i = 0; i < 40; ++i) records.push_back(measured(std::to_string(i), 100 + i, 0));
  EXPECT_EQ(pick_finalists(records, 6, {}).size(), 11u) << "within 10%";
  EXPECT_EQ(pick_finalists(records, 6, {}, Objective::energy).size(), 16u);
  EXPECT_EQ(pick_finalists(records, 12, {}, Objective::energy).size(), 24u);
  EXPECT_EQ(pick_finalists(records, 64, {}, Objective::energy).size(), 31u) << "within 30%";
}

// Searches ----------------------------------------------------------------------------------------

/// The fastest is (6, 2) with 100 us. The one with the least energy among those within 30% is (4,
/// 2) with 114 us.
struct TuneByEnergy : Tune {
  TuneByEnergy() {
    evaluator.energy = [](Point p) { return p == Point(4, 2) ? 20.0 : 30.0; };
    options.objective = Objective::energy;
    options.finalists = 64;
  }
};

TEST_F(TuneByEnergy, TheWinnerTakesTheLeastEnergyAndIsNotTheFastest) {
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(4, 2));
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.winner->objective, Objective::energy);
  EXPECT_EQ(result.winner->record.measurement->energy_mj, 20);
  EXPECT_EQ(database.record(result.winner->record.id)->measurement->energy_mj, 20);
  EXPECT_EQ(database.searches(problem, gpu).at(0).objective, Objective::energy);
  EXPECT_TRUE(run().already_done);
}

TEST_F(TuneByEnergy, EveryFinalistsEnergyIsKept) {
  run();
  std::size_t kept = 0;
  for (const Record& record : records())
    kept += record.measurement && record.measurement->energy_mj > 0;
  EXPECT_EQ(kept, evaluator.raced.size());
  EXPECT_GT(kept, 6u);
}

TEST_F(TuneByEnergy, ASearchByTimeIgnoresEnergy) {
  options.objective = Objective::time;
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(result.winner->objective, Objective::time);
  EXPECT_EQ(result.winner->record.measurement->energy_mj, 0) << "nor measures it";
}

TEST_F(TuneByEnergy, IsRefusedBeforeAnythingIsMeasuredWhereThereIsNone) {
  evaluator.energy = nullptr;
  try {
    run();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("made-up GPU reports neither"));
    EXPECT_THAT(error.what(), HasSubstr("the objective time"));
  }
  EXPECT_EQ(evaluator.begins, 0);
  EXPECT_EQ(database.counts().records + database.counts().searches, 0);
}

TEST_F(TuneByEnergy, WithoutAnyMeasuredEnergyThereIsNoWinnerAndAnError) {
  evaluator.energy = [](Point) { return 0.0; };
  const TuneResult result = run();
  EXPECT_FALSE(result.winner);
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("did not change"));
  EXPECT_FALSE(database.searches(problem, gpu).at(0).finished);
  evaluator.energy = [](Point p) { return p == Point(7, 2) ? 20.0 : 0.0; };
  EXPECT_FALSE(run().failure);
  EXPECT_EQ(winner(), Point(7, 2)) << "the only one whose energy is known";
}

TEST_F(TuneByEnergy, ALostFinalistIsNoMissingEnergy) {
  options.only = {{"grid", {{"X", 4}, {"Y", 2}}}};
  evaluator.race_lost = [](Point) { return true; };
  const TuneResult result = run();
  EXPECT_FALSE(result.failure) << result.failure->what();
}

TEST_F(TuneByEnergy, AnotherObjectiveIsNotAlreadyDoneAndReplacesTheWinner) {
  run();
  ASSERT_EQ(winner(), Point(4, 2));
  options.objective = Objective::time;
  const TuneResult by_time = run();
  EXPECT_FALSE(by_time.already_done);
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_TRUE(run().already_done);
  options.objective = Objective::energy;
  const TuneResult by_energy = run();
  EXPECT_FALSE(by_energy.already_done) << "it had finished, but its winner is not served any more";
  EXPECT_EQ(winner(), Point(4, 2));
  EXPECT_EQ(by_energy.winner->objective, Objective::energy);
}

TEST_F(TuneByEnergy, TheSameWinnerOfAnotherObjectiveIsOfThatOne) {
  options.objective = Objective::time;
  run();
  ASSERT_EQ(winner(), Point(6, 2));
  evaluator.energy = [](Point p) { return p == Point(6, 2) ? 20.0 : 30.0; };
  options.objective = Objective::energy;
  EXPECT_EQ(run().winner->objective, Objective::energy);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(TuneByEnergy, AWinnerByTimeNeedNotBeBeatenInTime) {
  options.objective = Objective::time;
  run();
  evaluator.energy = [](Point p) { return p == Point(6, 2) ? 20.1 : 20.0; };
  options.objective = Objective::energy;
  run();
  EXPECT_EQ(winner(), Point(6, 2)) << "alike, and the fastest";
  evaluator.energy = [](Point p) { return p == Point(6, 2) ? 30.0 : 20.0; };
  options.force = true;
  run();
  EXPECT_NE(winner(), Point(6, 2));
}

TEST_F(TuneByEnergy, ARaceThatDiesLeavesAServedWinnerAsItIs) {
  run();
  evaluator.race_dies = true;
  options.objective = Objective::time;
  run();
  EXPECT_EQ(winner(), Point(4, 2));
  EXPECT_EQ(database.winner(problem, gpu)->objective, Objective::energy);
}

TEST_F(TuneByEnergy, AnInterruptedRunServesItsFastestAsByTime) {
  evaluator.stop = &stop;
  evaluator.stop_after = 10;
  const TuneResult result = run();
  EXPECT_TRUE(result.interrupted);
  ASSERT_TRUE(result.winner);
  EXPECT_EQ(result.winner->objective, Objective::time);
  stop = false;
  evaluator.stop = nullptr;
  EXPECT_EQ(run().winner->objective, Objective::energy);
  EXPECT_EQ(winner(), Point(4, 2));
}

TEST_F(TuneByEnergy, AWrongFinalistDoesNotWinByItsEnergy) {
  evaluator.race_wrong = [](Point p) { return p == Point(4, 2); };
  run();
  EXPECT_NE(winner(), Point(4, 2));
}

}  // namespace
}  // namespace tilewise::energy_test
