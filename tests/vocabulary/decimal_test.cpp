#include "vocabulary/decimal.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace tilewise::decimal_test {
namespace {

TEST(Decimal, KnownAnswers) {
  EXPECT_EQ(in_digits(0.123456, 3), "0.123");
  EXPECT_EQ(in_digits(1234567, 4), "1.235e+06");
  EXPECT_EQ(in_decimals(2.5, 2), "2.50");
  EXPECT_EQ(in_exponent_form(1.27e-7, 1), "1.3e-07");
  EXPECT_EQ(in_decimals(1e300, 1).size(), 303U);
  EXPECT_EQ(in_shortest_form(0.1), "0.1");
  EXPECT_EQ(in_shortest_form(-3), "-3");
  EXPECT_EQ(in_digits(std::numeric_limits<double>::infinity(), 3), "inf");
}

TEST(Decimal, IsWhatPrintfWritesInTheLocaleC) {
  ASSERT_STREQ(std::setlocale(LC_NUMERIC, nullptr), "C");
  std::mt19937 generator(1);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::uniform_real_distribution<double>(-1, 1)(generator) *
                         std::pow(10, std::uniform_int_distribution<int>(-20, 20)(generator));
    char text[64];
    std::snprintf(text, sizeof text, "%.4g", value);
    EXPECT_EQ(in_digits(value, 4), text);
    std::snprintf(text, sizeof text, "%.3f", value);
    EXPECT_EQ(in_decimals(value, 3), text);
    EXPECT_EQ(std::stod(in_shortest_form(value)), value);
  }
}

}  // namespace
}  // namespace tilewise::decimal_test
