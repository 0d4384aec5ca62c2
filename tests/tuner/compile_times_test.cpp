// Expected compile times: what they learn, and that a search starts no compile that would end too
// late.
#include "tuner/search/compile_times.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "tests/tuner/tune_fixture.hpp"
#include "tuner/compile_ahead.hpp"
#include "tuner/evaluate/sampler.hpp"

namespace tilewise::compile_times_test {
namespace {

Candidate at(int x, int y, const std::string& name = "grid") {
  return {name, {{"X", x}, {"Y", y}}};
}

TEST(CompileTimes, KnowNothingThenTheMeanOfAllTemplates) {
  const KernelTemplate grid = grid_template(), other = grid_template("other");
  CompileTimes times({&grid, &other});
  EXPECT_FALSE(times.expected(at(1, 1)));
  times.observe(at(1, 1), 0.5);
  times.observe(at(2, 2), 2);
  EXPECT_NEAR(times.expected(at(1, 1, "other")).value(), 1, 1e-12) << "the geometric mean";
  times.observe(at(0, 0, "other"), 4);
  EXPECT_NEAR(times.expected(at(0, 0, "other")).value(), 4, 1e-12) << "its own alone";
  times.observe(at(0, 0, "absent"), 100);
  times.observe(at(0, 0), 0);
  EXPECT_NEAR(times.expected(at(0, 0, "other")).value(), 4, 1e-12);
}

// One column of a range of 1 (X: 0 to 7 by log2(x + 1) / 3), values 0 and 1, two compiles each of 1
// and e^2 seconds: the slope is 2 x 1 / (1 + 2) for squares 1 and a ridge of 2.
TEST(CompileTimes, AreARidgeRegressionOfLogarithms) {
  const KernelTemplate grid = grid_template();
  CompileTimes times({&grid});
  for (int i = 0; i < 2; ++i) {
    times.observe(at(0, 0), 1);
    times.observe(at(7, 0), std::exp(2));
  }
  EXPECT_NEAR(std::log(times.expected(at(7, 0)).value()), 1 + 0.5 * 2.0 / 3, 1e-9);
  EXPECT_NEAR(std::log(times.expected(at(0, 0)).value()), 1 - 0.5 * 2.0 / 3, 1e-9);
  EXPECT_NEAR(std::log(times.expected(at(1, 0)).value()), 1 - (0.5 - 1.0 / 3) * 2.0 / 3, 1e-9);
}

TEST(CompileTimes, AreBetterThanAMeanWhereAParameterDecides) {
  const KernelTemplate grid = grid_template();
  CompileTimes times({&grid});
  std::vector<double> learned, mean;  // |expected / measured - 1|
  std::mt19937_64 generator(3);
  double sum = 0;
  for (int i = 1; i <= 200; ++i) {
    const auto x = static_cast<int>(generator() % 8), y = static_cast<int>(generator() % 8);
    const double seconds = 0.3 * std::pow(x + 1, 0.7) * (0.95 + 0.1 * (i % 2));
    if (const auto expected = times.expected(at(x, y))) {
      learned.push_back(std::abs(*expected / seconds - 1));
      mean.push_back(std::abs(std::exp(sum / (i - 1)) / seconds - 1));
    }
    times.observe(at(x, y), seconds);
    sum += std::log(seconds);
  }
  EXPECT_EQ(learned.size(), 199U);
  EXPECT_LT(quantile(learned, 0.5), 0.1);
  EXPECT_LT(2 * quantile(learned, 0.5), quantile(mean, 0.5));
}

/// A compiler that takes no time but reports that it took long.
struct SlowCompiler : GridCompiler {
  CompileResult compile(const CompileRequest& request) const override {
    CompileResult result = GridCompiler::compile(request);
    if (result.image) result.image->compile_ms = milliseconds;
    return result;
  }
  double milliseconds = 1;
};

// The grid's plan has two kernels.
TEST(Build, ThatHasBegunIsNotLate) {
  struct : GridCompiler {
    CompileResult compile(const CompileRequest& request) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      return GridCompiler::compile(request);
    }
  } compiler;
  const KernelTemplate grid = grid_template();
  const ImageStore store(nullptr, nullptr, &compiler);
  const auto build_by = [&](std::chrono::milliseconds from_now) {
    return build(at(0, 0), grid, {}, nominal_device({9, 0, true}), store,
                 {.latest = Patience::Clock::now() + from_now});
  };
  const Built begun = build_by(std::chrono::milliseconds(20));
  EXPECT_FALSE(begun.late);
  EXPECT_EQ(begun.images.size(), 2U);
  const Built late = build_by(std::chrono::milliseconds(-1));
  EXPECT_TRUE(late.late);
  EXPECT_FALSE(late.compiled);
}

struct Late : Tune {
  TuneResult run_with(double milliseconds) {
    SlowCompiler slow;
    slow.milliseconds = milliseconds;
    TuneContext context{database, &cache, &slow, evaluator, progress, &stop};
    return tune(problem, options, context);
  }
};

TEST_F(Late, CompilesThatWouldEndAfterTheBudgetDoNotBegin) {
  options.budget_seconds = 30;
  const TuneResult result = run_with(60'000);
  EXPECT_GE(result.evaluated, 1);
  EXPECT_LE(result.evaluated, 4) << "those begun before a first compile was known";
  EXPECT_GE(result.too_late, 1);
  EXPECT_LT(result.seconds, 15) << "the search ends where nothing fits";
  EXPECT_TRUE(result.winner);
  EXPECT_TRUE(evaluator.races > 0);
}

TEST_F(Late, AnEndlessBudgetHasNoLastMoment) {
  options.budget_seconds = 1e11;
  const TuneResult result = run_with(60'000);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.too_late, 0);
}

TEST_F(Late, CompilesThatFitAllBegin) {
  options.budget_seconds = 30;
  const TuneResult result = run_with(10);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.too_late, 0);
  EXPECT_GE(result.compiles_expected, 50);
  EXPECT_LT(result.compile_error, 0.2);
  EXPECT_NEAR(result.compile_seconds, 0.01 * (56 + 1), 0.011) << "56 of the grid and the pack";
}

TEST_F(Late, StoredImagesAreUsedToTheEnd) {
  options.budget_seconds = 30;
  run_with(10);
  options.force = true;
  const TuneResult again = run_with(60'000);
  EXPECT_EQ(again.evaluated, 64);
  EXPECT_EQ(again.too_late, 0);
}

TEST_F(Late, AFirstCompileThatTakesTheBudgetStillHasAWinner) {
  std::atomic<int> seconds{0};
  compiler.fault = [&](const KernelSpec&) { seconds = 80; };
  clock = [&] { return static_cast<double>(seconds); };
  options.budget_seconds = 50;
  const TuneResult result = run();
  EXPECT_TRUE(result.winner);
  EXPECT_GE(result.evaluated, 1);
  EXPECT_LT(result.evaluated, 4) << "the search ends with its first measurement";
}

TEST_F(Late, TheCallersOwnListIsNotCut) {
  options.budget_seconds = 30;
  options.only = {at(0, 0), at(1, 1), at(2, 2), at(6, 2)};
  EXPECT_EQ(run_with(60'000).evaluated, 4);
}

}  // namespace
}  // namespace tilewise::compile_times_test
