#include <gtest/gtest.h>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::cost_model_wgmma_test {
namespace {

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

/// The time of wgmma's default configuration with other values, for bf16 at 1024.
double seconds_with(std::initializer_list<std::pair<const char*, int>> values) {
  const DeviceInfo& device = h200();
  const Problem problem =
      test::with_kind(test::make_problem(Layout::nn, 1024, 1024, 1024, 16),
                      *find_product_kind(DType::bf16, DType::bf16, MathMode::strict));
  const KernelTemplate& kernel = find_template("wgmma");
  Configuration configuration = kernel.default_configuration(problem, device);
  for (const auto& [name, value] :
       {std::pair{"TILE_M", 64}, {"TILE_N", 128}, {"CONSUMERS", 1}, {"STAGES", 6}})
    configuration.set(name, value);
  for (const auto& [name, value] : values) configuration.set(name, value);
  EXPECT_EQ(rejection(kernel, problem, configuration, device), "");
  return estimate(kernel.plan(problem, configuration, device), device).seconds;
}

TEST(CostModelOfWgmma, BlocksOfAClusterStartLater) {
  Plan plan;
  plan.steps.resize(1);
  plan.steps[0].grid.x = 132;
  plan.steps[0].block.x = 256;
  const double alone = estimate(plan, h200()).seconds;
  plan.steps[0].cluster.x = 2;
  EXPECT_GT(estimate(plan, h200()).seconds, alone + 0.3e-6);
}

// Consumers that take turns multiply one tile each, so the tile takes a consumer's own time.
TEST(CostModelOfWgmma, ConsumersThatTakeTurnsAreNoFasterOnATile) {
  for (const int consumers : {2, 3})
    EXPECT_GE(seconds_with({{"CONSUMERS", consumers}, {"PING_PONG", 1}}), 0.99 * seconds_with({}));
}

}  // namespace
}  // namespace tilewise::cost_model_wgmma_test
