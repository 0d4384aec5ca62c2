// Words of the kernel dialect for integer arithmetic: products of bytes, high words, the bits of f64, and a maximum that
// all blocks share.
#pragma once
#include "words/dialect.cuh"

// sum + the four products of the bytes of x and y, all unsigned.
DEVICE unsigned dot_bytes(unsigned x, unsigned y, unsigned sum) {
#ifdef TILEWISE_HOST
  for (int byte = 0; byte < 4; ++byte) sum += (x >> 8 * byte & 255) * (y >> 8 * byte & 255);
  return sum;
#else
  return __dp4a(x, y, sum);
#endif
}
// The high 32 bits of x y.
DEVICE unsigned high_product(unsigned x, unsigned y) {
#ifdef TILEWISE_HOST
  return static_cast<unsigned>(static_cast<UInt64>(x) * y >> 32);
#else
  return __umulhi(x, y);
#endif
}

// The high 32 bits of an f64: sign, exponent, 20 bits of the fraction.
DEVICE unsigned high_bits_of(double value) {
  UInt64 bits;
  copy_bits(bits, value);
  return static_cast<unsigned>(bits >> 32);
}
DEVICE unsigned low_bits_of(double value) {
  UInt64 bits;
  copy_bits(bits, value);
  return static_cast<unsigned>(bits);
}
// 2^exponent, of a normal number.
DEVICE double f64_power_of_2(int exponent) {
  const UInt64 bits = static_cast<UInt64>(exponent + 1023) << 52;
  double value;
  copy_bits(value, bits);
  return value;
}
// Rounded to nearest, ties to even, of a number whose integer has 64 bits.
DEVICE Int64 nearest_integer(double value) {
#ifdef TILEWISE_HOST
  return __builtin_llrint(value);
#else
  return __double2ll_rn(value);
#endif
}
DEVICE double nearest_whole(double value) {
#ifdef TILEWISE_HOST
  return __builtin_nearbyint(value);
#else
  return rint(value);
#endif
}

// The number at `at` becomes the larger one of itself and `value`. Any block may call it at any time.
DEVICE void raise_to(int* at, int value) {
#ifdef TILEWISE_HOST
  int old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#else
  atomicMax(at, value);
#endif
}

// Adds 1 to a number that other launches may add to at the same time.
DEVICE void add_one(unsigned long long* at) {
#ifdef TILEWISE_HOST
  __atomic_fetch_add(at, 1ull, __ATOMIC_RELAXED);
#else
  atomicAdd(at, 1ull);
#endif
}

// The number at `at`, which other blocks may raise meanwhile.
DEVICE int raised_so_far(const int* at) {
#ifdef TILEWISE_HOST
  return __atomic_load_n(at, __ATOMIC_RELAXED);
#else
  return *const_cast<const volatile int*>(at);
#endif
}

// Byte `nth` of a word as an integer from -128 to 127, which the byte is 128 more than.
DEVICE double f64_of_byte(unsigned word, int nth) {
#ifdef TILEWISE_HOST
  return double(int(word >> 8 * nth & 255) - 128);
#else
  // 2^52 + byte, without a conversion: these are slow.
  const double sum = __hiloint2double(0x43300000, static_cast<int>(__byte_perm(word, 0, 0x4440 + nth)));
  return sum - (0x1p52 + 128);
#endif
}

// Constants that threads index: a table at namespace scope.
#ifdef TILEWISE_HOST
#define CONSTANTS static constexpr
#else
#define CONSTANTS static __constant__ constexpr
#endif
