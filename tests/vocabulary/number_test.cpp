// Numbers of every type: the values of bit patterns, and rounding.
#include "tilewise/number.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tilewise::number_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kSmall[] = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2};

std::uint64_t bits_of(DType type, double value) {
  std::uint64_t bits = 0;
  from_double(type, value, &bits);
  return bits;
}
double value_of(DType type, std::uint64_t bits) { return to_double(type, &bits); }
std::uint64_t patterns(DType type) { return std::uint64_t{1} << (8 * bytes_of(type)); }

// Every finite number of a small type, ascending from 0.
std::vector<double> numbers_of(DType type) {
  std::vector<double> all;
  for (std::uint64_t bits = 0; bits < patterns(type) / 2; ++bits) {
    const double value = value_of(type, bits);
    if (std::isfinite(value)) all.push_back(value);
  }
  return all;
}

TEST(Numbers, EveryPatternOfTheSmallTypesComesBack) {
  for (const DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::i8}) {
    for (std::uint64_t bits = 0; bits < patterns(type); ++bits) {
      const double value = value_of(type, bits);
      const std::uint64_t back = bits_of(type, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(value_of(type, back)));
      } else if (is_fp8(type) && std::isinf(value)) {
        EXPECT_EQ(value_of(type, back), std::copysign(dtype_info(type).largest, value));
      } else {
        ASSERT_EQ(back, bits) << to_string(type);
      }
    }
  }
}

TEST(Numbers, TheTableOfTypesAgrees) {
  for (const DType type : kSmall) {
    const std::vector<double> all = numbers_of(type);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end())) << to_string(type);
    EXPECT_EQ(all.back(), dtype_info(type).largest) << to_string(type);
    EXPECT_EQ(all[1], smallest_of(type)) << to_string(type);
    const auto one = std::find(all.begin(), all.end(), 1.0);
    ASSERT_NE(one, all.end());
    EXPECT_EQ((one[1] - 1) / 2, dtype_info(type).unit_roundoff) << to_string(type);
  }
  EXPECT_EQ(smallest_of(DType::f32), std::numeric_limits<float>::denorm_min());
}

TEST(Numbers, KnownValues) {
  EXPECT_EQ(value_of(DType::f16, 0x3C00), 1);
  EXPECT_EQ(value_of(DType::f16, 0xC000), -2);
  EXPECT_EQ(value_of(DType::f16, 0x0001), 0x1p-24);
  EXPECT_EQ(value_of(DType::f16, 0x0400), 0x1p-14);
  EXPECT_EQ(value_of(DType::f16, 0xFC00), -kInfinity);
  EXPECT_EQ(value_of(DType::bf16, 0x3F80), 1);
  EXPECT_EQ(value_of(DType::bf16, 0x0001), 0x1p-133);
  EXPECT_EQ(value_of(DType::e4m3, 0x38), 1);
  EXPECT_EQ(value_of(DType::e4m3, 0x01), 0x1p-9);
  EXPECT_EQ(value_of(DType::e4m3, 0x08), 0x1p-6);
  EXPECT_EQ(value_of(DType::e4m3, 0xFE), -448);
  EXPECT_TRUE(std::isnan(value_of(DType::e4m3, 0x7F)));
  EXPECT_TRUE(std::isnan(value_of(DType::e4m3, 0xFF)));
  EXPECT_EQ(value_of(DType::e5m2, 0x3C), 1);
  EXPECT_EQ(value_of(DType::e5m2, 0x7C), kInfinity);
  EXPECT_EQ(value_of(DType::e5m2, 0x7B), 57344);
  EXPECT_EQ(value_of(DType::i8, 0x80), -128);
  EXPECT_EQ(bits_of(DType::f16, 3.14159265), 0x4248U);
  EXPECT_EQ(bits_of(DType::bf16, 3.14159265), 0x4049U);
  EXPECT_EQ(bits_of(DType::e4m3, 0.1), 0x1DU);
  EXPECT_EQ(bits_of(DType::e5m2, 0.1), 0x2EU);
  EXPECT_TRUE(std::signbit(value_of(DType::f16, bits_of(DType::f16, -0.0))));
}

// Between two neighbours the nearer one is chosen, at the midpoint the one with an even last bit.
// Tested with the doubles just below, at and above the midpoint.
TEST(Numbers, AreRoundedToNearestAndTiesToEven) {
  for (const DType type : kSmall) {
    const std::vector<double> all = numbers_of(type);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const double middle = (all[i] + all[i + 1]) / 2;
      const double even = i % 2 == 0 ? all[i] : all[i + 1];
      for (const double sign : {1.0, -1.0}) {
        const auto rounded = [&](double x) { return value_of(type, bits_of(type, sign * x)); };
        ASSERT_EQ(rounded(middle), sign * even) << to_string(type) << " " << middle;
        ASSERT_EQ(rounded(std::nextafter(middle, 0)), sign * all[i]);
        ASSERT_EQ(rounded(std::nextafter(middle, kInfinity)), sign * all[i + 1]);
      }
    }
  }
}

TEST(Numbers, NothingIsRoundedTwice) {
  // Above a midpoint by less than one unit of f32: if rounded to f32 first, it would be a tie.
  EXPECT_EQ(value_of(DType::f16, bits_of(DType::f16, 1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10);
  EXPECT_EQ(value_of(DType::bf16, bits_of(DType::bf16, 1 + 0x1p-8 + 0x1p-40)), 1 + 0x1p-7);
}

TEST(Numbers, BeyondTheLargestSaturateOrBecomeInfinite) {
  EXPECT_EQ(value_of(DType::f16, bits_of(DType::f16, 65519.99)), 65504);
  EXPECT_EQ(value_of(DType::f16, bits_of(DType::f16, 65520)), kInfinity);
  EXPECT_EQ(value_of(DType::bf16, bits_of(DType::bf16, -1e39)), -kInfinity);
  EXPECT_EQ(value_of(DType::f32, bits_of(DType::f32, 1e300)), kInfinity);
  for (const double huge : {465.0, 1e10, 1e308, kInfinity}) {
    EXPECT_EQ(value_of(DType::e4m3, bits_of(DType::e4m3, huge)), 448) << huge;
    EXPECT_EQ(value_of(DType::e4m3, bits_of(DType::e4m3, -huge)), -448) << huge;
  }
  EXPECT_EQ(value_of(DType::e5m2, bits_of(DType::e5m2, kInfinity)), 57344);
  EXPECT_EQ(value_of(DType::i8, bits_of(DType::i8, 127.5)), 127);
  EXPECT_EQ(value_of(DType::i8, bits_of(DType::i8, -1e9)), -128);
  EXPECT_EQ(value_of(DType::i32, bits_of(DType::i32, 3e9)), 2147483647);
  EXPECT_EQ(value_of(DType::i32, bits_of(DType::i32, -kInfinity)), -2147483648.0);
  EXPECT_EQ(value_of(DType::i8, bits_of(DType::i8, 2.5)), 2);
  EXPECT_EQ(value_of(DType::i8, bits_of(DType::i8, -3.5)), -4);
  EXPECT_EQ(bits_of(DType::i8, kNaN), 0U);
  for (const DType type : kSmall) {
    EXPECT_TRUE(std::isnan(value_of(type, bits_of(type, kNaN)))) << to_string(type);
  }
}

TEST(Numbers, RunsAreWhatSingleOnesAre) {
  std::mt19937_64 random(3);
  std::vector<double> values = {0.0, -0.0, kInfinity, -kInfinity, kNaN, 0x1p-1074, 1e308, 127.5};
  for (int i = 0; i < 3000; ++i) {
    const double magnitude = std::ldexp(1.0 + static_cast<double>(random() % 4096) / 4096,
                                        static_cast<int>(random() % 60) - 40);
    values.push_back(random() % 2 ? magnitude : -magnitude);
  }
  const auto count = static_cast<std::int64_t>(values.size());
  for (const DTypeInfo& info : dtypes()) {
    if (info.bits < 8) continue;  // two in a byte, see below
    const auto bytes = static_cast<std::size_t>(bytes_of(info.type));
    std::vector<std::uint64_t> stored(values.size()), from_floats(values.size());
    std::vector<double> wide(values.size());
    std::vector<float> floats(values.begin(), values.end()), wide_floats(values.size());
    narrow(info.type, values.data(), count, stored.data());
    narrow(info.type, floats.data(), count, from_floats.data());
    widen(info.type, stored.data(), count, wide.data());
    widen(info.type, stored.data(), count, wide_floats.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const char* at = reinterpret_cast<const char*>(stored.data()) + i * bytes;
      const std::uint64_t one = bits_of(info.type, values[i]);
      ASSERT_EQ(std::memcmp(at, &one, bytes), 0) << info.name << " " << values[i];
      const double back = to_double(info.type, at);
      ASSERT_TRUE(wide[i] == back || (std::isnan(wide[i]) && std::isnan(back))) << info.name;
      const auto narrow_back = static_cast<float>(back);
      ASSERT_TRUE(wide_floats[i] == narrow_back || std::isnan(narrow_back)) << info.name;
      const std::uint64_t float_one = bits_of(info.type, static_cast<double>(floats[i]));
      ASSERT_EQ(std::memcmp(reinterpret_cast<const char*>(from_floats.data()) + i * bytes,
                            &float_one, bytes),
                0);
    }
  }
}

TEST(Numbers, TwoOfFourBitsAreInAByteTheFirstInTheLowBits) {
  const std::vector<double> values = {-8, 7, -1, 0, 3, 1e9, -1e9, kNaN, 2.5};
  std::vector<std::uint8_t> stored(5, 0xff);
  narrow(DType::i4, values.data(), 9, stored.data());
  EXPECT_EQ(stored, (std::vector<std::uint8_t>{0x78, 0x0f, 0x73, 0x08, 0x02}));
  std::vector<double> wide(9);
  widen(DType::i4, stored.data(), 9, wide.data());
  EXPECT_EQ(wide, (std::vector<double>{-8, 7, -1, 0, 3, 7, -8, 0, 2}));
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const int low = code & 15;
    EXPECT_EQ(to_double(DType::i4, &byte), low < 8 ? low : low - 16);
  }
}

}  // namespace
}  // namespace tilewise::number_test
