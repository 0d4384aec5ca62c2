// The order of sums as a condition on configurations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

namespace tilewise::order_constraint_test {
namespace {

DeviceInfo device_of(const char* target) { return nominal_device(parse_target(target)); }

const Constraint& order_constraint(const KernelTemplate& kernel) {
  return *std::find_if(kernel.constraints.begin(), kernel.constraints.end(),
                       [](const Constraint& one) { return one.name == "sum_order"; });
}

// The search prunes partial configurations by that list.
TEST(OrderConstraint, ReadsWhatItDeclares) {
  std::mt19937_64 generator(5);
  for (const KernelTemplate& kernel : catalog())
    for (int i = 0; i < 2000; ++i) {
      Problem problem = test::random_typed_problem(generator, 3000);
      const DeviceInfo device =
          nominal_device(known_targets()[generator() % known_targets().size()]);
      if (!kernel.supports(problem, device)) continue;
      Configuration full;
      for (const Parameter& p : kernel.parameters)
        full.set(p.name, p.values[generator() % p.values.size()]);
      if (!meets_constraints(kernel, problem, full, device)) continue;
      const auto order = kernel.sum_order(problem, full, device);
      if (!order) continue;
      problem.order = interned(*order);
      const Constraint& constraint = order_constraint(kernel);
      // Other values of all other parameters.
      Configuration partial;
      for (const Parameter& p : kernel.parameters)
        partial.set(p.name, std::count(constraint.reads.begin(), constraint.reads.end(), p.name) > 0
                                ? full.at(p.name)
                                : p.values[generator() % p.values.size()]);
      EXPECT_TRUE(constraint.holds({problem, full, device}));
      EXPECT_TRUE(constraint.holds({problem, partial, device}))
          << kernel.name << ": " << full.text() << " and " << partial.text();
    }
}

TEST(OrderConstraint, LeavesThoseConfigurationsOfASpace) {
  const DeviceInfo device = device_of("sm_90a");
  Problem problem = typed_problem(Layout::nt, 64, 1024, 4096, DType::bf16, DType::bf16);
  set_order(problem, "tensor16+parts1024");
  const SearchSpace space(problem, device, select_templates());
  std::mt19937_64 generator(3);
  std::set<std::string> families;
  for (int i = 0; i < 300; ++i)
    if (const auto drawn = space.random(generator, 20000)) {
      families.insert(drawn->kernel_template);
      ASSERT_EQ(sum_order_of(*drawn, problem, device), *problem.order) << to_string(*drawn);
    }
  EXPECT_TRUE(families.contains("mma"));
  EXPECT_TRUE(families.contains("wgmma"));
  const std::string why =
      rejection(find_template("naive"), problem,
                find_template("naive").default_configuration(problem, device), device);
  EXPECT_NE(why.find("sum_order"), std::string::npos) << why;
}

// Without any record every product has a kernel in the default order, whatever m, batch and
// alignment are, or is refused in every order.
TEST(DefaultOrder, IsServedToEveryNumberOfRows) {
  std::mt19937_64 generator(11);
  std::set<std::string> orders;
  for (const char* name : {"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"}) {
    const DeviceInfo device = device_of(name);
    for (const ProductKind& kind : product_kinds())
      for (const Layout layout : test::kLayouts) {
        const auto extent = [&] { return 1 + static_cast<std::int64_t>(generator() % 5000); };
        Problem key = test::with_kind(test::make_problem(layout, 1, extent(), extent()), kind);
        SumOrder order;
        try {
          order = default_order(order_key(key), device);
        } catch (const Error& error) {
          ASSERT_EQ(error.kind(), ErrorKind::unsupported);
          continue;
        }
        orders.insert(to_string(order));
        for (const std::int64_t m : {1, 2, 17, 64, 1000, 20000})
          for (const bool aligned : {false, true})
            for (const std::int64_t batch : {1, 5}) {
              Problem problem = key;
              problem.m = m, problem.batch = batch;
              if (!aligned)
                set_alignment(problem, {bytes_of(kind.a), bytes_of(kind.b), bytes_of(kind.c)});
              // Narrow weights are not packed.
              if (kind.a != kind.b) problem.b.alignment = natural_alignment(key).b;
              problem.order = interned(order);
              const auto kernels = by_default_rank(problem);
              EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(),
                                      [&](const KernelTemplate* kernel) {
                                        const auto found = default_for(*kernel, problem, device);
                                        return found &&
                                               kernel->sum_order(problem, *found, device) == order;
                                      }))
                  << to_string(problem) << " on " << name;
            }
      }
  }
  for (const char* expected : {"exact", "fused", "tensor16", "tensor8"})
    EXPECT_TRUE(orders.contains(expected)) << expected;
}

// An order in parts has a default kernel at every m where its parts are whole tiles.
TEST(DefaultOrder, InPartsIsServedToo) {
  const DeviceInfo device = device_of("sm_90a");
  for (const char* text : {"tensor16+parts512", "tensor16+parts2048", "tensor16+parts512+rows4"})
    for (const std::int64_t m : {1, 100, 8192}) {
      Problem problem = typed_problem(
          Layout::nt, m, 1000, std::string(text).find("rows4") == std::string::npos ? 4096 : 8192,
          DType::bf16, DType::bf16);
      if (std::string(text) == "tensor16+parts512") problem.k = 2048;
      set_order(problem, text);
      const auto kernels = by_default_rank(problem);
      EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [&](const KernelTemplate* kernel) {
        return default_for(*kernel, problem, device);
      })) << to_string(problem);
    }
}

TEST(DefaultOrder, OfAnotherOrderThanAnyKernelHasIsNone) {
  const DeviceInfo device = device_of("sm_90a");
  Problem problem = typed_problem(Layout::nt, 64, 64, 4096, DType::bf16, DType::bf16);
  set_order(problem, "tensor16+parts1001");
  for (const KernelTemplate& kernel : catalog())
    EXPECT_EQ(default_for(kernel, problem, device), std::nullopt) << kernel.name;
}

}  // namespace
}  // namespace tilewise::order_constraint_test
