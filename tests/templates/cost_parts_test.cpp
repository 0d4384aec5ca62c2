// Parts of the cost model: the time of each resource, and the correlation that judges it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "templates/cost_model.hpp"

namespace tilewise::cost_parts_test {
namespace {

TEST(CostOfResources, StatesWhatEachResourceAloneWouldTake) {
  const DeviceInfo h200 = nominal_device(parse_target("sm_90a"));
  LaunchStep step;
  step.grid.x = 132 * 8;
  step.block.x = 256;
  step.schedule.ahead = 1;
  step.work.issued_flops = 66.9e12 * 1e-3;  // a millisecond of the units
  step.work.compulsory_bytes = 0.5e-3 * 0.87 * peak_bandwidth(h200);
  step.work.global_bytes = 0.25e-3 * l2_bandwidth(h200);
  Plan plan;
  plan.steps = {step};
  const Cost cost = estimate(plan, h200);
  const auto alone = [&](Limit limit) {
    return cost.steps.at(0).alone[static_cast<std::size_t>(limit)];
  };
  EXPECT_EQ(cost.limit, Limit::multiply_adds);
  EXPECT_NEAR(alone(Limit::multiply_adds), 1e-3, 1e-5);
  EXPECT_NEAR(alone(Limit::memory), 0.5e-3, 1e-6);
  EXPECT_NEAR(alone(Limit::l2), 0.25e-3, 1e-6);
  EXPECT_GT(alone(Limit::launch), 0);
  for (const double seconds : cost.steps[0].alone) EXPECT_LT(seconds, cost.seconds);
}

TEST(RankCorrelation, IsSpearmans) {
  const auto of = [](std::vector<double> x, std::vector<double> y) {
    return rank_correlation(x, y);
  };
  EXPECT_DOUBLE_EQ(of({1, 2, 3, 4}, {10, 200, 201, 1e9}), 1);
  EXPECT_DOUBLE_EQ(of({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(of({1, 2, 3, 4}, {2, 1, 4, 3}), 0.6);
  EXPECT_NEAR(of({1, 2, 2, 3}, {1, 3, 2, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-15) << "ties share";
  EXPECT_TRUE(std::isnan(of({1, 2}, {1, 2}))) << "too few";
  EXPECT_TRUE(std::isnan(of({1, 1, 1}, {1, 2, 3}))) << "no order in x";
  EXPECT_TRUE(std::isnan(of({1, 2, 3}, {5, 5, 5}))) << "no order in y";
}

}  // namespace
}  // namespace tilewise::cost_parts_test
