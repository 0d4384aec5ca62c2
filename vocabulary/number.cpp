#include "tilewise/number.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// One description of the small floating-point formats, and conversions without branches, so that
// loops over them vectorize.

namespace tilewise {
namespace {

/// Number of fraction bits, the exponent's bias, and the codes of the largest finite number,
/// infinity (0: none) and NaN.
template <typename Storage, int Fraction, int Bias, int Largest, int Infinity, int NotANumber>
struct SmallFloat {
  using Stored = Storage;
  static constexpr int kFraction = Fraction, kBias = Bias;
  static constexpr std::uint64_t kLargest = Largest, kInfinity = Infinity, kNaN = NotANumber;
  static constexpr int kSignAt = 8 * sizeof(Stored) - 1;
  static constexpr bool kSaturates = sizeof(Stored) == 1;
};
using F16 = SmallFloat<std::uint16_t, 10, 15, 0x7BFF, 0x7C00, 0x7FFF>;
using Bf16 = SmallFloat<std::uint16_t, 7, 127, 0x7F7F, 0x7F80, 0x7FFF>;
using E4m3 = SmallFloat<std::uint8_t, 3, 7, 0x7E, 0, 0x7F>;
using E5m2 = SmallFloat<std::uint8_t, 2, 15, 0x7B, 0x7C, 0x7F>;

template <typename Stored>
struct Plain {};  // the language's own types
struct Int4 {};   // in the low bits of a byte

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// A subnormal's code counts quanta; a normal's code has a double's fields, shortened.
template <typename Format>
[[gnu::always_inline]] inline double magnitude_of(std::uint64_t code) {
  constexpr double quantum = power_of_two(1 - Format::kBias - Format::kFraction);
  const double quanta = std::bit_cast<double>(code | std::bit_cast<std::uint64_t>(0x1p52)) - 0x1p52;
  const std::uint64_t fields =
      (code << (52 - Format::kFraction)) + (static_cast<std::uint64_t>(1023 - Format::kBias) << 52);
  const bool normal = code >> Format::kFraction != 0;
  return normal ? std::bit_cast<double>(fields) : quanta * quantum;
}

template <typename Format>
[[gnu::always_inline]] inline double widened(Format, typename Format::Stored stored) {
  const std::uint64_t sign = static_cast<std::uint64_t>(stored >> Format::kSignAt) << 63;
  const std::uint64_t code = stored & ((std::uint64_t{1} << Format::kSignAt) - 1);
  double magnitude = magnitude_of<Format>(code);
  magnitude = code > Format::kLargest ? std::numeric_limits<double>::quiet_NaN() : magnitude;
  if constexpr (Format::kInfinity != 0) {
    magnitude = code == Format::kInfinity ? std::numeric_limits<double>::infinity() : magnitude;
  }
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) | sign);
}
template <typename Stored>
[[gnu::always_inline]] inline double widened(Plain<Stored>, Stored stored) {
  return static_cast<double>(stored);
}

// Adding and subtracting 2^52 units in the last place rounds to that unit: to nearest, ties to
// even.
template <typename Format>
[[gnu::always_inline]] inline typename Format::Stored narrowed(Format, double value) {
  constexpr std::uint64_t least_exponent = static_cast<std::uint64_t>(1024 - Format::kBias) << 52;
  constexpr std::uint64_t place = static_cast<std::uint64_t>(52 - Format::kFraction) << 52;
  constexpr double to_quanta = power_of_two(Format::kBias - 1 + Format::kFraction);
  constexpr double beyond =
      2 * power_of_two(static_cast<int>(Format::kLargest >> Format::kFraction) - Format::kBias);
  const std::uint64_t sign = (std::bit_cast<std::uint64_t>(value) >> 63) << Format::kSignAt;
  const double magnitude = std::fabs(value) > beyond ? beyond : std::fabs(value);
  std::uint64_t exponent = std::bit_cast<std::uint64_t>(magnitude) & 0x7FF0000000000000U;
  exponent = exponent < least_exponent ? least_exponent : exponent;
  const double magic = std::bit_cast<double>(exponent + place);
  const double rounded = (magnitude + magic) - magic;
  const std::uint64_t quanta = std::bit_cast<std::uint64_t>(rounded * to_quanta + 0x1p52) & 0xFFFFU;
  const std::uint64_t fields =
      (std::bit_cast<std::uint64_t>(rounded) >> (52 - Format::kFraction)) -
      (static_cast<std::uint64_t>(1023 - Format::kBias) << Format::kFraction);
  const double least_normal = std::bit_cast<double>(least_exponent);
  std::uint64_t code = rounded < least_normal ? quanta : fields;
  code =
      code > Format::kLargest ? (Format::kSaturates ? Format::kLargest : Format::kInfinity) : code;
  code = value != value ? Format::kNaN : code;
  return static_cast<typename Format::Stored>(code | sign);
}
[[gnu::always_inline]] inline double narrowed(Plain<double>, double value) { return value; }
[[gnu::always_inline]] inline float narrowed(Plain<float>, double value) {
  return static_cast<float>(value);
}
template <typename Integer>
[[gnu::always_inline]] inline Integer narrowed(Plain<Integer>, double value) {
  constexpr double least = std::numeric_limits<Integer>::min();
  constexpr double most = std::numeric_limits<Integer>::max();
  const double number = value != value ? 0 : value;
  const double inside = number < least ? least : number > most ? most : number;
  return static_cast<Integer>((inside + 0x1.8p52) - 0x1.8p52);
}

[[gnu::always_inline]] inline double widened(Int4, std::uint8_t stored) {
  return static_cast<double>(((stored & 15) ^ 8) - 8);
}
[[gnu::always_inline]] inline std::uint8_t narrowed(Int4, double value) {
  const double inside = value < -8 ? -8 : (value > 7 ? 7 : value);
  return static_cast<std::uint8_t>(narrowed(Plain<std::int8_t>{}, inside) & 15);
}

// One loop, compiled for several CPU generations.
template <typename Convert, typename From, typename To>
[[gnu::always_inline]] inline void each(Convert convert, const From* from, std::int64_t count,
                                        To* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = convert(from[i]);
}
template <typename Convert, typename From, typename To>
void each_anywhere(Convert convert, const From* from, std::int64_t count, To* to) {
  each(convert, from, count, to);
}
#if defined(__x86_64__)
template <typename Convert, typename From, typename To>
[[gnu::target("avx2")]] void each_avx2(Convert convert, const From* from, std::int64_t count,
                                       To* to) {
  each(convert, from, count, to);
}
template <typename Convert, typename From, typename To>
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")]] void each_avx512(
    Convert convert, const From* from, std::int64_t count, To* to) {
  each(convert, from, count, to);
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2");
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
template <typename Convert, typename From, typename To>
void each_best(Convert convert, const From* from, std::int64_t count, To* to) {
#if defined(__x86_64__)
  if (kHasAvx512) return each_avx512(convert, from, count, to);
  if (kHasAvx2) return each_avx2(convert, from, count, to);
#endif
  each_anywhere(convert, from, count, to);
}

template <typename Format, typename Wide>
struct Widen {
  template <typename Stored>
  [[gnu::always_inline]] Wide operator()(Stored stored) const {
    return static_cast<Wide>(widened(Format{}, stored));
  }
};
template <typename Format>
struct Narrow {
  template <typename Wide>
  [[gnu::always_inline]] auto operator()(Wide value) const {
    return narrowed(Format{}, static_cast<double>(value));
  }
};

// Calls use(format, pointer to a stored element) with the type's format.
template <typename Use>
void with_format(DType type, const Use& use) {
  switch (type) {
    case DType::f32:
      return use(Plain<float>{}, static_cast<float*>(nullptr));
    case DType::f64:
      return use(Plain<double>{}, static_cast<double*>(nullptr));
    case DType::f16:
      return use(F16{}, static_cast<std::uint16_t*>(nullptr));
    case DType::bf16:
      return use(Bf16{}, static_cast<std::uint16_t*>(nullptr));
    case DType::i8:
      return use(Plain<std::int8_t>{}, static_cast<std::int8_t*>(nullptr));
    case DType::i32:
      return use(Plain<std::int32_t>{}, static_cast<std::int32_t*>(nullptr));
    case DType::e4m3:
      return use(E4m3{}, static_cast<std::uint8_t*>(nullptr));
    case DType::e5m2:
      return use(E5m2{}, static_cast<std::uint8_t*>(nullptr));
    case DType::i4:
      return use(Int4{}, static_cast<std::uint8_t*>(nullptr));
  }
}

template <typename Wide>
void widen_int4(const std::uint8_t* from, std::int64_t count, Wide* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<Wide>(
        widened(Int4{}, static_cast<std::uint8_t>(from[i / 2] >> (i % 2 == 0 ? 0 : 4))));
}
template <typename Wide>
void narrow_int4(const Wide* from, std::int64_t count, std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; i += 2) {
    const std::uint8_t low = narrowed(Int4{}, static_cast<double>(from[i]));
    const int high = i + 1 < count ? narrowed(Int4{}, static_cast<double>(from[i + 1])) : 0;
    to[i / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

template <typename Wide>
void widen_run(DType type, const void* from, std::int64_t count, Wide* to) {
  if (type == DType::i4) return widen_int4(static_cast<const std::uint8_t*>(from), count, to);
  with_format(type, [&]<typename Format, typename Stored>(Format, Stored*) {
    each_best(Widen<Format, Wide>{}, static_cast<const Stored*>(from), count, to);
  });
}
template <typename Wide>
void narrow_run(DType type, const Wide* from, std::int64_t count, void* to) {
  if (type == DType::i4) return narrow_int4(from, count, static_cast<std::uint8_t*>(to));
  with_format(type, [&]<typename Format, typename Stored>(Format, Stored*) {
    each_best(Narrow<Format>{}, from, count, static_cast<Stored*>(to));
  });
}

}  // namespace

double to_double(DType type, const void* from) {
  double value = 0;
  with_format(type, [&]<typename Format, typename Stored>(Format format, Stored*) {
    Stored stored{};
    std::memcpy(&stored, from, sizeof stored);
    value = widened(format, stored);
  });
  return value;
}

void from_double(DType type, double value, void* to) {
  with_format(type, [&]<typename Format, typename Stored>(Format format, Stored*) {
    const Stored stored = narrowed(format, value);
    std::memcpy(to, &stored, sizeof stored);
  });
}

void widen(DType type, const void* from, std::int64_t count, double* to) {
  widen_run(type, from, count, to);
}
void widen(DType type, const void* from, std::int64_t count, float* to) {
  widen_run(type, from, count, to);
}
void narrow(DType type, const double* from, std::int64_t count, void* to) {
  narrow_run(type, from, count, to);
}
void narrow(DType type, const float* from, std::int64_t count, void* to) {
  narrow_run(type, from, count, to);
}

double smallest_of(DType type) {
  if (type == DType::f64) return std::numeric_limits<double>::denorm_min();
  if (type == DType::f32) return 0x1p-149;
  if (is_integer(type)) return 1;
  const std::uint16_t one = 1;
  return to_double(type, &one);
}

}  // namespace tilewise
