// Plans of grouped products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::grouped_plan_test {
namespace {

Problem grouped(std::int64_t rows) {
  Problem problem = typed_problem(Layout::nt, rows, 14336, 4096, DType::bf16, DType::bf16);
  problem.batch = 8;
  set_grouping(problem, "rows even");
  return problem;
}

// One image serves few rows, whose tiles wait for memory, and many, whose tiles do not: a bundle
// has the kernel of one number of rows.
TEST(GroupedPlan, OneKernelServesEveryNumberOfRows) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  const KernelTemplate& wgmma = find_template("wgmma");
  const auto c = default_for(wgmma, grouped(65536), device);
  ASSERT_TRUE(c);
  std::set<KernelSpec> kernels;
  std::set<std::vector<Argument>> arguments;
  for (const std::int64_t rows : {64, 4096, 65536, 1 << 20}) {
    const Problem problem = grouped(rows);
    ASSERT_EQ(rejection(wgmma, problem, *c, device), "");
    const Plan plan = wgmma.plan(problem, *c, device);
    ASSERT_EQ(plan.steps.size(), 1U);
    kernels.insert(plan.steps.front().kernel);
    arguments.insert(plan.steps.front().arguments);
  }
  EXPECT_EQ(kernels.size(), 1U);
  EXPECT_EQ(arguments.size(), 4U);
}

// Matrices B of products without rows are not read: where one product has all rows, tiles do not
// wait for memory, and come in one sequence.
TEST(GroupedPlan, TilesComeInOneSequenceWhereOneProductHasAllRows) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  const KernelTemplate& wgmma = find_template("wgmma");
  Problem problem = typed_problem(Layout::nt, 65536, 2048, 1536, DType::bf16, DType::bf16);
  problem.batch = 256;
  set_grouping(problem, "rows even");
  auto c = default_for(wgmma, problem, device);
  ASSERT_TRUE(c);
  c->set("PING_PONG", 0);
  const auto arguments_of = [&](const char* grouping) {
    set_grouping(problem, grouping);
    EXPECT_EQ(rejection(wgmma, problem, *c, device), "");
    return wgmma.plan(problem, *c, device).steps.front().arguments;
  };
  std::vector<Argument> even = arguments_of("rows even");
  const std::vector<Argument> one_hot = arguments_of("rows one_hot");
  ASSERT_EQ(even.size(), one_hot.size());
  const auto [at, other] = std::mismatch(even.begin(), even.end(), one_hot.begin());
  ASSERT_NE(at, even.end());
  EXPECT_EQ(*at, (Argument{Argument::Kind::integer32, std::int64_t{1}}));
  EXPECT_EQ(*other, (Argument{Argument::Kind::integer32, std::int64_t{0}}));
  *at = *other;
  EXPECT_EQ(even, one_hot);
}

}  // namespace
}  // namespace tilewise::grouped_plan_test
