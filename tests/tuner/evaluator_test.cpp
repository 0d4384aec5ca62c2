// The evaluator in this process, on a fake device in host memory.
#include "tuner/evaluate/evaluator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/tuner/fake_baseline.hpp"
#include "tests/tuner/fake_kernels.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/benchmark.hpp"

namespace tilewise::evaluator_test {
namespace {

using testing::HasSubstr;

Problem make_problem(Layout layout = Layout::nn, int alignment = 4) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = 37;
  problem.n = 29;
  problem.k = 41;
  set_alignment(problem, {alignment, alignment, alignment});
  return problem;
}

class LocalEvaluation : public testing::Test {
 protected:
  fake::Device device;
  fake::Baseline baseline{device};
  fake::ChoosyBaseline choosy{device};
  Problem problem = make_problem();
  std::unique_ptr<Evaluator> evaluator;

  void SetUp() override { begin(); }
  void begin() {
    TimingOptions timing;
    timing.max_seconds = 0.01;
    timing.race_rounds = 3;
    evaluator = make_local_evaluator(device, {&baseline, &choosy}, timing);
    evaluator->begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
  }
  Evaluation evaluate(const std::string& kernel, double best_us = 0) {
    return evaluator->evaluate(fake::make_request(problem, kernel, best_us));
  }
  void expect_wrong(const std::string& kernel, const std::string& why) {
    const Evaluation evaluation = evaluate(kernel);
    EXPECT_EQ(evaluation.outcome, Outcome::wrong_result) << kernel;
    EXPECT_THAT(evaluation.detail, HasSubstr(why)) << kernel;
    EXPECT_FALSE(evaluation.measurement) << "wrong is never timed";
    EXPECT_EQ(evaluate("right").outcome, Outcome::ok) << "after " << kernel;
  }
};

TEST_F(LocalEvaluation, ARightCandidateIsTimed) {
  const Evaluation evaluation = evaluate("right");
  ASSERT_EQ(evaluation.outcome, Outcome::ok) << evaluation.detail;
  EXPECT_LE(evaluation.error_ratio, 1);
  EXPECT_GT(evaluation.error_ratio, 0);
  EXPECT_LT(evaluation.normwise_error, 1e-6);
  EXPECT_EQ(evaluation.usage.registers, 32);
  ASSERT_TRUE(evaluation.measurement);
  EXPECT_GT(evaluation.measurement->median_us, 0);
  EXPECT_GE(evaluation.measurement->samples, 1);
  EXPECT_TRUE(evaluation.measurement->cold);
  EXPECT_EQ(evaluation.measurement->method, "graph");
  EXPECT_EQ(evaluation.measurement->sm_clock_mhz, 1980);
  EXPECT_EQ(evaluation.measurement->power_w, 300);
  if (evaluation.measurement->median_us < 400) {  // the host's time is not measured for a slow one
    EXPECT_GT(evaluation.measurement->host_us, 0);
  }
}

TEST_F(LocalEvaluation, ARightCandidatePassesInEveryLayoutAndAlignment) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    for (const int alignment : {4, 8, 16}) {
      problem = make_problem(layout, alignment);
      begin();
      EXPECT_EQ(evaluate("right").outcome, Outcome::ok) << to_string(problem);
    }
  }
}

TEST_F(LocalEvaluation, WrongResultsAreCaughtAndSaidWhy) {
  expect_wrong("one_element", "C[36][14]");
  expect_wrong("unwritten", "C[36][0] = nan");
  expect_wrong("after_c", "wrote outside C");
  expect_wrong("before_c", "wrote outside C, -4 bytes");
  expect_wrong("row_gap", "wrote outside C, 116 bytes");
  expect_wrong("changes_a", "changed its input A");
  expect_wrong("changes_b", "changed its input B");
  expect_wrong("ignores_beta", "beta -2");
  expect_wrong("ignores_alpha", "alpha 3");
  expect_wrong("ignores_device_scalars", "read on the device");
  expect_wrong("reads_c", "nan");
  expect_wrong("reads_past_row", "nan");
}

TEST_F(LocalEvaluation, MoreAlignmentThanPromisedIsNotThere) {
  EXPECT_EQ(evaluate("wants_16_bytes").outcome, Outcome::launch_error);
  device.broken = false;
  problem = make_problem(Layout::nn, 16);
  begin();
  EXPECT_EQ(evaluate("wants_16_bytes").outcome, Outcome::ok);
}

TEST_F(LocalEvaluation, ARefusedLaunchIsAnOutcomeWithTheDriversWords) {
  const Evaluation refused = evaluate("refused");
  EXPECT_EQ(refused.outcome, Outcome::launch_error);
  EXPECT_THAT(refused.detail, HasSubstr("fake driver: invalid launch"));
  const Evaluation absent = evaluate("no_such_kernel");
  EXPECT_EQ(absent.outcome, Outcome::launch_error);
  EXPECT_THAT(absent.detail, HasSubstr("named symbol not found"));
  EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
}

TEST_F(LocalEvaluation, AStickyErrorEndsIt) {
  EXPECT_EQ(evaluate("sticky").outcome, Outcome::launch_error);
  try {
    evaluate("right");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr("illegal memory access"));
  }
}

TEST_F(LocalEvaluation, FarBehindIsTimedBriefly) {
  const Evaluation evaluation = evaluate("slow", 10);
  ASSERT_TRUE(evaluation.measurement);
  EXPECT_EQ(evaluation.measurement->samples, 1);
  EXPECT_EQ(evaluation.measurement->method, "event");
  EXPECT_GT(evaluation.measurement->median_us, 3000);
}

TEST_F(LocalEvaluation, ARaceTimesFinalistsAndTheOtherLibraryAlternately) {
  const std::vector<EvaluationRequest> finalists = {fake::make_request(problem, "slow"),
                                                    fake::make_request(problem, "one_element"),
                                                    fake::make_request(problem, "right")};
  const RaceResult result = evaluator->race(finalists, true);
  ASSERT_EQ(result.finalists.size(), 3U);
  EXPECT_EQ(result.finalists[1].outcome, Outcome::wrong_result);
  EXPECT_FALSE(result.finalists[1].measurement);
  ASSERT_TRUE(result.finalists[0].measurement && result.finalists[2].measurement);
  EXPECT_GT(result.finalists[0].measurement->median_us, result.finalists[2].measurement->median_us);
  EXPECT_EQ(result.finalists[2].measurement->samples, 3);
  ASSERT_EQ(result.baselines.size(), 2U);
  EXPECT_EQ(result.baselines[0].variant, "default");
  EXPECT_EQ(result.baselines[1].variant, "lt_best");
  EXPECT_EQ(choosy.chosen, 2) << "the fastest of those that work";
  EXPECT_EQ(result.baselines[0].library, "fakeBLAS");
  EXPECT_EQ(result.baselines[0].version, "2.0");
  EXPECT_EQ(result.baselines[0].problem, problem);
  EXPECT_GT(result.baselines[0].measurement.median_us, 2000);
  EXPECT_TRUE(evaluator->race(finalists, false).baselines.empty());
}

TEST_F(LocalEvaluation, AFinalistThatIsNotTheSameEachTimeHasNoTime) {
  EXPECT_EQ(evaluate("now_and_then").outcome, Outcome::ok) << "within the bounds each time";
  EvaluationRequest request = fake::make_request(problem, "now_and_then");
  request.observe_seconds = 0.01;
  const Evaluation observed = evaluator->evaluate(request);
  EXPECT_EQ(observed.outcome, Outcome::wrong_result);
  EXPECT_THAT(observed.detail, HasSubstr("not the same each time: launch"));
  EXPECT_GE(observed.observed, 4);
  EXPECT_FALSE(observed.measurement);
  const RaceResult result = evaluator->race(
      {fake::make_request(problem, "never_the_same"), fake::make_request(problem, "right")}, false);
  EXPECT_EQ(result.finalists[0].outcome, Outcome::wrong_result);
  EXPECT_THAT(result.finalists[0].detail, HasSubstr("not the same each time: after round"));
  EXPECT_FALSE(result.finalists[0].measurement);
  EXPECT_EQ(result.finalists[1].outcome, Outcome::ok);
  EXPECT_TRUE(result.finalists[1].measurement);
}

TEST_F(LocalEvaluation, ALibraryThatFailsDoesNotCostTheRace) {
  baseline.fails = choosy.fails = true;
  const RaceResult result = evaluator->race({fake::make_request(problem, "right")}, true);
  EXPECT_TRUE(result.finalists[0].measurement);
  EXPECT_TRUE(result.baselines.empty());
}

TEST_F(LocalEvaluation, AFinalistThatBreaksTheDeviceLeavesNoneUnjudged) {
  const RaceResult result =
      evaluator->race({fake::make_request(problem, "right"), fake::make_request(problem, "sticky"),
                       fake::make_request(problem, "right")},
                      true);
  for (const Evaluation& evaluation : result.finalists) {
    EXPECT_EQ(evaluation.outcome, Outcome::launch_error);
    EXPECT_FALSE(evaluation.measurement);
    EXPECT_THAT(evaluation.detail, HasSubstr("illegal memory access"));
  }
}

TEST_F(LocalEvaluation, GivesItsMemoryBack) {
  evaluate("right");
  evaluate("one_element");
  evaluator.reset();
  EXPECT_EQ(device.live_blocks(), 0);
}

// ---- memory ----

TEST_F(LocalEvaluation, WorksWithRoomForOneSetOfOperandsOnly) {
  evaluator.reset();
  for (const double room : {1.1, 1.7, 2.5, 4.0}) {
    const auto minimal = static_cast<double>(Validator::minimal_bytes(problem));
    device.free_bytes = static_cast<std::int64_t>(room * minimal) + 1024;
    begin();
    EXPECT_EQ(evaluate("right").outcome, Outcome::ok) << room;
    expect_wrong("changes_a", "changed its input A");
    expect_wrong("ignores_beta", "beta -2");
    evaluator.reset();
  }
}

TEST_F(LocalEvaluation, WhatWasRightBeforeIsKeptInAQuarterOfTheMemoryAtMost) {
  evaluator.reset();
  device.facts.l2_bytes = 0;  // so that one set of buffers suffices
  for (const int room : {8, 10, 30}) {
    const std::int64_t free = room * Validator::minimal_bytes(problem);
    device.free_bytes = free;
    begin();
    EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
    device.downloaded_bytes = 0;
    EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
    const std::int64_t checksums = 16 * std::ssize(data_sets(problem));  // of A and B of each set
    EXPECT_TRUE(device.downloaded_bytes == checksums || room < 30)
        << "it is recognised on the device";
    const std::int64_t others =
        Validator::resident_bytes(problem) + TimingBuffers::set_bytes(problem) + 256;
    EXPECT_LE(free - device.free_bytes, others + free / 4) << room;
    expect_wrong("one_element", "C[");
    evaluator.reset();
  }
}

// Another process took the free memory, so right results are compared on the host.
TEST_F(LocalEvaluation, WhatIsKeptIsDoneWithoutWhereMemoryIsGone) {
  device.free_bytes = 0;
  for (int i = 0; i < 2; ++i) {
    device.downloaded_bytes = 0;
    EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
    EXPECT_GT(device.downloaded_bytes, 0);
    expect_wrong("one_element", "C[");
  }
}

TEST_F(LocalEvaluation, WhatIsKeptMakesRoomForACandidatesWorkspace) {
  evaluator.reset();
  device.free_bytes = 1 << 24;
  begin();
  evaluate("right");
  device.workspace_bytes = device.free_bytes + 1;
  EXPECT_EQ(evaluate("with_workspace").outcome, Outcome::ok);
  EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
  device.workspace_bytes = device.facts.memory_bytes;
  const Evaluation refused = evaluate("with_workspace");
  EXPECT_EQ(refused.outcome, Outcome::launch_error);
  EXPECT_THAT(refused.detail, HasSubstr("bytes asked"));
}

TEST_F(LocalEvaluation, ADeviceThatCannotCompareKeepsNothing) {
  evaluator.reset();
  device.facts.l2_bytes = 0;
  device.can_compare = false;
  begin();
  const std::int64_t free = device.free_bytes;
  EXPECT_EQ(evaluate("right").outcome, Outcome::ok);
  EXPECT_EQ(device.free_bytes, free);
  EXPECT_LE((std::int64_t{1} << 30) - free,
            Validator::resident_bytes(problem) + TimingBuffers::set_bytes(problem) + 256);
}

TEST_F(LocalEvaluation, TooLittleMemoryIsAnErrorWithBothNumbers) {
  evaluator.reset();
  device.free_bytes = 1000;
  try {
    begin();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("are free"));
  }
}

TEST_F(LocalEvaluation, AnEmptyProductIsRefused) {
  problem.m = 0;
  EXPECT_THROW(begin(), Error);
}

// ---- timing ----

TEST(Timing, SetsExceedTwiceTheL2) {
  DeviceInfo info;
  info.l2_bytes = 50 << 20;
  Problem problem = make_problem();
  problem.m = problem.n = problem.k = 1024;
  const std::int64_t sets = TimingBuffers::sets_wanted(problem, info, true);
  EXPECT_GE(sets * TimingBuffers::set_bytes(problem), 2 * info.l2_bytes);
  EXPECT_LT((sets - 1) * TimingBuffers::set_bytes(problem), 2 * info.l2_bytes);
  EXPECT_EQ(TimingBuffers::sets_wanted(problem, info, false), 1);
  problem.m = problem.n = problem.k = 4096;
  EXPECT_EQ(TimingBuffers::sets_wanted(problem, info, true), 1);
  problem.m = problem.n = problem.k = 4;
  EXPECT_EQ(TimingBuffers::sets_wanted(problem, info, true), 512);
}

struct TimingRun {
  Measurement measurement;
  std::set<const void*> used;  ///< the C of each set written
  std::int64_t l2_fills = 0;
};

TimingRun time_products(std::int64_t l2_bytes, std::int64_t sets, bool cold) {
  fake::Device device;
  device.facts.l2_bytes = l2_bytes;
  const Problem problem = make_problem();
  const Reference reference = Reference::compute(problem);
  const TimingBuffers buffers(device, nullptr, reference, sets);
  TimingOptions options;
  options.cold = cold;
  options.max_seconds = 2;  // not reached, even on a busy machine
  options.max_samples = 6;
  Benchmark benchmark(device, nullptr, problem, buffers, options);
  device.fills = 0;
  TimingRun run;
  run.measurement = benchmark.measure(
      [&](const Call& call) {
        run.used.insert(call.c);
        device.perform([] { std::this_thread::sleep_for(std::chrono::microseconds(20)); });
      },
      0);
  run.l2_fills = device.fills;
  return run;
}

TEST(Timing, RotatesOverAllSetsWhenTheyExceedTheL2) {
  const TimingRun run = time_products(40'000, 7, true);
  EXPECT_EQ(run.used.size(), 7U);
  EXPECT_EQ(run.measurement.launches_per_sample % 7, 0);
  EXPECT_TRUE(run.measurement.cold);
  EXPECT_EQ(run.l2_fills, 0);
}

TEST(Timing, EmptiesTheL2WhereTheSetsAreTooFew) {
  const TimingRun run = time_products(1 << 20, 7, true);
  EXPECT_LE(run.measurement.launches_per_sample, 7);
  EXPECT_TRUE(run.measurement.cold);
  EXPECT_GE(run.l2_fills, run.measurement.samples);
}

TEST(Timing, WarmIsSaidToBeWarm) {
  const TimingRun run = time_products(1 << 20, 1, false);
  EXPECT_EQ(run.used.size(), 1U);
  EXPECT_FALSE(run.measurement.cold);
  EXPECT_EQ(run.l2_fills, 0);
}

TEST(Timing, ASampleHoldsManyShortLaunches) {
  TimingRun run = time_products(0, 1, true);
  // Another process may take the processor while the first launches are timed.
  for (int again = 0; again < 4 && run.measurement.launches_per_sample <= 2; ++again)
    run = time_products(0, 1, true);
  EXPECT_GT(run.measurement.launches_per_sample, 2);
  EXPECT_GT(run.measurement.median_us, 20);
}

TEST(Timing, WhatCannotWinIsCutShortAndSaysSo) {
  fake::Device device;
  device.facts.l2_bytes = 0;
  const Problem problem = make_problem();
  const TimingBuffers buffers(device, nullptr, Reference::compute(problem), 1);
  Benchmark benchmark(device, nullptr, problem, buffers, {});
  const auto spin = [&](const Call&) {
    device.perform([] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(90);
      while (std::chrono::steady_clock::now() < end) {
      }
    });
  };
  // 90 us: above 1.5 x 45, but not above 1.5 x 45 + 50 unless the machine is busy.
  const Measurement behind = benchmark.measure(spin, 45);
  EXPECT_EQ(behind.samples, 1);
  EXPECT_THAT(behind.method, testing::AnyOf("graph, cut short", "event"));
  EXPECT_GE(behind.median_us, 90);
  const Measurement close = benchmark.measure(spin, 5000);
  EXPECT_EQ(close.method, "graph");
  EXPECT_GE(close.samples, TimingOptions{}.min_samples);
}

TEST(Timing, TakesFewerSetsWhenMemoryRunsOut) {
  fake::Device device;
  const Problem problem = make_problem();
  const Reference reference = Reference::compute(problem);
  device.free_bytes = TimingBuffers::set_bytes(problem) * 5 / 2;
  const TimingBuffers buffers(device, nullptr, reference, 10);
  EXPECT_EQ(buffers.calls().size(), 2U);
  const TimingBuffers* none = nullptr;
  EXPECT_THROW(none = new TimingBuffers(device, nullptr, reference, 1), Error);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace tilewise::evaluator_test
