// When a winner's time counts as changed.
#include "tuner/evaluate/time_change.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tilewise::time_change_test {
namespace {

Measurement measured(double median_us, double spread) {
  Measurement measurement;
  measurement.median_us = median_us;
  measurement.spread = spread;
  return measurement;
}

std::string_view state(double change, double spread, bool on_cpu = false) {
  return time_change(measured(100, spread), measured(100 * (1 + change), 0), on_cpu).state;
}

TEST(TimeChange, IsComparedWithTwiceBothSpreads) {
  EXPECT_EQ(state(0.029, 0.015), "same");
  EXPECT_EQ(state(0.031, 0.015), "slower");
  EXPECT_EQ(state(-0.031, 0.015), "faster");
}

TEST(TimeChange, OfTwoPercentIsNone) { EXPECT_EQ(state(0.019, 0), "same"); }

TEST(TimeChange, OfMoreThanFivePercentIsNeverHiddenByTheSpread) {
  EXPECT_EQ(state(0.3, 0.14), "slower") << "it was called the same";
  EXPECT_EQ(state(0.06, 0.14), "slower");
  EXPECT_EQ(state(0.04, 0.14), "same");
  EXPECT_EQ(state(0.06, std::nan("")), "slower");
}

TEST(TimeChange, OnTheCpuHasAToleranceOfItsOwn) {
  EXPECT_EQ(state(0.14, 0, true), "same");
  EXPECT_EQ(state(0.16, 0.14, true), "slower");
  EXPECT_EQ(state(0.3, 0.14, true), "slower");
}

TEST(TimeChange, NeedsTwoTimes) {
  EXPECT_EQ(time_change(Measurement{}, measured(100, 0), false).state, "not comparable");
  EXPECT_EQ(time_change(measured(100, 0), measured(std::nan(""), 0), false).state,
            "not comparable");
}

}  // namespace
}  // namespace tilewise::time_change_test
