// The cost model in a run: predictions in the records, and their rank correlation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "templates/cost_model.hpp"
#include "tests/tuner/fake_tuning.hpp"

namespace tilewise::predictions_test {
namespace {

/// The grid's template with a plan whose work is proportional to X.
KernelTemplate working_template() {
  KernelTemplate t = grid_template();
  t.plan = [plan = t.plan](const Problem& problem, const Configuration& c, const DeviceInfo& info) {
    Plan made = plan(problem, c, info);
    LaunchStep& multiply = made.steps.back();
    multiply.grid.x = 132;
    multiply.block.x = 256;
    multiply.work.issued_flops = 1e10 * (1 + c.at("X"));
    return made;
  };
  return t;
}

struct Predictions : testing::Test {
  Predictions() {
    problem.m = problem.n = problem.k = 8;
    options.strategy = "exhaustive";
    options.templates = {&kernel};
    options.compile_threads = 1;
  }
  TuneResult run() {
    TuneContext context{database, nullptr, &compiler, evaluator, {}, nullptr};
    return tune(problem, options, context);
  }

  const KernelTemplate kernel = working_template();
  Problem problem;
  TuneOptions options;
  Database database = Database::in_memory();
  GridCompiler compiler;
  FakeEvaluator evaluator;
};

TEST_F(Predictions, AreStoredWithEveryRecordRejectedOnesIncluded) {
  run();
  const auto records = database.records({});
  ASSERT_EQ(records.size(), 64u);
  for (const Record& record : records) {
    const DeviceInfo device = evaluator.device_info();
    const Cost cost =
        estimate(kernel.plan(problem, record.candidate.configuration, device), device);
    EXPECT_DOUBLE_EQ(record.predicted_us, cost.seconds * 1e6);
    EXPECT_GT(record.predicted_us, 3);
  }
}

TEST_F(Predictions, AreRankedAgainstWhatWasMeasured) {
  evaluator.time = [](Point p) { return 100.0 + static_cast<double>(p.first); };
  const TuneResult right = run();
  EXPECT_EQ(right.ranked, 48) << "those that are ok";
  EXPECT_DOUBLE_EQ(right.rank_correlation, 1);
  options.force = true;
  evaluator.time = [](Point p) { return 100.0 - static_cast<double>(p.first); };
  EXPECT_DOUBLE_EQ(run().rank_correlation, -1);
}

TEST_F(Predictions, AreNoneOnTheCpu) {
  struct OnTheCpu : FakeEvaluator {
    DeviceInfo device_info() override {
      DeviceInfo info = FakeEvaluator::device_info();
      info.target.host = true;
      return info;
    }
  } cpu;
  options.strategy = "local";
  TuneContext context{database, nullptr, &compiler, cpu, {}, nullptr};
  const TuneResult result = tune(problem, options, context);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.ranked, 0);
  EXPECT_TRUE(std::isnan(result.rank_correlation));
  for (const Record& record : database.records({})) EXPECT_EQ(record.predicted_us, 0);
}

TEST_F(Predictions, DecideWhatALocalSearchBeginsWith) {
  options.strategy = "local";
  options.max_evaluations = 8;
  run();
  // Of 64 candidates 8 have X = 0, the best predicted value. Every fourth proposal of the model is
  // a uniform draw.
  int best_predicted = 0;
  for (const Point& point : evaluator.evaluated) best_predicted += point.first == 0;
  EXPECT_GE(best_predicted, 5);
}

}  // namespace
}  // namespace tilewise::predictions_test
