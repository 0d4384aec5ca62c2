// The choice of an order of sums, from times.
#include "tuner/order_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "templates/kernel_template.hpp"

namespace tilewise::order_choice_test {
namespace {

Problem key(std::int64_t n, std::int64_t k, DType type = DType::bf16) {
  return order_key(typed_problem(Layout::nt, 1, n, k, type, default_result(type)));
}
DeviceInfo h200() { return nominal_device(parse_target("sm_90a")); }

std::vector<std::string> texts(const std::vector<SumOrder>& orders) {
  std::vector<std::string> texts;
  for (const SumOrder& order : orders) texts.push_back(to_string(order));
  return texts;
}

TEST(CandidateOrders, AreInPartsWhereTilesLeaveMultiprocessorsIdle) {
  // 16 tiles of 64 columns, for 132 multiprocessors.
  EXPECT_EQ(texts(candidate_orders(key(1024, 8192), {{1, 1}, {4096, 1}}, h200())),
            (std::vector<std::string>{"tensor16", "tensor16+parts4096", "tensor16+parts2048",
                                      "tensor16+parts1024", "tensor16+parts512"}));
  // 1024 rows at least: 256 tiles.
  EXPECT_EQ(texts(candidate_orders(key(1024, 8192), {{1024, 1}}, h200())),
            std::vector<std::string>{"tensor16"});
  // Too little k for parts.
  EXPECT_EQ(texts(candidate_orders(key(1024, 512), {{1, 1}}, h200())),
            std::vector<std::string>{"tensor16"});
  EXPECT_EQ(texts(candidate_orders(key(1024, 8192, DType::i8), {{1, 1}}, h200())),
            std::vector<std::string>{"exact"});
}

TEST(CandidateOrders, OfGroupedProductsHaveKInOnePart) {
  Problem grouped = typed_problem(Layout::nt, 64, 1024, 8192, DType::bf16, DType::bf16);
  grouped.grouping = Grouping::rows;
  EXPECT_EQ(texts(candidate_orders(order_key(grouped), {{1, 1}}, h200())),
            std::vector<std::string>{"tensor16"});
}

TEST(CandidateOrders, HaveAKernelAtEveryNumberOfRows) {
  for (const DType type : {DType::bf16, DType::e4m3, DType::f32})
    for (const std::int64_t k : {4096, 8192, 14336, 4095, 5000})
      for (const SumOrder& order : candidate_orders(key(512, k, type), {{1, 1}}, h200()))
        for (const std::int64_t m : {1, 64, 4096}) {
          Problem problem = typed_problem(Layout::nt, m, 512, k, type, default_result(type));
          problem.order = interned(order);
          EXPECT_TRUE(std::any_of(catalog().begin(), catalog().end(),
                                  [&](const KernelTemplate& kernel) {
                                    return default_for(kernel, problem, h200()).has_value();
                                  }))
              << to_string(problem);
        }
}

TEST(Probes, AreTheEndsAndTheMiddleWithTheWeightsOfTheirNeighbours) {
  const auto probes = probes_of({{4096, 1}, {1, 2}, {64, 3}, {2, 5}, {128, 7}, {2048, 11}});
  ASSERT_EQ(probes.size(), 3u);
  EXPECT_EQ(probes[0].m, 1);
  EXPECT_EQ(probes[1].m, 64);
  EXPECT_EQ(probes[2].m, 4096);
  EXPECT_EQ(probes[0].weight, 2 + 5);
  EXPECT_EQ(probes[1].weight, 3 + 7);
  EXPECT_EQ(probes[2].weight, 1 + 11);
  EXPECT_EQ(probes_of({{7, 2}, {7, 3}}).size(), 1u);
  EXPECT_EQ(probes_of({{7, 2}, {7, 3}}).front().weight, 5);
  EXPECT_EQ(probes_of({{9, 1}, {3, 1}}).front().m, 3);
}

TEST(ProbeSeconds, AreNoneWhereTheModelMayChooseAndTheTimeIsShort) {
  EXPECT_EQ(probe_seconds(30, 15, true), 2);
  EXPECT_EQ(probe_seconds(6, 15, true), 0);
  EXPECT_EQ(probe_seconds(6, 15, false), 1) << "the CPU has no model";
  EXPECT_EQ(probe_seconds(6, 0, true), 6);
}

TEST(BestOrder, HasTheLeastWeightedGeometricMean) {
  const std::vector<WeightedM> probes{{1, 3}, {4096, 1}};
  std::vector<ProbedOrder> orders(2);
  orders[0].us = {20, 100};
  orders[1].us = {10, 300};
  EXPECT_EQ(best_order(orders, probes), 1u);
  EXPECT_NEAR(orders[0].loss, std::pow(2, 0.75), 1e-12);
  EXPECT_NEAR(orders[1].loss, std::pow(3, 0.25), 1e-12);
  orders[1].us = {10, 1000};
  EXPECT_EQ(best_order(orders, {{1, 1}, {4096, 1}}), 0u);
}

TEST(BestOrder, IsNoneThatLacksATimeAndTheFirstOfEqualOnes) {
  std::vector<ProbedOrder> orders(2);
  orders[0].us = {0, 100};
  orders[1].us = {10, 300};
  EXPECT_EQ(best_order(orders, {{1, 1}, {2, 1}}), 1u);
  EXPECT_TRUE(std::isinf(orders[0].loss));
  orders[0].us = orders[1].us = {5, 5};
  EXPECT_EQ(best_order(orders, {{1, 1}, {2, 1}}), 0u);
  // No order has a time: the first one, which is the default.
  orders[0].us = orders[1].us = {0, 0};
  EXPECT_EQ(best_order(orders, {{1, 1}, {2, 1}}), 0u);
}

TEST(BestOrder, IsByExpectedTimesWhereOneIsNotMeasured) {
  // The second order was measured by luck; by the model it takes twice as long at m = 4096.
  const std::vector<WeightedM> probes{{1, 1}, {4096, 1}};
  std::vector<ProbedOrder> orders(2);
  orders[0].us = {12, 0}, orders[0].expected_us = {0, 100};
  orders[1].us = {10, 80}, orders[1].expected_us = {0, 200};
  EXPECT_EQ(best_order(orders, probes), 0u);
  EXPECT_NEAR(orders[0].loss, std::sqrt(1.2), 1e-12);
  EXPECT_NEAR(orders[1].loss, std::sqrt(2), 1e-12);
}

}  // namespace
}  // namespace tilewise::order_choice_test
