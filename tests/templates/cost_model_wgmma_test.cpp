#include <gtest/gtest.h>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/epilogue.hpp"

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

// nn 8192 x 8192 with tiles of 128 x 128: a block stores 31 or 32 tiles of C.
TEST(CostModelOfWgmma, ConsumersThatTakeTurnsStoreWhileTheyMultiply) {
  const auto seconds = [](int ping_pong, std::int64_t k) {
    const Problem problem =
        test::with_kind(test::make_problem(Layout::nn, 8192, 8192, k, 16),
                        *find_product_kind(DType::bf16, DType::bf16, MathMode::strict));
    const KernelTemplate& kernel = find_template("wgmma");
    Configuration configuration = kernel.default_configuration(problem, h200());
    for (const auto& [name, value] :
         {std::pair{"TILE_M", 128}, {"TILE_N", 128}, {"CONSUMERS", 2}, {"PING_PONG", ping_pong}})
      configuration.set(name, value);
    EXPECT_EQ(rejection(kernel, problem, configuration, h200()), "");
    const Plan plan = kernel.plan(problem, configuration, h200());
    const Schedule& schedule = plan.steps.back().schedule;
    EXPECT_DOUBLE_EQ(schedule.tiles, 32) << "of the busiest block";
    EXPECT_DOUBLE_EQ(schedule.tile_bytes, 128 * 128 * 2);
    return estimate(plan, h200()).seconds;
  };
  EXPECT_LT(1.15 * seconds(1, 512), seconds(0, 512));
  // The longer the main loop, the less the stores count.
  EXPECT_LT(seconds(0, 8192) / seconds(1, 8192), 1.05);
}

// Measured on an H100 (h100_epilogue_kernels.txt): at 8192 x 8192 x 1024 gelu_tanh adds 36 us to
// tiles that consumers share, and 9 to those that they take in turn, in the median of nine each.
TEST(CostModelOfWgmma, ConsumersThatTakeTurnsComputeAnEpilogueWhileTheyMultiply) {
  const auto price = [](int tile_m, int tile_n, int ping_pong, const char* epilogue,
                        std::int64_t n = 4096) {
    Problem problem =
        test::with_kind(test::make_problem(Layout::nt, 4096, n, 4096, 16),
                        *find_product_kind(DType::bf16, DType::bf16, MathMode::strict));
    const KernelTemplate& kernel = find_template("wgmma");
    Configuration configuration = kernel.default_configuration(problem, h200());
    for (const auto& [name, value] : {std::pair{"TILE_M", tile_m},
                                      {"TILE_N", tile_n},
                                      {"STAGES", 4},
                                      {"CONSUMERS", 2},
                                      {"PING_PONG", ping_pong}})
      configuration.set(name, value);
    const auto seconds = [&] {
      EXPECT_EQ(rejection(kernel, problem, configuration, h200()), "");
      return estimate(kernel.plan(problem, configuration, h200()), h200()).seconds;
    };
    const double bare = seconds();
    problem.epilogue = interned(std::string_view(epilogue));
    return seconds() / bare;
  };
  const char *const bias = "acc + bias[j]", *const with_gelu = "gelu_tanh(acc + bias[j])";
  EXPECT_LT(price(256, 128, 0, bias), 1.02);
  EXPECT_GT(price(256, 128, 0, with_gelu), 1.06);
  EXPECT_LT(price(128, 176, 1, with_gelu), 1.04);
  // Nothing hides it where each multiprocessor has one tile.
  EXPECT_GT(price(128, 256, 0, with_gelu, 1024), 1.06);
}

// Consumers that take turns multiply one tile each, so the tile takes a consumer's own time.
TEST(CostModelOfWgmma, ConsumersThatTakeTurnsAreNoFasterOnATile) {
  for (const int consumers : {2, 3})
    EXPECT_GE(seconds_with({{"CONSUMERS", consumers}, {"PING_PONG", 1}}), 0.99 * seconds_with({}));
}

}  // namespace
}  // namespace tilewise::cost_model_wgmma_test
