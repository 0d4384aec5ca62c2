// Matmul::quantize() on the CPU executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/matmul/quantize_checks.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::quantize_host_test {
namespace {

using testing::HasSubstr;

using test::kCanary;

class QuantizeOnTheCpu : public test::Quantizing {
 protected:
  QuantizeOnTheCpu() : Quantizing("host:sm_90a") {}

  /// Rows of a matrix, `gap` elements apart; those between are NaN, and stay what they were in
  /// results.
  void check(Matmul& matmul, DType from, DType to, std::int64_t rows, std::int64_t columns,
             std::int64_t gap, bool k_first, std::int64_t skipped = 0) {
    SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)) + ", " +
                 std::to_string(rows) + " x " + std::to_string(columns) + " gap " +
                 std::to_string(gap));
    const std::int64_t ld = columns + gap, blocks = ceil_div(columns, std::int64_t{128});
    const int bytes = bytes_of(from);
    std::mt19937 generator(static_cast<unsigned>(columns));
    std::vector<std::byte> x(static_cast<std::size_t>((rows * ld + skipped) * bytes));
    const auto element = [&](std::int64_t i, std::int64_t j) {
      return x.data() + (skipped + i * ld + j) * bytes;
    };
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < ld; ++j) {
        const double power = std::ldexp(1.0, static_cast<int>((i + j / 128) % 9) * 2 - 12);
        const double value = j < columns ? (int(generator() % 2001) - 1000) * power
                                         : std::numeric_limits<double>::quiet_NaN();
        from_double(from, i == 1 && j / 128 == 0 && j < columns ? 0 : value, element(i, j));
        if (j < columns)
          values[static_cast<std::size_t>(i * columns + j)] = to_double(from, element(i, j));
      }
    const std::int64_t ld_numbers = ld, ld_scales = (k_first ? rows : blocks) + gap;
    std::vector<std::byte> numbers(static_cast<std::size_t>(rows * ld_numbers + skipped), kCanary);
    std::vector<float> scales(static_cast<std::size_t>((k_first ? blocks : rows) * ld_scales), -7);
    matmul.quantize({.from = from,
                     .to = to,
                     .rows = rows,
                     .columns = columns,
                     .matrix = element(0, 0),
                     .ld = ld,
                     .numbers = numbers.data() + skipped,
                     .ld_numbers = ld_numbers,
                     .scales = scales.data(),
                     .ld_scales = ld_scales,
                     .k_first = k_first});
    const float largest = to == DType::e4m3 ? 448 : 57344;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        float most = 0;
        for (std::int64_t j = b * 128; j < std::min(columns, (b + 1) * 128); ++j)
          most = std::max(
              most,
              std::fabs(static_cast<float>(values[static_cast<std::size_t>(i * columns + j)])));
        const float scale = std::max(most / largest, std::numeric_limits<float>::min());
        const std::int64_t at = k_first ? b * ld_scales + i : i * ld_scales + b;
        ASSERT_EQ(scales[static_cast<std::size_t>(at)], scale) << i << ", " << b;
        for (std::int64_t j = b * 128; j < std::min(columns, (b + 1) * 128); ++j) {
          std::byte right{};
          const auto value = static_cast<float>(values[static_cast<std::size_t>(i * columns + j)]);
          from_double(to, double{value / scale}, &right);
          ASSERT_EQ(numbers[static_cast<std::size_t>(skipped + i * ld_numbers + j)], right)
              << i << ", " << j;
        }
      }
      for (std::int64_t j = columns; j < ld_numbers; ++j)
        ASSERT_EQ(numbers[static_cast<std::size_t>(skipped + i * ld_numbers + j)], kCanary);
    }
    const auto untouched = std::count(scales.begin(), scales.end(), -7.0F);
    EXPECT_EQ(untouched, std::int64_t(scales.size()) - rows * blocks);
  }
};

TEST_F(QuantizeOnTheCpu, EveryTypeSizeAndAlignment) {
  Matmul matmul(options);
  for (const DType from : {DType::f32, DType::f16, DType::bf16})
    for (const DType to : {DType::e4m3, DType::e5m2})
      for (const bool k_first : {false, true}) {
        check(matmul, from, to, 3, 128, 0, k_first);
        check(matmul, from, to, 5, 641, 3, k_first);
        check(matmul, from, to, 2, 1030, 2, k_first);  // rows of whole vectors, columns are not
        check(matmul, from, to, 19, 2175, 1, k_first);
        check(matmul, from, to, 9, 5000, 0, k_first);
        check(matmul, from, to, 1, 1, 7, k_first);
        check(matmul, from, to, 4, 130, 6, k_first, 1);  // rows, but no addresses, of vectors
      }
  check(matmul, DType::bf16, DType::e4m3, 0, 128, 0, false);
  check(matmul, DType::bf16, DType::e4m3, 4, 0, 1, false);
}

TEST_F(QuantizeOnTheCpu, QuotientsNextToTies) { check_ties(); }
TEST_F(QuantizeOnTheCpu, ZerosInfinitiesAndNan) { check_special(); }

TEST_F(QuantizeOnTheCpu, LongRowsAndManyRowsAreSharedByBlocks) {
  Matmul matmul(options);
  check(matmul, DType::bf16, DType::e4m3, 1, 20000, 0, false);  // 3 blocks across
  check(matmul, DType::f32, DType::e4m3, 530000, 1, 0, false);  // more than 65535 x 8 rows
}

TEST_F(QuantizeOnTheCpu, WhatNoMatrixHasIsRefused) {
  Matmul matmul(options);
  std::vector<std::byte> memory(8192);
  std::vector<float> scales(64);
  const Quantization good{.rows = 4,
                          .columns = 200,
                          .matrix = memory.data(),
                          .ld = 200,
                          .numbers = memory.data() + 4096,
                          .ld_numbers = 200,
                          .scales = scales.data(),
                          .ld_scales = 2};
  matmul.quantize(good);
  const auto refusal = [&](auto change) {
    Quantization asked = good;
    change(asked);
    try {
      matmul.quantize(asked);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal([](Quantization& q) { q.from = DType::i8; }), HasSubstr("f32, f16 and bf16"));
  EXPECT_THAT(refusal([](Quantization& q) { q.to = DType::i8; }), HasSubstr("e4m3 and e5m2"));
  EXPECT_THAT(refusal([](Quantization& q) { q.rows = -1; }), HasSubstr("not -1 x 200"));
  EXPECT_THAT(refusal([](Quantization& q) { q.ld = 199; }), HasSubstr("is 199, shorter"));
  EXPECT_THAT(refusal([](Quantization& q) { q.ld_scales = 1; }), HasSubstr("scales is 1"));
  EXPECT_THAT(refusal([](Quantization& q) { q.k_first = true; }), HasSubstr("a row of 4"));
  EXPECT_THAT(refusal([](Quantization& q) { q.scales = nullptr; }), HasSubstr("null pointer"));
  EXPECT_THAT(refusal([&](Quantization& q) { q.matrix = memory.data() + 1; }),
              HasSubstr("off by 1"));
  EXPECT_THAT(refusal([&](Quantization& q) { q.numbers = memory.data() + 1000; }),
              HasSubstr("numbers may share memory with the matrix"));
  EXPECT_THAT(refusal([](Quantization& q) { q.ld = std::int64_t{1} << 62; }),
              HasSubstr("passes the address space"));
}

TEST_F(QuantizeOnTheCpu, IsCapturedOnceItsKernelIsLoaded) {
  Matmul matmul(options);
  const std::vector<float> x = {2, -896, 0, 5};
  std::vector<unsigned char> numbers(4, 0xff);
  float scale = -1;
  const Stream stream = device->create_stream();
  const Quantization asked{.from = DType::f32,
                           .rows = 1,
                           .columns = 4,
                           .matrix = x.data(),
                           .ld = 4,
                           .numbers = numbers.data(),
                           .ld_numbers = 4,
                           .scales = &scale,
                           .ld_scales = 1,
                           .stream = stream};
  const auto quantize = [&] { matmul.quantize(asked); };
  try {
    device->capture(stream, quantize);
    ADD_FAILURE() << "captured without its kernel";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("quantize once before the capture"));
  }
  quantize();
  device->synchronize(stream);
  const auto graph = device->capture(stream, quantize);
  scale = -1;
  graph->launch(stream);
  device->synchronize(stream);
  EXPECT_EQ(scale, 2);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(to_double(DType::e4m3, &numbers[i]), double{x[i]} / 2);
  device->destroy_stream(stream);
}

TEST_F(QuantizeOnTheCpu, IsServedInC) {
  tilewise_options given = TILEWISE_OPTIONS_INIT;
  const std::string database = options.database;
  given.database = database.c_str();
  given.device = "host:sm_90a";
  tilewise_matmul* matmul = nullptr;
  ASSERT_EQ(tilewise_create(&given, &matmul), TILEWISE_OK) << tilewise_last_error();
  const std::vector<float> x = {1, -448, 0.5F, 3};
  std::vector<unsigned char> numbers(4);
  float scale = 0;
  tilewise_quantization asked = TILEWISE_QUANTIZATION_INIT;
  asked.from = TILEWISE_F32;
  asked.rows = 1, asked.columns = 4;
  asked.matrix = x.data(), asked.ld = 4;
  asked.numbers = numbers.data(), asked.ld_numbers = 4;
  asked.scales = &scale, asked.ld_scales = 1;
  ASSERT_EQ(tilewise_quantize(matmul, &asked), TILEWISE_OK) << tilewise_last_error();
  EXPECT_EQ(scale, 1);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(to_double(DType::e4m3, &numbers[i]), double{x[i]});
  asked.k_first = 2;
  EXPECT_EQ(tilewise_quantize(matmul, &asked), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("neither 0 nor 1"));
  EXPECT_EQ(tilewise_quantize(matmul, nullptr), TILEWISE_INVALID_ARGUMENT);
  tilewise_destroy(matmul);
}

}  // namespace
}  // namespace tilewise::quantize_host_test
