// cover(): measuring a range, with a fake compiler and times from the cost model.
#include "tuner/cover.hpp"
#include "vocabulary/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <latch>
#include <map>
#include <set>

#include "matmul/resolve.hpp"
#include "templates/cost_model.hpp"
#include "tests/support/elf.hpp"
#include "tests/support/fake_compiler.hpp"

namespace tilewise::cover_test {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

/// A clock that evaluations advance.
struct CountedTime {
  static constexpr double kEvaluation = 1e-3, kReading = 1e-6;
  void evaluated() { microseconds += static_cast<std::int64_t>(kEvaluation * 1e6); }
  /// A reading takes time too, so that a loop without evaluations ends.
  double now() { return static_cast<double>(++microseconds) * kReading; }
  std::atomic<std::int64_t> microseconds{0};
};

/// Times are the cost model's, multiplied by a factor from 1 to 1.5 that depends on the kernel.
/// simt with its size as constants is the fastest.
class ModelEvaluator : public Evaluator {
 public:
  explicit ModelEvaluator(CountedTime& time) : time_(time) {}
  DeviceInfo device_info() override {
    DeviceInfo device = nominal_device({9, 0, true});
    if (!has_clock) device.clock_khz = 0;
    return device;
  }
  std::string driver_version() override { return "580.1"; }
  void begin(const Problem& problem, std::shared_ptr<const Reference>) override {
    // A confirmation begins with an edge size, whose n, unlike a point's, is not a power of two,
    // and returns.
    if (!std::has_single_bit(static_cast<std::uint64_t>(problem.n))) return;
    if (!begun.empty() && begun.back() == problem) return;
    begun.push_back(problem);
    if (stop && static_cast<int>(begun.size()) == stop_after) stop->store(true);
    if (on_begin) on_begin(static_cast<int>(begun.size()));
  }
  Evaluation evaluate(const EvaluationRequest& request) override {
    time_.evaluated();
    Evaluation evaluation;
    if (is_wrong && is_wrong(*multiply_step(request.plan))) {
      evaluation.outcome = Outcome::wrong_result;
      return evaluation;
    }
    evaluation.outcome = Outcome::ok;
    evaluation.measurement = Measurement{};
    const auto hash = std::hash<std::string>{}(to_string(multiply_step(request.plan)->kernel));
    evaluation.measurement->median_us = estimate(request.plan, device_info()).seconds * 1e6 *
                                        (1 + static_cast<double>(hash % 1000) / 2000);
    const auto& defines = multiply_step(request.plan)->kernel.defines;
    const auto special = defines.find("SPECIALIZE_SIZE");
    if (special != defines.end() && special->second == 1) evaluation.measurement->median_us = 1e-3;
    return evaluation;
  }
  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool) override {
    RaceResult result;
    for (const EvaluationRequest& request : finalists)
      result.finalists.push_back(evaluate(request));
    return result;
  }
  bool has_clock = true;
  std::function<bool(const LaunchStep&)> is_wrong;
  std::vector<Problem> begun;
  std::atomic<bool>* stop = nullptr;
  int stop_after = -1;
  std::function<void(int)> on_begin;  ///< called with the number of problems begun; may throw

 private:
  CountedTime& time_;
};

struct Cover : testing::Test {
  Cover() {
    options.budget_seconds = 1;
    options.search_seconds = 0.05;
    options.compile_threads = 1;
    options.templates = select_templates({"tiled", "naive"});
    compiler.name = "fake 1";
    range = {Problem{},
             {{{Layout::nn, Layout::tn},
               Extents::parse("1..96"),
               Extents::parse("64,128"),
               Extents::parse("16..512")}}};
  }
  CoverResult run() {
    TuneContext context = context_of_run();
    return cover(range, options, context, [&](const CoverProgress& now) {
      EXPECT_LE(now.points, evaluator.begun.size());
      EXPECT_TRUE(now.point);
      ++reports;
    });
  }
  TuneContext context_of_run() {
    return {database, nullptr, &compiler, evaluator,
            {},       &stop,   nullptr,   [this] { return time.now(); }};
  }
  /// Runs with two further devices. Each waits at its first problem until all three are there, so
  /// that none takes all points. `failing` makes the last one fail: when it is opened (0) or at its
  /// first problem (1).
  CoverResult run_on_three(std::optional<int> failing) {
    TuneContext context = context_of_run();
    std::latch all{3};
    const auto fail = [&] {
      all.count_down();
      throw Error(ErrorKind::device, "made-up failure");
    };
    const auto meet = [&](int begun) {
      if (begun == 1) all.arrive_and_wait();
    };
    const auto open = [&](std::shared_ptr<ModelEvaluator>& opened) {
      opened = std::make_shared<ModelEvaluator>(time);
      opened->on_begin = meet;
      return opened;
    };
    evaluator.begun.clear();
    evaluator.on_begin = meet;
    std::atomic<int> at_a_time{0};
    return cover(range, options, context,
                 [&](const CoverProgress& now) {
                   EXPECT_EQ(++at_a_time, 1);
                   EXPECT_EQ(now.devices, 3u);
                   --at_a_time;
                 },
                 {[&] { return open(of_second); },
                  [&] {
                    if (failing == 0) fail();
                    open(of_third);
                    if (failing == 1) of_third->on_begin = [&](int) { fail(); };
                    return of_third;
                  }});
  }
  std::shared_ptr<ModelEvaluator> of_second, of_third;
  SizeRange range;
  CoverOptions options;
  Database database = Database::in_memory();
  FakeCompiler compiler;
  CountedTime time;
  ModelEvaluator evaluator{time};
  std::atomic<bool> stop{false};
  int reports = 0;
  const std::string gpu = gpu_key(evaluator.device_info());
};

TEST_F(Cover, AlikeDevicesShareThePoints) {
  const CoverResult result = run_on_three({});
  EXPECT_FALSE(result.failure);
  std::set<Problem> points;
  for (const CoverPoint& point : result.points) points.insert(point.problem);
  EXPECT_EQ(points.size(), result.points.size());
  std::size_t begun = 0;
  for (const ModelEvaluator* one : {&evaluator, of_second.get(), of_third.get()}) {
    EXPECT_FALSE(one->begun.empty());
    begun += one->begun.size();
  }
  EXPECT_GE(begun, result.points.size());
  for (const CoverPoint& point : result.points) {
    EXPECT_GT(point.best_us, 0);
    EXPECT_TRUE(database.winner(point.problem, gpu));
  }
  std::size_t in_layouts = 0;
  for (const CoverLayout& layout : result.layouts) in_layouts += layout.points;
  EXPECT_EQ(in_layouts, result.points.size());
}

TEST_F(Cover, ADeviceThatFailsLeavesThePointsToTheOthers) {
  for (const int failing : {0, 1}) {
    of_second.reset(), of_third.reset();
    database = Database::in_memory();
    const CoverResult result = run_on_three(failing);
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(std::string(result.failure->what()), "made-up failure");
    EXPECT_GT(result.points.size(), 2u);
    EXPECT_FALSE(result.layouts.empty()) << "the others went on to the end";
  }
}

TEST_F(Cover, EveryPointHasAWinnerThatServesOtherSizes) {
  const CoverResult result = run();
  EXPECT_FALSE(result.interrupted);
  EXPECT_FALSE(result.failure) << result.failure->what();
  EXPECT_GT(reports, 0);
  ASSERT_GE(result.points.size(), 6U);
  for (const CoverPoint& point : result.points) {
    EXPECT_TRUE(range.contains(point.problem));
    const auto winner = database.winner(point.problem, gpu);
    ASSERT_TRUE(winner);
    const KernelTemplate& kernel = find_template(winner->record.candidate.kernel_template);
    if (!kernel.specialises.empty()) {
      EXPECT_EQ(winner->record.candidate.configuration.at(kernel.specialises), 0);
    }
    EXPECT_THAT(point.loss(), Ge(0.0));
  }
  EXPECT_FALSE(result.points.front().served) << "nothing was stored";
}

TEST_F(Cover, WhatWouldHaveBeenServedIsMeasuredAndTheLastPointsAreChecks) {
  const CoverResult result = run();
  int others = 0, checks = 0;
  for (const CoverPoint& point : result.points) {
    EXPECT_TRUE(point.check || checks == 0) << "checks come last";
    ++(point.check ? checks : others);
    if (point.served) {
      EXPECT_TRUE(point.has_loss());
    }
  }
  EXPECT_GT(others, 0);
  EXPECT_GT(checks, 0);
}

TEST_F(Cover, FewConfigurationsServeALayout) {
  options.most_configurations = 2;
  const CoverResult result = run();
  ASSERT_EQ(result.layouts.size(), 2U);
  for (const CoverLayout& layout : result.layouts) {
    EXPECT_THAT(layout.configurations, AllOf(Ge(1U), Le(2U)));
    EXPECT_GE(layout.images, layout.configurations);
    std::set<Candidate> served;
    std::size_t points = 0;
    for (const Winner& winner : database.winners(gpu))
      if (layout_of(winner.record.problem) == layout.layout) {
        served.insert(winner.record.candidate);
        ++points;
      }
    EXPECT_EQ(served.size(), layout.configurations - layout.added);
    for (const Record& record : database.general(gpu))
      if (layout_of(record.problem) == layout.layout) served.insert(record.candidate);
    EXPECT_EQ(served.size(), layout.configurations);
    EXPECT_EQ(points, layout.points);
  }
}

TEST_F(Cover, ASizeThatWasNotMeasuredIsServedByPrediction) {
  run();
  const Resolver resolver(database.winners(gpu), evaluator.device_info(), "",
                          database.general(gpu));
  Problem problem;
  problem.m = 53, problem.n = 128, problem.k = 77;
  EXPECT_EQ(resolver.resolve(problem).kind, MatchKind::predicted);
}

TEST_F(Cover, CtrlCKeepsWhatWasMeasured) {
  evaluator.stop = &stop;
  evaluator.stop_after = 3;
  const CoverResult result = run();
  EXPECT_TRUE(result.interrupted);
  EXPECT_LE(result.points.size(), 3U);
  EXPECT_EQ(database.winners(gpu).size() >= 2, true);
}

TEST_F(Cover, ARangeOfFewSizesIsExhausted) {
  range.blocks[0].layouts = {Layout::nn};
  range.blocks[0].m = Extents::parse("3,5");
  range.blocks[0].n = range.blocks[0].k = Extents::parse("16");
  const CoverResult result = run();
  EXPECT_TRUE(result.exhausted);
  EXPECT_EQ(result.points.size(), 2U);
}

TEST_F(Cover, ARangeWithNothingToMeasureIsAnError) {
  options.most_flops = 10;
  EXPECT_THROW(run(), Error);
}

TEST_F(Cover, WinnersOfBeforeStayAndASecondRunGoesOnWithOtherSizes) {
  range.blocks[0].layouts = {Layout::nn};
  range.blocks[0].m = Extents::parse("64,80,96");
  range.blocks[0].n = range.blocks[0].k = Extents::parse("64");
  options.most_configurations = 1;
  options.budget_seconds = 0.02;  // one point
  EXPECT_EQ(run().points.size(), 1U);
  const std::vector<Winner> before = database.winners(gpu);
  ASSERT_EQ(before.size(), 1U);
  options.budget_seconds = 5;
  const CoverResult second = run();
  EXPECT_EQ(second.points.size(), 2U);
  EXPECT_EQ(second.tuned_before, 1U);
  EXPECT_TRUE(second.exhausted);
  EXPECT_EQ(database.winner(before.front().record.problem, gpu)->record.id,
            before.front().record.id);
  const CoverResult third = run();
  EXPECT_TRUE(third.points.empty());
  EXPECT_EQ(third.tuned_before, 3U);
}

TEST_F(Cover, TheLossByTheLimitIsStated) {
  options.most_configurations = 1;
  for (const CoverLayout& layout : run().layouts) EXPECT_GE(layout.limit_loss, 0);
  options.seed = 5;
  options.most_configurations = 1000;
  for (const CoverLayout& layout : run().layouts) EXPECT_NEAR(layout.limit_loss, 0, 0.05);
}

TEST_F(Cover, TemplatesOfOneSizeCannotCoverARange) {
  options.templates = select_templates({"small"});
  EXPECT_THROW(run(), Error);
  EXPECT_TRUE(database.winners(gpu).empty());
}

TEST_F(Cover, ADatabaseThatFailsLosesNoPoint) {
  evaluator.on_begin = [&](int begun) {
    if (begun == 3) throw Error(ErrorKind::database, "the disk is full");
  };
  const CoverResult result = run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.points.size(), 2U);
}

TEST_F(Cover, ASizeWithoutMemoryIsLeftOut) {
  evaluator.on_begin = [&](int begun) {
    if (begun % 2 == 1) throw Error(ErrorKind::out_of_memory, "too large");
  };
  const CoverResult result = run();
  EXPECT_FALSE(result.failure);
  EXPECT_GE(result.points.size(), 1U);
  EXPECT_GE(result.left_out, 1U);
}

using Times = std::vector<std::vector<std::pair<std::size_t, double>>>;

TEST(ChooseFew, EachPointsBestWhereTheLimitAllowsIt) {
  const Times times{{{0, 2.0}, {1, 1.0}}, {{0, 1.0}, {2, 3.0}}};
  EXPECT_EQ(choose_few(times, 2), (std::vector<std::size_t>{1, 0}));
}

TEST(ChooseFew, TheCandidateWithTheLeastLossGoesFirst) {
  // Without 1 the first point loses 10%; without 0 the second loses a factor of 3.
  const Times times{{{0, 1.1}, {1, 1.0}}, {{0, 1.0}, {1, 3.0}}};
  EXPECT_EQ(choose_few(times, 1), (std::vector<std::size_t>{0, 0}));
}

TEST(ChooseFew, APointsLastCandidateStays) {
  const Times times{{{0, 1.0}}, {{1, 1.0}}, {{2, 1.0}, {1, 5.0}}};
  EXPECT_EQ(choose_few(times, 1), (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_TRUE(choose_few({}, 1).empty());
}

TEST(MeanLoss, IsGeometricOverPointsThatHaveOne) {
  CoverPoint twice, same, none;
  twice.served_us = 2, twice.best_us = 1;
  same.served_us = 0.9, same.best_us = 1;  // a race moved it
  none.best_us = 1;
  EXPECT_NEAR(mean_loss({&twice, &same, &none}), std::sqrt(2.0) - 1, 1e-12);
  EXPECT_EQ(mean_loss({&none}), 0);
}

// Only measured, for the corrections: what is expected to be the fastest there.
TEST_F(Cover, AfterTheFirstPointsMostAreCompared) {
  options.budget_seconds = 1.4;
  const CoverResult result = run();
  EXPECT_GE(result.points.size(), 16u);
  EXPECT_GT(result.compared, 2u);
  EXPECT_LT(result.compared, 4 * result.points.size());
  std::set<Problem> searched, compared;
  for (const CoverPoint& point : result.points) searched.insert(point.problem);
  for (const Database::StoredProblem& stored : database.problems(gpu)) {
    if (searched.contains(stored.problem)) continue;
    compared.insert(stored.problem);
    EXPECT_LE(stored.records, 32);
    EXPECT_FALSE(database.winner(stored.problem, gpu)) << to_string(stored.problem);
    EXPECT_THAT(database.searches(stored.problem, gpu), testing::IsEmpty());
  }
  EXPECT_EQ(compared.size(), result.compared);
}

TEST_F(Cover, ASecondRunComparesOtherPoints) {
  options.budget_seconds = 1.4;
  const CoverResult first = run();
  std::map<Problem, std::int64_t> before;
  for (const Database::StoredProblem& stored : database.problems(gpu))
    before[stored.problem] = stored.records;
  const CoverResult second = run();
  EXPECT_GE(second.tuned_before, first.compared);
  EXPECT_GT(second.compared, 0u);
  std::size_t changed = 0;
  for (const Database::StoredProblem& stored : database.problems(gpu))
    changed += before.contains(stored.problem) && before[stored.problem] != stored.records;
  EXPECT_EQ(changed, 0u);
}

// Points that were searched have a winner of the new kernels then; compared ones stay without one.
TEST_F(Cover, PointsWhoseKernelsChangedAreMeasuredAgainFirst) {
  options.budget_seconds = 1.4;
  run();
  const auto fastest = [&](const Problem& problem) {
    std::vector<Record> records =
        database.records({.problem = problem, .gpu = gpu, .outcome = Outcome::ok});
    return *std::min_element(records.begin(), records.end(), faster);
  };
  std::map<Problem, Record> before;
  for (const Database::StoredProblem& stored : database.problems(gpu))
    before[stored.problem] = fastest(stored.problem);
  compiler.name = "fake 2";
  compiler.code = [](const KernelSpec&) { return std::vector<std::uint8_t>{4, 5, 6}; };
  evaluator.begun.clear();
  options.budget_seconds = 1.4;
  run();
  ASSERT_GE(evaluator.begun.size(), before.size());
  const std::set<Problem> first(evaluator.begun.begin(),
                                evaluator.begun.begin() + std::ssize(before));
  for (const auto& [problem, record] : before) {
    EXPECT_TRUE(first.contains(problem)) << to_string(problem);
    std::set<std::string> sources;
    for (const Record& one : database.records({.problem = problem, .gpu = gpu}))
      if (one.candidate == record.candidate) sources.insert(one.source_hash);
    EXPECT_EQ(sources.size(), 2u) << to_string(problem);
    if (const auto winner = database.winner(problem, gpu)) {
      EXPECT_NE(winner->record.source_hash, record.source_hash);
    }
  }
}

TEST_F(Cover, PointsAreMeasuredAgainOnce) {
  options.budget_seconds = 0.2;
  run();
  std::set<Problem> before;
  for (const Database::StoredProblem& stored : database.problems(gpu))
    before.insert(stored.problem);
  const auto again = [&] {
    evaluator.begun.clear();
    run();
    return std::count_if(evaluator.begun.begin(), evaluator.begun.end(),
                         [&](const Problem& problem) { return before.contains(problem); });
  };
  compiler.name = "fake 2";
  // Also of kernels that were the fastest and are wrong now.
  evaluator.is_wrong = [](const LaunchStep& step) {
    return std::hash<std::string>{}(to_string(step.kernel)) % 3 == 0;
  };
  options.budget_seconds = 0.8;
  EXPECT_EQ(again(), std::ssize(before));
  options.budget_seconds = 0.1;
  EXPECT_EQ(again(), 0);
  compiler.name = "fake 3";
  options.templates = select_templates({"naive"});
  options.budget_seconds = 0.5;
  EXPECT_GT(again(), 0);
  options.budget_seconds = 0.1;
  EXPECT_EQ(again(), 0);
}

// Comparing takes time, too.
TEST_F(Cover, TheBudgetEndsTheComparisonOfMachineCode) {
  options.budget_seconds = 0.5;
  compiler.code = [](const KernelSpec& kernel) { return test::elf_with_code(to_string(kernel)); };
  run();
  compiler.name = "fake 2";
  options.budget_seconds = 0.4;
  int compared = 0;
  TuneContext context = context_of_run();
  cover(range, options, context, [&](const CoverProgress& now) {
    if (now.point->phase != "machine code") return;
    ++compared;
    time.microseconds += 300'000;
  });
  EXPECT_EQ(compared, 2);
}

TEST_F(Cover, PointsWhoseMachineCodeIsTheSameKeepTheirTimes) {
  options.budget_seconds = 0.5;
  compiler.code = [](const KernelSpec& kernel) { return test::elf_with_code(to_string(kernel)); };
  run();
  std::map<Problem, std::int64_t> before;
  for (const Database::StoredProblem& stored : database.problems(gpu))
    before[stored.problem] = stored.records;
  compiler.name = "fake 2";
  evaluator.begun.clear();
  run();
  for (const Problem& problem : evaluator.begun)
    EXPECT_FALSE(before.contains(problem)) << to_string(problem);
  for (const Database::StoredProblem& stored : database.problems(gpu)) {
    if (!before.contains(stored.problem)) continue;
    EXPECT_EQ(stored.records, before[stored.problem]) << to_string(stored.problem);
  }
}

TEST_F(Cover, WhereTheRangeEndsComparedPointsAreSearched) {
  range.blocks.front().m = Extents::parse("1..30");
  range.blocks.front().n = Extents::parse("64");
  range.blocks.front().k = Extents::parse("16");
  range.blocks.front().layouts = {Layout::nn};
  options.budget_seconds = 30;
  const CoverResult result = run();
  EXPECT_TRUE(result.exhausted);
  EXPECT_EQ(result.points.size(), 30u);
  for (int m = 1; m <= 30; ++m) {
    Problem problem;
    problem.m = m, problem.n = 64, problem.k = 16;
    set_alignment(problem, natural_alignment(problem));
    EXPECT_TRUE(database.winner(problem, gpu)) << m;
  }
}

// What is compared is for the corrections of a cost model, which this device has not.
TEST_F(Cover, NothingIsComparedWithoutACostModel) {
  evaluator.has_clock = false;
  options.budget_seconds = 1.4;
  EXPECT_EQ(run().compared, 0u);
}

}  // namespace
}  // namespace tilewise::cover_test
