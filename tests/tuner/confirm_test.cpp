// A winner is stored only after it has run alone with every launch compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/machines.hpp"
#include "templates/kernel_template.hpp"
#include "tests/tuner/fake_kernels.hpp"
#include "tests/tuner/tune_fixture.hpp"
#include "tuner/confirm.hpp"
#include "tuner/evaluate/other_size.hpp"

namespace tilewise::confirm_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Tune, AWinnerRunsAloneBeforeItIsStored) {
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_THAT(evaluator.observed, ElementsAre(Point(6, 2)));
  EXPECT_THAT(evaluator.validated, ElementsAre(Point(6, 2))) << "at an edge size";
  EXPECT_EQ(result.observed, 100);
}

TEST_F(Tune, AWinnerThatIsWrongNowAndThenGivesWayToTheNextBest) {
  evaluator.observed_wrong = [](Point p) { return p == Point(6, 2); };
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 1)) << "5 us slower; so is (6, 3)";
  EXPECT_EQ(evaluator.races, 1) << "the finalists have raced";
  ASSERT_EQ(result.wrong.size(), 9U) << "eight have X 5";
  EXPECT_THAT(result.wrong.back().detail, HasSubstr("now and then"));
  EXPECT_THAT(result.wrong.back().detail, HasSubstr("reproduce: autotune tune"));
  for (const Record& record : records()) {
    const Configuration& c = record.candidate.configuration;
    if (c.at("X") != 6 || c.at("Y") != 2) continue;
    EXPECT_EQ(record.outcome, Outcome::wrong_result);
  }
}

TEST_F(Tune, AWinnerThatIsWrongAtAnEdgeGivesWay) {
  evaluator.edge_wrong = [](Point p) { return p == Point(6, 2); };
  const TuneResult result = run();
  EXPECT_EQ(winner(), Point(6, 1));
  EXPECT_THAT(result.wrong.back().detail, HasSubstr("at 7x7x7: now and then"));
}

TEST_F(Tune, NoneIsStoredWhereAllAreWrongNowAndThen) {
  evaluator.observed_wrong = [](Point) { return true; };
  EXPECT_FALSE(run().winner);
  EXPECT_GT(evaluator.observed.size(), 6U) << "more races than one";
}

TEST_F(Tune, AStoredWinnerThatIsWrongNowIsReplaced) {
  run();
  options.force = true;
  evaluator.observed_wrong = [](Point p) { return p == Point(6, 2); };
  run();
  EXPECT_EQ(winner(), Point(6, 1));
}

TEST_F(Tune, AnInterruptedSearchConfirmsItsBestToo) {
  evaluator.stop = &stop;
  evaluator.stop_after = 10;
  EXPECT_TRUE(run().winner);
  EXPECT_EQ(evaluator.observed.size(), 1U);
  EXPECT_EQ(evaluator.observed.front(), winner());
}

TEST_F(Tune, AnInterruptedSearchStoresNoWinnerThatWasNotConfirmed) {
  evaluator.stop = &stop;
  evaluator.stop_after = 10;
  evaluator.confirm_faults = [](Point) { return true; };
  const TuneResult result = run();
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.winner);
  EXPECT_EQ(database.counts().records, 10) << "what was measured is kept";
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->what(), HasSubstr("was not confirmed and not stored: signal 9"));
}

TEST_F(Tune, CtrlCBeforeTheRaceConfirmsTheBest) {
  progress = [&](const TuneProgress& now) {
    if (now.phase == "race") stop = true;
  };
  const TuneResult result = run();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_EQ(evaluator.races, 0);
  EXPECT_EQ(evaluator.observed.size(), 1U);
}

TEST_F(Tune, AWinnerIsStoredThoughTheEvaluatorFailsAfterItsConfirmation) {
  evaluator.begin_breaks = 3;  // when returning from the edge size
  EXPECT_TRUE(run().winner);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(Tune, AFaultOfTheSystemIsNoFaultOfTheWinner) {
  int faults = 0;
  evaluator.confirm_faults = [&](Point) { return ++faults == 1; };
  EXPECT_TRUE(run().winner) << "a second try";
  EXPECT_EQ(winner(), Point(6, 2));
}

/// Every default configuration whose sizes are arguments can be validated at an edge, and pressed
/// if TMA fills its stages.
TEST(OtherSizes, OfTheDefaultsOfAllTemplates) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  int edges = 0;
  for (const KernelTemplate& kernel : catalog()) {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      Problem problem;
      set_types(problem, type, type, MathMode::strict);
      problem.m = problem.n = problem.k = 1024;
      if (!kernel.supports(problem, device)) continue;
      const Candidate candidate{kernel.name, kernel.default_configuration(problem, device)};
      std::vector<Image> images;
      for (const LaunchStep& step : kernel.plan(problem, candidate.configuration, device).steps)
        images.emplace_back().kernel = step.kernel;
      const auto edge = edge_size(candidate, kernel, problem, device, images);
      const auto pressed = pressed_size(candidate, kernel, problem, device, images);
      const bool constant =
          kernel.size_specialised ||
          (!kernel.specialises.empty() && candidate.configuration.at(kernel.specialises) != 0);
      EXPECT_EQ(edge.has_value(), !constant) << to_string(candidate);
      edges += edge.has_value();
      EXPECT_LT(edge ? edge->problem.m : 0, 512);
      const bool staged = kernel.pipeline_use(problem, candidate.configuration).releases > 0;
      EXPECT_EQ(pressed.has_value(), staged && !constant) << to_string(candidate);
      if (!pressed) continue;
      EXPECT_EQ(images_of(pressed->plan, images).size(), pressed->plan.steps.size());
    }
  }
  EXPECT_GT(edges, 5);
}

/// A pressed candidate fills its stages again, within the limits of C and the workspace.
TEST(OtherSizes, APressedPipelineWrapsAround) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  Problem problem;
  set_types(problem, DType::f64, DType::f64, MathMode::strict);
  problem.m = problem.n = problem.k = 1024;
  set_alignment(problem, {16, 16, 16});
  const KernelTemplate& kernel = find_template("mma");
  const Configuration shape{{"TMA", 1},     {"BYTES_A", 16}, {"BYTES_B", 16}, {"TILE_M", 64},
                            {"TILE_N", 64}, {"WARP_M", 32},  {"WARP_N", 32}};
  int pressed = 0;
  for (const int depth : {8, 16, 32})
    for (const int stages : {3, 6})
      for (const int split : {1, 64}) {
        Configuration c = kernel.default_configuration(problem, device);
        for (const auto& [name, value] : shape.values()) c.set(name, value);
        c.set("TILE_K", depth);
        c.set("STAGES", stages);
        c.set("SPLIT_K", split);
        if (!rejection(kernel, problem, c, device).empty()) continue;
        std::vector<Image> images;
        for (const LaunchStep& step : kernel.plan(problem, c, device).steps)
          images.emplace_back().kernel = step.kernel;
        const auto size = pressed_size({"mma", c}, kernel, problem, device, images);
        if (!size) continue;
        ++pressed;
        EXPECT_GE(size->problem.k, std::int64_t{2} * stages * depth * split) << c.text();
        EXPECT_LE(size->plan.workspace_bytes + 8 * size->problem.m * size->problem.n,
                  std::int64_t{2} << 30);
      }
  EXPECT_GT(pressed, 4);
}

/// Launches on host memory. One launch changes an element.
TEST(Press, FindsTheLaunchThatDiffers) {
  fake::Device device;
  Problem problem;
  set_types(problem, DType::f32, DType::f32, MathMode::strict);
  problem.m = 19, problem.n = 23, problem.k = 31;
  for (const std::int64_t wrong : {-1, 3, 77}) {
    std::int64_t launched = 0;
    const auto enqueue = [&](const Call& call) {
      device.perform([&, call] {
        reference_multiply(problem, call, 1);
        if (++launched == wrong) static_cast<float*>(call.c)[5] += 1;
      });
    };
    const Repeated found = press(device, nullptr, problem, enqueue, 200, true);
    EXPECT_GE(found.launches, 200);
    EXPECT_EQ(found.launches + 2, launched) << "the first on each set";
    EXPECT_EQ(found.wrong, wrong > 0);
    EXPECT_EQ(found.first_wrong, wrong > 0 ? wrong - 2 : 0);
  }
}

/// TMA stores rows of whole 16 bytes, so one column less than 64 is not a valid size.
TEST(OtherSizes, SmallSidesHaveAnEdgeToo) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  Problem problem;
  set_types(problem, DType::bf16, DType::bf16, MathMode::strict);
  set_alignment(problem, {16, 16, 16});
  problem.m = problem.n = problem.k = 64;
  const KernelTemplate& kernel = find_template("wgmma");
  Candidate candidate{"wgmma", kernel.default_configuration(problem, device)};
  candidate.configuration.set("EPILOGUE", 2);
  candidate.configuration.set("VECTOR_C", 1);
  candidate.configuration.set("SPLIT_K", 1);
  ASSERT_EQ(rejection(kernel, problem, candidate.configuration, device), "");
  std::vector<Image> images;
  for (const LaunchStep& step : kernel.plan(problem, candidate.configuration, device).steps)
    images.emplace_back().kernel = step.kernel;
  const auto edge = edge_size(candidate, kernel, problem, device, images);
  ASSERT_TRUE(edge);
  EXPECT_LT(edge->problem.n, 64);
  EXPECT_EQ(edge->problem.n % 8, 0);
}

TEST(OtherSizes, NoneIsPressedOnTheCpu) {
  const DeviceInfo device = nominal_device(parse_target("host:sm_90a"));
  Problem problem;
  set_types(problem, DType::bf16, DType::bf16, MathMode::strict);
  problem.m = problem.n = problem.k = 1024;
  const KernelTemplate& kernel = find_template("wgmma");
  const Candidate candidate{"wgmma", kernel.default_configuration(problem, device)};
  EXPECT_FALSE(pressed_size(candidate, kernel, problem, device, {}));
}

}  // namespace
}  // namespace tilewise::confirm_test
