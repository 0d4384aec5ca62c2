// Words of the kernel dialect for weights: numbers of 4 or 8 bits become pairs of f16 or bf16. These represent each of them
// exactly. Only ordinary integer instructions and exact arithmetic of pairs are used.
#pragma once
#include "words/types.cuh"

// Four bytes of eight: nibble i of `selector` is the number of byte i of the result; bytes 0 to 3 are those of x, 4 to 7
// those of y.
DEVICE unsigned choose_bytes(unsigned x, unsigned y, unsigned selector) {
#ifdef TILEWISE_HOST
  const UInt64 bytes = UInt64(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
#else
  return __byte_perm(x, y, selector);
#endif
}

// (x & mask) ^ flipped, in one instruction: the compiler makes two of constants.
DEVICE unsigned masked_flipped(unsigned x, unsigned mask, unsigned flipped) {
#ifdef TILEWISE_HOST
  return (x & mask) ^ flipped;
#else
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(x), "r"(mask), "r"(flipped));
  return result;
#endif
}

// Pairs of 16-bit floats, the first in the low half. x - y and x * y of each.
template <int TYPE>
struct Pairs;
#ifdef TILEWISE_HOST
template <int TYPE, class Of>
unsigned pair_of(unsigned x, unsigned y, const Of& of) {
  typedef Number<TYPE> Half;
  const auto half = [&](int shift) {
    typedef typename Half::Stored Stored;
    return unsigned(Half::narrow(of(Half::widen(Stored(x >> shift)), Half::widen(Stored(y >> shift))))) << shift;
  };
  return half(0) | half(16);
}
#define TILEWISE_PAIRS(type, subtract_text, multiply_text)                                                      \
  static unsigned subtract(unsigned x, unsigned y) {                                                            \
    return pair_of<type>(x, y, [](float of_x, float of_y) { return of_x - of_y; });                             \
  }                                                                                                             \
  static unsigned multiply(unsigned x, unsigned y) {                                                            \
    return pair_of<type>(x, y, [](float of_x, float of_y) { return of_x * of_y; });                             \
  }
#else
#define TILEWISE_PAIRS(type, subtract_text, multiply_text)                                                      \
  static DEVICE_MEMBER unsigned subtract(unsigned x, unsigned y) {                                              \
    unsigned result;                                                                                            \
    asm(subtract_text : "=r"(result) : "r"(x), "r"(y));                                                         \
    return result;                                                                                              \
  }                                                                                                             \
  static DEVICE_MEMBER unsigned multiply(unsigned x, unsigned y) {                                              \
    unsigned result;                                                                                            \
    asm(multiply_text : "=r"(result) : "r"(x), "r"(y));                                                         \
    return result;                                                                                              \
  }
#endif
template <>
struct Pairs<TYPE_F16> {
  TILEWISE_PAIRS(TYPE_F16, "sub.f16x2 %0, %1, %2;", "mul.f16x2 %0, %1, %2;")
};
// sm_80 has only the fused instruction: x + y (-1), and x y + (-0).
template <>
struct Pairs<TYPE_BF16> {
  TILEWISE_PAIRS(TYPE_BF16, "{.reg .b32 c;\n mov.b32 c, 0xbf80bf80;\n fma.rn.bf16x2 %0, %2, c, %1;}",
                 "{.reg .b32 c;\n mov.b32 c, 0x80008000;\n fma.rn.bf16x2 %0, %1, %2, c;}")
};

// A number of TYPE (TYPE_F16 or TYPE_BF16) twice.
template <int TYPE>
DEVICE unsigned pair_of_number(float number) {
  return unsigned(Number<TYPE>::narrow(number)) * 0x10001u;
}

// The numbers of TYPE in a word, the first in its lowest bits. They are PAIRS pairs. pair() returns pair `nth` as TO (TYPE_F16
// or TYPE_BF16); pair_apart() numbers nth and nth + APART, or where APART is 1 the same. A NaN becomes some number, and sets
// bits of `not_a_number`, which is never cleared.
//
// ZEROS: numbers less a zero point from -128 to 127. taken: taken_of(zero point), else NOTHING.
template <int TYPE, int TO, bool ZEROS>
struct Narrow;

// The number's bits beside an exponent, with the sign bit flipped: a power of two, + 8, + the number. That power is the least
// one whose units the type has, 2^10 (f16) or 2^7 (bf16). With zero points the sum of bf16 must not pass 256: 2^4, for which
// the number lies three bits higher.
template <int TO, bool ZEROS>
struct Narrow<TYPE_I4, TO, ZEROS> {
  static constexpr int PAIRS = 4, APART = 4, HIGHER = ZEROS && TO == TYPE_BF16 ? 3 : 0;
  static constexpr unsigned FLIPPED = TO == TYPE_F16 ? 0x64086408 : (HIGHER ? 0x41c041c0 : 0x43084308), NOTHING = FLIPPED;
  static DEVICE_MEMBER unsigned taken_of(float zero) {
    return pair_of_number<TO>((TO == TYPE_F16 ? 1032.0f : (HIGHER ? 24.0f : 136.0f)) + zero);  //@ narrow-taken
  }
  static DEVICE_MEMBER unsigned pair(unsigned word, int nth, unsigned&, unsigned taken) {
    const unsigned byte = choose_bytes(word, 0, 0x4440u + unsigned(nth));  //@ narrow-nibbles
    return number_of(byte * (0x1001u << HIGHER), taken);  // its second number from bit 16 + HIGHER on
  }
  static DEVICE_MEMBER unsigned pair_apart(unsigned word, int nth, unsigned&, unsigned taken) {
    return number_of(4 * nth < HIGHER ? word << HIGHER : word >> (4 * nth - HIGHER), taken);
  }

 private:
  static DEVICE_MEMBER unsigned number_of(unsigned word, unsigned taken) {
    return Pairs<TO>::subtract(masked_flipped(word, 0x000f000fu << HIGHER, FLIPPED), taken);  //@ narrow-four-bits
  }
};
template <bool ZEROS>
struct Narrow<TYPE_I8, TYPE_F16, ZEROS> {
  static constexpr int PAIRS = 2, APART = 1;
  static constexpr unsigned NOTHING = 0x64806480;  // 1152: 2^10 and 128
  static DEVICE_MEMBER unsigned taken_of(float zero) { return pair_of_number<TYPE_F16>(1152.0f + zero); }
  static DEVICE_MEMBER unsigned pair_apart(unsigned word, int nth, unsigned& nan, unsigned taken) { return pair(word, nth, nan, taken); }
  static DEVICE_MEMBER unsigned pair(unsigned word, int nth, unsigned&, unsigned taken) {
    const unsigned flipped = word ^ 0x80808080;  // 128 + the number
    return Pairs<TYPE_F16>::subtract(choose_bytes(flipped, 0x64646464, nth == 1 ? 0x4342 : 0x4140), taken);
  }
};
// bf16 has 8 bits: 128 + the number's low seven fit, and are 128 or, of negative numbers, 256 too large.
template <bool ZEROS>
struct Narrow<TYPE_I8, TYPE_BF16, ZEROS> {
  static constexpr int PAIRS = 2, APART = 1;
  static constexpr unsigned NOTHING = 0;
  static DEVICE_MEMBER unsigned taken_of(float zero) { return pair_of_number<TYPE_BF16>(zero); }
  static DEVICE_MEMBER unsigned pair_apart(unsigned word, int nth, unsigned& nan, unsigned taken) { return pair(word, nth, nan, taken); }
  static DEVICE_MEMBER unsigned pair(unsigned word, int nth, unsigned&, [[maybe_unused]] unsigned taken) {
    const unsigned both = choose_bytes(word, 0x43434343, nth == 1 ? 0x4342 : 0x4140);
    const unsigned number = Pairs<TYPE_BF16>::subtract(both & 0xff7fff7f, both & 0xff80ff80);  //@ narrow-sign
    return ZEROS ? Pairs<TYPE_BF16>::subtract(number, taken) : number;
  }
};
// The bits of e4m3 as those of a number of the wider type, which is too small by a power of two.
template <int TO>
struct Narrow<TYPE_E4M3, TO, false> {
  static constexpr int PAIRS = 2, APART = 1;
  static constexpr unsigned NOTHING = 0;
  static DEVICE_MEMBER unsigned pair_apart(unsigned word, int nth, unsigned& nan, unsigned taken) { return pair(word, nth, nan, taken); }
  static DEVICE_MEMBER unsigned pair(unsigned word, int nth, unsigned& not_a_number, unsigned) {
    constexpr int SHIFT = TO == TYPE_BF16 ? 4 : 1;
    constexpr unsigned MAGNITUDE = 0x7f007f00u >> SHIFT, POWER = TO == TYPE_BF16 ? 0x7b807b80 : 0x5c005c00;  // 2^120, 2^8
    not_a_number |= ((word & 0x7f7f7f7f) + 0x01010101) & 0x80808080;  //@ narrow-nan
    const unsigned high = choose_bytes(word, 0, nth == 1 ? 0x3424 : 0x1404);
    return Pairs<TO>::multiply((high & 0x80008000) | (high >> SHIFT & MAGNITUDE), POWER);
  }
};
