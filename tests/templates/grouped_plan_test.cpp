// Plans of grouped products.
#include <gtest/gtest.h>

#include <set>

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

}  // namespace
}  // namespace tilewise::grouped_plan_test
