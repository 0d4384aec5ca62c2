#pragma once
// Matmul::quantize() against the division of f32, on any device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/matmul/served_checks.hpp"
#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::test {

inline constexpr std::byte kCanary{0x5a};

class Quantizing : public Served {
 protected:
  explicit Quantizing(const std::string& name) : Served(name) {}

  /// Rows of 128 elements, each with one scale, against the division of f32.
  void check_rows(Matmul& matmul, DType to, const std::vector<float>& x) {
    const std::size_t rows = x.size() / 128;
    std::vector<std::byte> numbers(x.size(), kCanary);
    std::vector<float> scales(rows, -1);
    const auto bytes = std::ssize(x), scale_bytes = std::ssize(scales) * 4;
    const DeviceBuffer on_x(*device, bytes * 4), on_numbers(*device, bytes),
        on_scales(*device, scale_bytes);
    device->copy_to_device(on_x.data(), x.data(), bytes * 4, nullptr);
    device->synchronize(nullptr);
    matmul.quantize({.from = DType::f32,
                     .to = to,
                     .rows = std::int64_t(rows),
                     .columns = 128,
                     .matrix = on_x.data(),
                     .ld = 128,
                     .numbers = on_numbers.data(),
                     .ld_numbers = 128,
                     .scales = static_cast<float*>(on_scales.data()),
                     .ld_scales = 1});
    device->copy_to_host(numbers.data(), on_numbers.data(), bytes, nullptr);
    device->copy_to_host(scales.data(), on_scales.data(), scale_bytes, nullptr);
    device->synchronize(nullptr);
    const float largest = to == DType::e4m3 ? 448 : 57344;
    for (std::size_t i = 0; i < rows; ++i) {
      float most = 0;
      for (std::size_t j = 0; j < 128; ++j)
        if (std::fabs(x[i * 128 + j]) > most) most = std::fabs(x[i * 128 + j]);
      const float scale = std::max(most / largest, std::numeric_limits<float>::min());
      ASSERT_EQ(scales[i], scale) << most;
      for (std::size_t j = 0; j < 128; ++j) {
        const float value = x[i * 128 + j];
        std::byte right{};
        from_double(to, double{value / scale}, &right);
        if (std::isnan(value / scale))
          ASSERT_TRUE(std::isnan(to_double(to, &numbers[i * 128 + j]))) << value;
        else
          ASSERT_EQ(numbers[i * 128 + j], right) << std::hexfloat << value << " / " << scale;
      }
    }
  }

  /// Elements whose quotients are next to the middle of two numbers.
  void check_ties() {
    Matmul matmul(options);
    std::mt19937 generator(1);
    for (const DType to : {DType::e4m3, DType::e5m2}) {
      const float largest = to == DType::e4m3 ? 448 : 57344;
      std::vector<float> x;
      for (const int exponent : {-118, -90, -60, -44, -43, -1, 0, 60, 75, 76, 77, 119})
        for (int row = 0; row < 24; ++row) {
          // Scales next to few bits are those whose quotients come nearest to a tie.
          float most = std::ldexp(1.0F + float(generator() >> 9) * 0x1p-23F, exponent);
          if (row % 2 == 0) {
            most = std::ldexp(7 * (1 + float(row) / 24), exponent - 2);
            for (std::size_t steps = generator() % 8; steps > 0; --steps)
              most = std::nextafter(most, 0.0F);
          }
          const float scale = most / largest;
          x.push_back(row % 3 == 0 ? -most : most);
          while (x.size() % 128 != 0) {
            // An odd number of at most five bits, and elements around its product with the scale.
            const float tie = std::ldexp(float(generator() % 16 * 2 + 1), -int(generator() % 17));
            float value = std::min(tie * scale, most);
            for (std::size_t steps = generator() % 4; steps > 0; --steps)
              value = std::nextafter(value, generator() % 2 == 0 ? 0.0F : most);
            x.push_back(generator() % 2 == 0 ? value : -value);
          }
        }
      check_rows(matmul, to, x);
    }
  }

  void check_special() {
    Matmul matmul(options);
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float denormal = std::numeric_limits<float>::denorm_min();
    const float largest = std::numeric_limits<float>::max();
    for (const DType to : {DType::e4m3, DType::e5m2}) {
      std::vector<float> x;
      for (const std::vector<float>& some : std::vector<std::vector<float>>{
               {0.0F, -0.0F},
               {0.0F, -0.0F, nan, -nan},
               {denormal, -denormal, 3 * denormal, -0.0F},
               {0x1p-126F, -0x1p-130F, denormal, -0.0F},
               {1, -0.0F, nan, denormal, -denormal, -0x1p-60F},
               {infinity, -infinity, 1, -1, 0.0F, -0.0F, nan, largest},
               {largest, -largest, 1, -1, -0.0F, -denormal, 0x1p100F, nan, -0x1p116F}})
        for (std::size_t j = 0; j < 128; ++j) x.push_back(some[j % some.size()]);
      check_rows(matmul, to, x);
    }
  }
};

}  // namespace tilewise::test
