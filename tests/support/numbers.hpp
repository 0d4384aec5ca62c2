#pragma once
// Numbers of all types from the formats' definitions, independent of the kernels' conversions
// (templates/types.cuh).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tilewise/dtype.hpp"

namespace tilewise::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A format of at most 16 bits: sign, exponent, fraction.
struct Format {
  int exponent_bits, fraction_bits;
  bool has_infinity, saturates;
};

inline const Format* format_of(DType type) {
  static constexpr Format f16{5, 10, true, false}, bf16{8, 7, true, false};
  static constexpr Format e4m3{4, 3, false, true}, e5m2{5, 2, true, true};
  switch (type) {
    case DType::f16:
      return &f16;
    case DType::bf16:
      return &bf16;
    case DType::e4m3:
      return &e4m3;
    case DType::e5m2:
      return &e5m2;
    default:
      return nullptr;
  }
}

/// The value of a code without its sign.
inline double magnitude(const Format& f, int code) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int exponent = code >> f.fraction_bits;
  const int fraction = code & ((1 << f.fraction_bits) - 1);
  const bool last = exponent == (1 << f.exponent_bits) - 1;
  if (last && f.has_infinity) return fraction == 0 ? kInfinity : kNaN;
  if (last && fraction == (1 << f.fraction_bits) - 1) return kNaN;
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - f.fraction_bits);
  return std::ldexp((1 << f.fraction_bits) + fraction, exponent - bias - f.fraction_bits);
}

/// All finite magnitudes in ascending order; the index is the code.
inline const std::vector<double>& magnitudes(DType type) {
  static std::vector<double> tables[8];
  std::vector<double>& table = tables[static_cast<int>(type)];
  const Format& f = *format_of(type);
  if (table.empty())
    for (int code = 0; code < 1 << (f.exponent_bits + f.fraction_bits); ++code)
      if (const double value = magnitude(f, code); std::isfinite(value)) table.push_back(value);
  return table;
}

inline int nearest_code(DType type, double value) {
  const Format& f = *format_of(type);
  const std::vector<double>& table = magnitudes(type);
  const int largest = static_cast<int>(table.size()) - 1;
  const int nothing = (1 << (f.exponent_bits + f.fraction_bits)) - 1;
  if (std::isnan(value)) return nothing;
  const auto above = std::lower_bound(table.begin(), table.end(), value);
  if (above == table.end()) {
    // The midpoint between the largest number and the next one without the limit.
    const double middle = table.back() + (table.back() - table[table.size() - 2]) / 2;
    return f.saturates || value < middle ? largest : largest + 1;
  }
  const int code = static_cast<int>(above - table.begin());
  if (*above == value) return code;
  const double up = *above - value, down = value - *(above - 1);
  return up < down || (up == down && code % 2 == 0) ? code : code - 1;
}

template <class T>
inline T load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store_as(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// The exact value of a stored number, as f64.
inline double decode(DType type, const std::byte* from) {
  switch (type) {
    case DType::f32:
      return static_cast<double>(load_as<float>(from));
    case DType::f64:
      return load_as<double>(from);
    case DType::i8:
      return load_as<std::int8_t>(from);
    case DType::i32:
      return load_as<std::int32_t>(from);
    default:
      break;
  }
  const int code = bytes_of(type) == 1 ? load_as<std::uint8_t>(from) : load_as<std::uint16_t>(from);
  const int sign = 1 << (8 * bytes_of(type) - 1);
  const double value = magnitude(*format_of(type), code & (sign - 1));
  return code & sign ? -value : value;
}

/// Stores the nearest number, ties to even. Out of range, f16, bf16 and f32 become infinite; e4m3
/// and e5m2 become the largest finite number, even for infinities; i8 and i32 wrap (`value` is a
/// whole number below 2^62).
inline void encode(DType type, double value, std::byte* to) {
  switch (type) {
    case DType::f32:
      return store_as(to, static_cast<float>(value));
    case DType::f64:
      return store_as(to, value);
    case DType::i8:
      return store_as(to, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
    case DType::i32:
      return store_as(to, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    default:
      break;
  }
  const int sign = std::signbit(value) ? 1 << (8 * bytes_of(type) - 1) : 0;
  const int code = sign | nearest_code(type, std::fabs(value));
  if (bytes_of(type) == 1)
    store_as(to, static_cast<std::uint8_t>(code));
  else
    store_as(to, static_cast<std::uint16_t>(code));
}

/// Half of the smallest number above 0.
inline double half_of_smallest(DType type) {
  return format_of(type) ? magnitudes(type)[1] / 2 : 0x1p-10;
}

}  // namespace tilewise::test
