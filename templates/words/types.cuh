// The types of a product: ELEMENT (of A), ELEMENT_B (of B; default: ELEMENT), RESULT (of C) and SUM (of the accumulator) are macros with DType's
// numbers (tilewise/dtype.hpp). The default is f32.
//
// Stored is the type in memory: 16- and 8-bit floats are integers. Wide is the type of arithmetic and of the
// accumulator: it represents each Stored exactly. narrow() rounds to nearest, ties to even. Out of range, f16 and bf16
// become infinite, e4m3 and e5m2 (infinities too) the largest finite number; NaN stays NaN. Integers wrap.
#pragma once
#include "words/dialect.cuh"

#define TYPE_F32 0
#define TYPE_F64 1
#define TYPE_F16 2
#define TYPE_BF16 3
#define TYPE_I8 4
#define TYPE_I32 5
#define TYPE_E4M3 6
#define TYPE_E5M2 7
#define TYPE_I4 8

#ifndef ELEMENT
#define ELEMENT TYPE_F32
#endif
#ifndef ELEMENT_B
#define ELEMENT_B ELEMENT
#endif
#ifndef RESULT
#define RESULT TYPE_F32
#endif
#ifndef SUM
#define SUM TYPE_F32
#endif

DEVICE unsigned bits_of(float value) {
  unsigned bits;
  copy_bits(bits, value);
  return bits;
}
DEVICE float float_of(unsigned bits) {
  float value;
  copy_bits(value, bits);
  return value;
}

// Conversions of a float of fewer bits by integer arithmetic, where no instruction converts it. INFINITIES: the largest
// exponent encodes infinity and NaN; else it is an ordinary exponent, and all ones is NaN (e4m3). SATURATES: out of
// range becomes the largest finite number, not infinity.
template <int EXPONENT, int FRACTION, bool INFINITIES, bool SATURATES>
struct SmallFloat {
  static constexpr int BIAS = (1 << (EXPONENT - 1)) - 1, SHIFT = 23 - FRACTION;
  static constexpr unsigned SIGN = 1u << (EXPONENT + FRACTION), ONES = SIGN - 1;
  static constexpr unsigned INFINITE = ((1u << EXPONENT) - 1) << FRACTION;
  static constexpr unsigned LARGEST = INFINITIES ? INFINITE - 1 : ONES - 1;

  static DEVICE_MEMBER float widen(unsigned bits) {
    const unsigned rest = bits & ONES, sign = bits & SIGN ? 0x80000000u : 0;
    if (INFINITIES ? rest >= INFINITE : rest == ONES) return float_of(sign | 0x7f800000u | rest << SHIFT);
    // The product moves the exponent to f32's bias, and makes subnormal numbers normal.
    const float scale = float_of((254u - BIAS) << 23);
    return float_of(sign | bits_of(float_of(rest << SHIFT) * scale));
  }
  static DEVICE_MEMBER unsigned narrow(float value) {
    const unsigned bits = bits_of(value), rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return ONES;
    unsigned rounded;
    if (BIAS != 127 && rest < (128u - BIAS) << 23) {
      // Subnormal: the last bit of this sum is worth the smallest subnormal number, so that the addition rounds.
      const unsigned large = (151u - BIAS - FRACTION) << 23;
      rounded = bits_of(float_of(rest) + float_of(large)) - large;
    } else {
      const unsigned to_even = (1u << (SHIFT - 1)) - 1 + (rest >> SHIFT & 1u);
      rounded = ((rest + to_even) >> SHIFT) - ((127u - BIAS) << FRACTION);
    }
    if (rounded > LARGEST) rounded = SATURATES ? LARGEST : INFINITE;
    return (bits & 0x80000000u ? SIGN : 0) | rounded;
  }
};

template <int TYPE>
struct Number;

// A type that is computed in as it is stored.
template <class T>
struct PlainNumber {
  typedef T Stored;
  typedef T Wide;
  static DEVICE_MEMBER Wide widen(Stored value) { return value; }
  static DEVICE_MEMBER Stored narrow(Wide value) { return value; }
};
template <>
struct Number<TYPE_F32> : PlainNumber<float> {};
template <>
struct Number<TYPE_F64> : PlainNumber<double> {};
template <>
struct Number<TYPE_I32> : PlainNumber<int> {};

template <>
struct Number<TYPE_I8> {
  typedef signed char Stored;
  typedef int Wide;
  static DEVICE_MEMBER Wide widen(Stored value) { return value; }
  static DEVICE_MEMBER Stored narrow(Wide value) { return static_cast<Stored>(value); }
};

template <>
struct Number<TYPE_F16> {
  typedef unsigned short Stored;
  typedef float Wide;
#ifdef TILEWISE_HOST
  typedef SmallFloat<5, 10, true, false> Bits;
  static Wide widen(Stored bits) { return Bits::widen(bits); }
  static Stored narrow(Wide value) { return static_cast<Stored>(Bits::narrow(value)); }
#else
  static DEVICE_MEMBER Wide widen(Stored bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  static DEVICE_MEMBER Stored narrow(Wide value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#endif
};

template <>
struct Number<TYPE_BF16> {
  typedef unsigned short Stored;
  typedef float Wide;
  static DEVICE_MEMBER Wide widen(Stored bits) { return float_of(unsigned(bits) << 16); }
  static DEVICE_MEMBER Stored narrow(Wide value) {
#if defined(TILEWISE_HOST) || __CUDA_ARCH__ < 800
    return static_cast<Stored>(SmallFloat<8, 7, true, false>::narrow(value));
#else
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#endif
  }
};

// The instructions convert two numbers at a time; the second operand is the low byte. narrow_four: of four
// neighbours, the first one low.
#if defined(TILEWISE_HOST) || __CUDA_ARCH__ < 890
#define TILEWISE_FP8(name, exponent, fraction, infinities)                                             \
  typedef SmallFloat<exponent, fraction, infinities, true> Bits;                                       \
  static DEVICE_MEMBER Wide widen(Stored bits) { return Bits::widen(bits); }                           \
  static DEVICE_MEMBER Stored narrow(Wide value) { return static_cast<Stored>(Bits::narrow(value)); }  \
  static DEVICE_MEMBER unsigned narrow_four(const Wide* values) {                                      \
    return Bits::narrow(values[0]) | Bits::narrow(values[1]) << 8 | Bits::narrow(values[2]) << 16 |    \
           Bits::narrow(values[3]) << 24;                                                              \
  }
#else
#define TILEWISE_FP8(name, exponent, fraction, infinities)                                             \
  static DEVICE_MEMBER Wide widen(Stored bits) {                                                       \
    unsigned halves;                                                                                   \
    asm("cvt.rn.f16x2." name "x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(bits)));    \
    return Number<TYPE_F16>::widen(static_cast<unsigned short>(halves));                               \
  }                                                                                                    \
  static DEVICE_MEMBER Stored narrow(Wide value) {                                                     \
    unsigned short bits;                                                                               \
    asm("cvt.rn.satfinite." name "x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(value));           \
    return static_cast<Stored>(bits);                                                                  \
  }                                                                                                    \
  static DEVICE_MEMBER unsigned narrow_four(const Wide* values) {                                      \
    unsigned bits;                                                                                     \
    asm("{\n.reg .b16 low, high;\n"                                                                    \
        "cvt.rn.satfinite." name "x2.f32 low, %2, %1;\n"                                               \
        "cvt.rn.satfinite." name "x2.f32 high, %4, %3;\n"                                              \
        "mov.b32 %0, {low, high};\n}"                                                                  \
        : "=r"(bits)                                                                                   \
        : "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]));                             \
    return bits;                                                                                       \
  }
#endif

template <>
struct Number<TYPE_E4M3> {
  typedef unsigned char Stored;
  typedef float Wide;
  TILEWISE_FP8("e4m3", 4, 3, false)
};
template <>
struct Number<TYPE_E5M2> {
  typedef unsigned char Stored;
  typedef float Wide;
  TILEWISE_FP8("e5m2", 5, 2, true)
};

// Two in a byte; nothing is computed in one of them.
template <>
struct Number<TYPE_I4> {
  typedef unsigned char Stored;
  typedef int Wide;
  // nth: 0 the low bits, 1 the high ones.
  static DEVICE_MEMBER Wide widen(Stored both, int nth) { return ((both >> 4 * nth & 15) ^ 8) - 8; }  //@ types-nibble
};

typedef Number<ELEMENT>::Stored Element;
typedef Number<ELEMENT_B>::Stored ElementB;
typedef Number<RESULT>::Stored Result;
typedef Number<SUM>::Stored Sum;

DEVICE Sum widen(Element value) { return Number<ELEMENT>::widen(value); }
// Elements of B in an ElementB, and the nth element from `b` on.
constexpr int kPerElementB = ELEMENT_B == TYPE_I4 ? 2 : 1;
DEVICE Sum nth_of_b(const ElementB* b, Int64 nth) {
#if ELEMENT_B == TYPE_I4
  return Sum(Number<TYPE_I4>::widen(b[nth / 2], int(nth % 2)));
#else
  return Sum(Number<ELEMENT_B>::widen(b[nth]));
#endif
}

// Arithmetic of sums; multiply_add of floats is in dialect.cuh.
DEVICE double multiply_add(double x, double y, double sum) {
#ifdef TILEWISE_HOST
  return __builtin_fma(x, y, sum);
#else
  return __fma_rn(x, y, sum);
#endif
}
DEVICE int multiply_add(int x, int y, int sum) {
  return static_cast<int>(static_cast<unsigned>(x) * static_cast<unsigned>(y) + static_cast<unsigned>(sum));
}
DEVICE float add(float x, float y) { return x + y; }
DEVICE double add(double x, double y) { return x + y; }
DEVICE int add(int x, int y) { return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y)); }

// The type that moves BYTES in one access.
template <int BYTES>
struct Carrier;
template <>
struct Carrier<1> {
  typedef unsigned char Type;
};
template <>
struct Carrier<2> {
  typedef unsigned short Type;
};
template <>
struct Carrier<4> {
  typedef float Type;
};
template <>
struct Carrier<8> {
  typedef float2 Type;
};
template <>
struct Carrier<16> {
  typedef float4 Type;
};

// COUNT neighbouring values, 1 to 16 bytes in all, at an address aligned to that size, in one access.
template <int COUNT, class T>
DEVICE void load_vector(T (&to)[COUNT], const T* from) {
  typedef typename Carrier<COUNT * int(sizeof(T))>::Type Carried;
  const Carried carried = *reinterpret_cast<const Carried*>(from);
  copy_bits(to, carried);
}
// As load_vector, for data that is read once: the caches evict it first.
template <int COUNT, class T>
DEVICE void load_vector_evict_first(T (&to)[COUNT], const T* from) {
#ifdef TILEWISE_HOST
  load_vector<COUNT>(to, from);
#else
  typedef typename Carrier<COUNT * int(sizeof(T))>::Type Carried;
  const Carried carried = __ldcs(reinterpret_cast<const Carried*>(from));
  copy_bits(to, carried);
#endif
}
template <int COUNT, class T>
DEVICE void store_vector(T* to, const T (&from)[COUNT]) {
  typedef typename Carrier<COUNT * int(sizeof(T))>::Type Carried;
  Carried carried;
  copy_bits(carried, from);
  *reinterpret_cast<Carried*>(to) = carried;
}

// Elements `begin` to end - 1 of COUNT values: one access where these are all, else one by one. Memory of the others is
// not accessed; they are loaded as zeros.
template <int COUNT, class T>
DEVICE void load_part(T (&to)[COUNT], const T* from, int begin, int end) {
  if (begin <= 0 && end >= COUNT) {
    load_vector<COUNT>(to, from);
  } else {
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) to[e] = e >= begin && e < end ? from[e] : T(0);
  }
}
template <int COUNT, class T>
DEVICE void store_part(T* to, const T (&from)[COUNT], int begin, int end) {
  if (begin <= 0 && end >= COUNT) {
    store_vector<COUNT>(to, from);
  } else {
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e)
      if (e >= begin && e < end) to[e] = from[e];
  }
}
