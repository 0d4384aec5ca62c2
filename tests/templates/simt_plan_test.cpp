// simt's parameters in its plans: sizes as constants, splits that fill the device, tiles that TMA
// loads along k. tests/kernels tests the kernel itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"
#include "tests/templates/random_plans.hpp"

namespace tilewise::simt_plan_test {
namespace {

using test::make_problem;
using testing::ElementsAre;

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

/// The default configuration with these values changed; valid for the problem.
Configuration simt(const Problem& problem, const std::map<std::string, int>& changed) {
  const KernelTemplate& kernel = find_template("simt");
  Configuration configuration = kernel.default_configuration(problem, h200());
  for (const auto& [name, value] : changed) configuration.set(name, value);
  EXPECT_EQ(rejection(kernel, problem, configuration, h200()), "");
  return configuration;
}

Plan plan_of(const Problem& problem, const std::map<std::string, int>& changed) {
  return find_template("simt").plan(problem, simt(problem, changed), h200());
}

std::map<std::string, std::int64_t> defines_of(const Plan& plan) {
  const auto& defines = multiply_of(plan).kernel.defines;
  return {defines.begin(), defines.end()};
}

/// Whether all constraints hold.
bool is_tried(const Problem& problem, const Configuration& configuration) {
  for (const Constraint& constraint : find_template("simt").constraints)
    if (!constraint.holds({problem, configuration, h200()})) return false;
  return true;
}

TEST(SimtSpecializeSize, AKernelIsBuiltForTheProblemItServes) {
  const Problem tuned = make_problem(Layout::nn, 128, 192, 256);
  const Problem nearby = make_problem(Layout::nn, 200, 120, 260);
  const auto defines =
      defines_of(plan_of(tuned, {{"SPECIALIZE_SIZE", 1}, {"SPLIT_K", 4}, {"GROUP_M", 16}}));
  EXPECT_EQ(defines.at("SIZE_M"), 128);
  EXPECT_EQ(defines.at("SIZE_N"), 192);
  EXPECT_EQ(defines.at("SIZE_K"), 256);
  EXPECT_EQ(defines.at("SPLITS"), 4);
  EXPECT_EQ(defines.at("TILE_ROWS_TOGETHER"), 2);  // the number of tile rows
  // The same configuration for another problem, as served by a prediction.
  const auto other =
      defines_of(plan_of(nearby, {{"SPECIALIZE_SIZE", 1}, {"SPLIT_K", 4}, {"GROUP_M", 16}}));
  EXPECT_EQ(other.at("SIZE_M"), 200);
  EXPECT_EQ(other.at("SIZE_N"), 120);
  EXPECT_EQ(other.at("SIZE_K"), 260);
}

TEST(SimtSpecializeSize, OnlyASpecializedImageIsForOneSize) {
  const Problem one = make_problem(Layout::tn, 128, 192, 256);
  const Problem other = make_problem(Layout::tn, 1000, 120, 260);
  EXPECT_EQ(multiply_of(plan_of(one, {})).kernel, multiply_of(plan_of(other, {})).kernel);
  EXPECT_NE(multiply_of(plan_of(one, {{"SPECIALIZE_SIZE", 1}})).kernel,
            multiply_of(plan_of(other, {{"SPECIALIZE_SIZE", 1}})).kernel);
}

TEST(SimtSpecializeSize, IsTriedForSmallOrShortProductsAndServedForAll) {
  const Problem small = make_problem(Layout::nn, 1024, 1024, 1024);
  const Problem brief = make_problem(Layout::nn, 8192, 8192, 64);
  const Problem large = make_problem(Layout::nn, 4096, 4096, 4096);
  const std::map<std::string, int> vectors = {
      {"VECTOR_A", 4}, {"VECTOR_B", 4}, {"VECTOR_C", 4}, {"SPECIALIZE_SIZE", 1}};
  EXPECT_TRUE(is_tried(small, simt(small, vectors)));
  EXPECT_TRUE(is_tried(brief, simt(brief, vectors)));
  EXPECT_FALSE(is_tried(large, simt(large, vectors)));
}

struct Filling {
  Problem problem;
  int blocks_per_sm;
  std::uint32_t grid;
};

class SimtSplits : public testing::TestWithParam<Filling> {};

// 132 multiprocessors; tiles of 64 x 64, 16 deep.
TEST_P(SimtSplits, FillsTheDeviceOnce) {
  const auto& [problem, blocks, grid] = GetParam();
  const Plan plan = plan_of(problem, {{"SPLIT_K", 0}, {"BLOCKS_PER_SM", blocks}});
  EXPECT_EQ(multiply_of(plan).grid.x, grid);
  const bool split = grid > (problem.m + 63) / 64 * ((problem.n + 63) / 64);
  EXPECT_EQ(plan.steps.back().role, split ? StepRole::reduce : StepRole::multiply);
  EXPECT_EQ(defines_of(plan).at("SPLIT"), split);
}

INSTANTIATE_TEST_SUITE_P(
    Problems, SimtSplits,
    testing::Values(Filling{make_problem(Layout::nn, 64, 64, 65536), 1, 132},
                    Filling{make_problem(Layout::nn, 64, 64, 65536), 2, 264},
                    Filling{make_problem(Layout::nn, 64, 320, 65536), 1, 130},  // 5 x 26
                    Filling{make_problem(Layout::nn, 64, 64, 320), 1, 5},       // four tiles each
                    Filling{make_problem(Layout::nn, 64, 64, 16), 1, 1},        // one tile of k
                    Filling{make_problem(Layout::nn, 4096, 64, 4096), 1, 128},  // two a tile
                    Filling{make_problem(Layout::nn, 4096, 4096, 64), 2, 4096}));  // full already

TEST(SimtSplit, ABatchFillsTheDeviceTogether) {
  Problem problem = make_problem(Layout::nn, 64, 64, 65536);
  problem.batch = 33;
  const Plan plan = plan_of(problem, {{"SPLIT_K", 0}, {"BLOCKS_PER_SM", 2}});
  EXPECT_EQ(multiply_of(plan).grid.x, 33u * 8);
}

TEST(SimtPipeline, TilesAlongKComeInSwizzledPanels) {
  const Problem problem = make_problem(Layout::nt, 512, 384, 2048);
  for (const int tile_k : {8, 16, 32, 64}) {
    const Plan plan = plan_of(problem, {{"PREFETCH", 6},
                                        {"TRANSPOSE_A", 0},
                                        {"TRANSPOSE_B", 0},
                                        {"VECTOR_A", 4},
                                        {"VECTOR_B", 4},
                                        {"TILE_K", tile_k},
                                        {"UNROLL", tile_k},
                                        {"FRAGMENT_K", 4}});
    ASSERT_EQ(plan.tensor_maps.size(), 2u);
    const int panel = std::min(tile_k, 32);
    const TensorMapRecipe& a = plan.tensor_maps[0];
    EXPECT_THAT(a.dims, ElementsAre(2048, 512));
    EXPECT_THAT(a.box, ElementsAre(panel, 64));
    EXPECT_EQ(a.swizzle_bytes, panel * 4);
    EXPECT_THAT(plan.tensor_maps[1].dims, ElementsAre(2048, 384));
  }
}

TEST(SimtPipeline, TilesAcrossKComeAsTheyLie) {
  const Problem problem = make_problem(Layout::tn, 512, 384, 2048);
  const Plan plan = plan_of(problem, {{"PREFETCH", 6}, {"VECTOR_A", 4}, {"VECTOR_B", 4}});
  ASSERT_EQ(plan.tensor_maps.size(), 2u);
  EXPECT_THAT(plan.tensor_maps[0].dims, ElementsAre(512, 2048));
  EXPECT_THAT(plan.tensor_maps[0].box, ElementsAre(64, 16));
  EXPECT_EQ(plan.tensor_maps[0].swizzle_bytes, 0);
}

TEST(SimtPipeline, WhatIsTurnedOrNotAlignedGoesThroughRegisters) {
  Problem problem = make_problem(Layout::nn, 512, 384, 2048);
  problem.b.alignment = 4;
  EXPECT_TRUE(plan_of(problem, {{"PREFETCH", 6}, {"VECTOR_A", 4}}).tensor_maps.empty());
}

TEST(SimtPipeline, ATileOfAnyHeightComesWhereItIsNotSwizzled) {
  const KernelTemplate& kernel = find_template("simt");
  const auto why = [&](Layout layout, int prefetch) {
    const Problem problem = make_problem(layout, 36, 384, 2048);
    Configuration c = kernel.default_configuration(problem, h200());
    for (const auto& [name, value] : std::map<std::string, int>{{"TILE_M", 36},
                                                                {"THREAD_M", 9},
                                                                {"TRANSPOSE_A", 0},
                                                                {"VECTOR_A", 4},
                                                                {"PREFETCH", prefetch}})
      c.set(name, value);
    return rejection(kernel, problem, c, h200());
  };
  EXPECT_THAT(why(Layout::nn, 6), testing::HasSubstr("swizzle_repeats"));
  EXPECT_EQ(why(Layout::tn, 6), "");
  EXPECT_EQ(why(Layout::nn, 3), "");
}

TEST(SimtSlices, ThreadsExchangeFourSumsAtATime) {
  const Problem problem = make_problem(Layout::nn, 256, 256, 256);
  const KernelTemplate& kernel = find_template("simt");
  Configuration c = simt(problem, {});
  for (const auto& [name, value] : std::map<std::string, int>{{"TILE_M", 40},
                                                              {"THREAD_M", 10},
                                                              {"THREAD_N", 1},
                                                              {"SLICE_K", 2},
                                                              {"UNROLL", 8},
                                                              {"WARP_M", 2}})
    c.set(name, value);
  EXPECT_THAT(rejection(kernel, problem, c, h200()), testing::HasSubstr("slices_share_rows"));
}

}  // namespace
}  // namespace tilewise::simt_plan_test
