// Plans of the families residues and halves: their steps, the parts of k, the chunks of C, and the
// workspace.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise::emulated_plan_test {
namespace {

Problem emulated(std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::f64) {
  Problem problem = test::make_problem(Layout::nn, m, n, k);
  set_types(problem, type, type, MathMode::emulated);
  return problem;
}

DeviceInfo hopper() { return nominal_device(parse_target("sm_90a")); }

Plan plan_for(const Problem& problem, const DeviceInfo& device) {
  const KernelTemplate& kernel =
      find_template(problem.a.type == DType::f64 ? "residues" : "halves");
  const Configuration c = kernel.default_configuration(problem, device);
  EXPECT_EQ(rejection(kernel, problem, c, device), "");
  return kernel.plan(problem, c, device);
}

std::vector<std::string> entries_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const LaunchStep& step : plan.steps) names.push_back(step.kernel.entry);
  return names;
}

TEST(ResiduesPlan, CertifiesMultipliesAndEndsWithTheNativeProduct) {
  const Plan plan = plan_for(emulated(700, 900, 1100), hopper());
  EXPECT_EQ(entries_of(plan), (std::vector<std::string>{"scales", "planes", "wgmma", "certify",
                                                        "planes", "wgmma", "combine", "mma"}));
  EXPECT_EQ(plan.steps.back().role, StepRole::native);
  EXPECT_EQ(plan.steps.back().kernel.defines.at("CONDITIONAL"), 1);
  EXPECT_EQ(multiply_step(plan)->kernel.defines.at("RESIDUES"), 1);
  for (const LaunchStep& step : plan.steps)
    for (const Argument& a : step.arguments)
      if (a.kind == Argument::Kind::workspace) {
        EXPECT_EQ(a.value % 256, 0);
        EXPECT_LT(a.value, plan.workspace_bytes);
      }
}

TEST(HalvesPlan, CertifiesMultipliesTwoPartsAndEndsWithTheNativeProduct) {
  const Plan plan = plan_for(emulated(700, 900, 5000, DType::f32), hopper());
  EXPECT_EQ(entries_of(plan), (std::vector<std::string>{"scales", "planes", "wgmma", "certify",
                                                        "planes", "wgmma", "combine", "simt"}));
  EXPECT_EQ(plan.steps.back().kernel.defines.at("CONDITIONAL"), 1);
  EXPECT_EQ(multiply_step(plan)->kernel.defines.at("OF_HALVES"), 1);
  EXPECT_EQ(multiply_step(plan)->kernel.defines.at("ELEMENT_PARTS"), 2);
  int magnitudes = 0, halves = 0;
  for (const TensorMapRecipe& map : plan.tensor_maps) {
    if (map.type == DType::i8) {
      ++magnitudes;
      EXPECT_EQ(map.dims[0], 1264) << "16 of each 64 steps of k, whose last 8 are no whole 64";
    }
    if (map.type == DType::f16) {
      ++halves;
      EXPECT_EQ(map.dims[0], 5000);
      EXPECT_EQ(map.dims[1], 2 * (halves % 2 == 1 ? 700 : 912)) << "both parts";
    }
  }
  EXPECT_EQ(magnitudes, 4) << "whole and edge boxes of both operands";
  EXPECT_EQ(halves, 4);
}

TEST(HalvesPlan, IsForEmulatedProductsInF32) {
  const KernelTemplate& kernel = find_template("halves");
  Problem problem = emulated(256, 256, 256, DType::f32);
  EXPECT_TRUE(kernel.supports(problem, hopper()));
  EXPECT_FALSE(kernel.supports(problem, nominal_device(parse_target("sm_80"))));
  EXPECT_FALSE(kernel.supports(emulated(64, 64, 131'072, DType::f32), hopper()))
      << "products of magnitudes stay below 2^31";
  EXPECT_FALSE(kernel.supports(emulated(256, 256, 256), hopper()));
  problem.batch = 2;
  EXPECT_FALSE(kernel.supports(problem, hopper()));
}

TEST(ResiduesPlan, DeepProductsAreSummedInParts) {
  const Plan plan = plan_for(emulated(64, 64, 300'000), hopper());
  int batched = 0;
  for (const TensorMapRecipe& map : plan.tensor_maps) {
    if (map.type != DType::i8 || map.dims.size() != 3) continue;
    ++batched;
    EXPECT_LE(map.dims[0], 131072 - 128) << "sums of products of bytes stay below 2^31";
    EXPECT_EQ(map.dims[2] % 3, 0) << "each modulus has three parts of k";
  }
  EXPECT_GE(batched, 4) << "both operands of both products";
  EXPECT_EQ(plan.steps[3].kernel.defines.at("PARTS"), 1);
}

TEST(ResiduesPlan, ALargeWorkspaceIsUsedForChunksOfColumns) {
  DeviceInfo small = hopper();
  small.memory_bytes = std::int64_t{4} << 30;
  const Problem problem = emulated(4096, 8192, 4096);
  const Plan plan = plan_for(problem, small);
  EXPECT_LE(plan.workspace_bytes, small.memory_bytes / 4 + (1 << 20));
  const std::vector<std::string> entries = entries_of(plan);
  EXPECT_GT(std::count(entries.begin(), entries.end(), "combine"), 1);
  EXPECT_EQ(std::count(entries.begin(), entries.end(), "mma"), 1);

  small.memory_bytes = std::int64_t{1} << 20;
  const KernelTemplate& kernel = find_template("residues");
  EXPECT_NE(rejection(kernel, problem, kernel.default_configuration(problem, small), small), "");
}

TEST(ResiduesPlan, IsForEmulatedProductsOfOneBatchOnHopperAlone) {
  const KernelTemplate& kernel = find_template("residues");
  Problem problem = emulated(256, 256, 256);
  EXPECT_TRUE(kernel.supports(problem, hopper()));
  EXPECT_FALSE(kernel.supports(problem, nominal_device(parse_target("sm_80"))));
  problem.batch = 2;
  EXPECT_FALSE(kernel.supports(problem, hopper()));
  problem.batch = 1;
  problem.math = MathMode::strict;
  EXPECT_FALSE(kernel.supports(problem, hopper()));
}

}  // namespace
}  // namespace tilewise::emulated_plan_test
