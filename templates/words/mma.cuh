// Words of the kernel dialect for tensor cores: a warp multiplies fragments, small matrices distributed over
// the registers of its lanes (PTX: mma.sync, ldmatrix). Numbers of 16 bits or fewer are integers here.
#pragma once
#include "words/warp.cuh"

#ifdef TILEWISE_HOST
#define TILEWISE_ONE_OF(gpu, host) host
#else
#define TILEWISE_ONE_OF(gpu, host) gpu
#endif

// Conversions round to nearest, ties to even; tf32 before sm_90 rounds ties away from zero. A tf32 is the bits of
// the f32 of the same value. NaN stays NaN.
DEVICE unsigned short f16_of_float(float value) {
#ifdef TILEWISE_HOST
  return tilewise_host::f16_of_float(value);
#else
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#endif
}
DEVICE float float_of_f16(unsigned short half) {
#ifdef TILEWISE_HOST
  return tilewise_host::float_of_f16(half);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#endif
}
DEVICE float float_of_bf16(unsigned short bits) {
  return TILEWISE_ONE_OF(__uint_as_float(unsigned(bits) << 16),
                         tilewise_host::float_of_bits(unsigned(bits) << 16));
}
// The two below are templates so that a kernel for an older GPU may include this header.
template <int ARCH = __CUDA_ARCH__>
DEVICE unsigned short bf16_of_float(float value) {
  static_assert(ARCH >= 800, "bf16 needs sm_80 or later");
#ifdef TILEWISE_HOST
  return tilewise_host::bf16_of_float(value);
#else
  unsigned short bits = 0;
  if constexpr (ARCH >= 800) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
template <int ARCH = __CUDA_ARCH__>
DEVICE unsigned tf32_of_float(float value) {
  static_assert(ARCH >= 800, "tf32 needs sm_80 or later");
#ifdef TILEWISE_HOST
  return tilewise_host::tf32_of_float(value, ARCH >= 900);
#else
  unsigned bits = 0;
  if constexpr (ARCH >= 900)
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));  // one instruction; the other is three
  else if constexpr (ARCH >= 800)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#endif
}

// ldmatrix: loads Count (1, 2 or 4) matrices of 8 rows of 16 bytes from shared memory. Lane 8 j + r gives the
// address of row r of matrix j, aligned to 16 bytes. The addresses of lanes from 8 Count on are not used, but
// sm_75 requires valid ones. In to[j], lane l gets two 16-bit elements of matrix j, the first in the low half:
// 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; Transposed: of column l / 4.
template <int Count, bool Transposed = false>
DEVICE void load_matrices(unsigned (&to)[Count], const void* row, SourceLine at = source_line()) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "1, 2 or 4 matrices are loaded at once");
  static_assert(__CUDA_ARCH__ >= 750, "load_matrices needs sm_75 or later");
#ifdef TILEWISE_HOST
  tilewise_host::load_matrices<Count, Transposed>(to, row, at);
#else
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
#define TILEWISE_LDMATRIX(count, turned, places, source, ...)                                          \
  asm volatile("ldmatrix.sync.aligned.m8n8." count turned ".shared.b16 " places ", [" source "];"      \
               : __VA_ARGS__                                                                           \
               : "r"(from)                                                                             \
               : "memory")
  if constexpr (Count == 1 && !Transposed)
    TILEWISE_LDMATRIX("x1", "", "{%0}", "%1", "=r"(to[0]));
  else if constexpr (Count == 1)
    TILEWISE_LDMATRIX("x1", ".trans", "{%0}", "%1", "=r"(to[0]));
  else if constexpr (Count == 2 && !Transposed)
    TILEWISE_LDMATRIX("x2", "", "{%0, %1}", "%2", "=r"(to[0]), "=r"(to[1]));
  else if constexpr (Count == 2)
    TILEWISE_LDMATRIX("x2", ".trans", "{%0, %1}", "%2", "=r"(to[0]), "=r"(to[1]));
  else if constexpr (!Transposed)
    TILEWISE_LDMATRIX("x4", "", "{%0, %1, %2, %3}", "%4", "=r"(to[0]), "=r"(to[1]), "=r"(to[2]),
                      "=r"(to[3]));
  else
    TILEWISE_LDMATRIX("x4", ".trans", "{%0, %1, %2, %3}", "%4", "=r"(to[0]), "=r"(to[1]),
                      "=r"(to[2]), "=r"(to[3]));
#undef TILEWISE_LDMATRIX
#endif
}

// stmatrix: stores Count (2 or 4) matrices as load_matrices<Count, Transposed>() loads them. sm_90 and later.
template <int Count, bool Transposed, int ARCH = __CUDA_ARCH__>
DEVICE void store_matrices(void* row, const unsigned (&from)[Count], SourceLine at = source_line()) {
  static_assert(Count == 2 || Count == 4, "2 or 4 matrices are stored at once");
  static_assert(ARCH >= 900, "store_matrices needs sm_90 or later");
#ifdef TILEWISE_HOST
  tilewise_host::store_matrices<Count, Transposed>(row, from, at);
#else
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(row));
#define TILEWISE_STMATRIX(count, turned, places, ...) \
  asm volatile("stmatrix.sync.aligned.m8n8." count turned ".shared.b16 [%0], " places ";" ::"r"(to), __VA_ARGS__ : "memory")
  if constexpr (Count == 2 && !Transposed)
    TILEWISE_STMATRIX("x2", "", "{%1, %2}", "r"(from[0]), "r"(from[1]));
  else if constexpr (Count == 2)
    TILEWISE_STMATRIX("x2", ".trans", "{%1, %2}", "r"(from[0]), "r"(from[1]));
  else if constexpr (!Transposed)
    TILEWISE_STMATRIX("x4", "", "{%1, %2, %3, %4}", "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
  else
    TILEWISE_STMATRIX("x4", ".trans", "{%1, %2, %3, %4}", "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
#undef TILEWISE_STMATRIX
#endif
}

// The shape of one instruction: sums (M x N) += A (M x K) x B (K x N). A lane's fragments are A words of A, B words
// of B, of PER_WORD elements each that are neighbours along k, and C sums. SINCE: the lowest __CUDA_ARCH__.
template <int M_, int N_, int K_, int PER_WORD_, int SINCE_, class Word_, class Sum_, class Element_>
struct MmaShape {
  typedef Word_ Word;
  typedef Sum_ Sum;
  typedef Element_ Element;  // the type in which the CPU multiplies
  static constexpr int M = M_, N = N_, K = K_, PER_WORD = PER_WORD_, SINCE = SINCE_;
  static constexpr int A = M * K / 32 / PER_WORD, B = K * N / 32 / PER_WORD, C = M * N / 32;
};

// The position of a lane's word (of its first element; the others follow along k) in the fragment of A or B, and of
// a sum in C: PTX ISA, "Matrix Fragments for mma.m16n8k16" and the like. One formula serves all shapes here. Where
// a GPU only has smaller instructions, several make one of these.
struct FragmentPlace {
  int row, column;
};
template <class Op>
DEVICE FragmentPlace a_place(int lane, int word) {
  return {lane / 4 + word % 2 * 8, (lane % 4 + word / 2 * 4) * Op::PER_WORD};
}
template <class Op>
DEVICE FragmentPlace b_place(int lane, int word) {
  return {(lane % 4 + word * 4) * Op::PER_WORD, lane / 4};
}
template <class Op>
DEVICE FragmentPlace c_place(int lane, int sum) {
  return {lane / 4 + sum / 2 * 8, lane % 4 * 2 + sum % 2};
}

// The instructions with 4, 2 and 1 words, by their operands' text.
#define TILEWISE_MMA(text, sum, a_words, b_words, ...)                                                 \
  asm volatile("mma.sync.aligned." text " " sum ", " a_words ", " b_words ", " sum ";" __VA_ARGS__)
#define TILEWISE_SUMS4(kind) "+" kind(c[0]), "+" kind(c[1]), "+" kind(c[2]), "+" kind(c[3])
#define TILEWISE_FOUR_TWO(text, kind)                                                                  \
  TILEWISE_MMA(text, "{%0, %1, %2, %3}", "{%4, %5, %6, %7}", "{%8, %9}",                                \
               : TILEWISE_SUMS4(kind)                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// The instruction of sm_75: half as deep.
struct MmaF16K8 : MmaShape<16, 8, 8, 2, 750, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) { return tilewise_host::float_of_f16(word >> 16 * e); }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_MMA("m16n8k8.row.col.f32.f16.f16.f32", "{%0, %1, %2, %3}", "{%4, %5}", "{%6}",
                 : TILEWISE_SUMS4("f")
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
#endif
};
struct MmaF16 : MmaShape<16, 8, 16, 2, 750, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) { return tilewise_host::float_of_f16(word >> 16 * e); }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#elif __CUDA_ARCH__ >= 800
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_FOUR_TWO("m16n8k16.row.col.f32.f16.f16.f32", "f");
  }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    MmaF16K8::multiply(c, {a[0], a[1]}, {b[0]});
    MmaF16K8::multiply(c, {a[2], a[3]}, {b[1]});
  }
#endif
};
struct MmaBf16 : MmaShape<16, 8, 16, 2, 800, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) {
    return tilewise_host::float_of_bits(word >> 16 * e << 16);
  }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_FOUR_TWO("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
  }
#endif
};
// The instruction ignores the low 13 bits of each f32: round with tf32_of_float() first.
struct MmaTf32 : MmaShape<16, 8, 8, 1, 800, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int) { return tilewise_host::float_of_bits(word & 0xffffe000u); }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_FOUR_TWO("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
  }
#endif
};
// Sums wrap around.
struct MmaS8 : MmaShape<16, 8, 32, 4, 750, unsigned, int, int> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) { return static_cast<signed char>(word >> 8 * e); }
  static Sum multiply_add(Element x, Element y, Sum sum) {
    return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(x * y));
  }
#elif __CUDA_ARCH__ >= 800
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_FOUR_TWO("m16n8k32.row.col.s32.s8.s8.s32", "r");
  }
#else  // four of 8 x 8 x 16
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    UNROLL_ALL
    for (int part = 0; part < 4; ++part)
      TILEWISE_MMA("m8n8k16.row.col.s32.s8.s8.s32", "{%0, %1}", "{%2}", "{%3}",
                   : "+r"(c[part % 2 * 2]), "+r"(c[part % 2 * 2 + 1])
                   : "r"(a[part]), "r"(b[part / 2]));
  }
#endif
};
struct MmaF64 : MmaShape<16, 8, 8, 1, 800, double, double, double> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int) { return word; }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fma(x, y, sum); }
#elif __CUDA_ARCH__ >= 900
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_MMA("m16n8k8.row.col.f64.f64.f64.f64", "{%0, %1, %2, %3}", "{%4, %5, %6, %7}", "{%8, %9}",
                 : TILEWISE_SUMS4("d")
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
  }
#else  // four of 8 x 8 x 4
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    UNROLL_ALL
    for (int part = 0; part < 4; ++part)
      TILEWISE_MMA("m8n8k4.row.col.f64.f64.f64.f64", "{%0, %1}", "{%2}", "{%3}",
                   : "+d"(c[part % 2 * 2]), "+d"(c[part % 2 * 2 + 1])
                   : "d"(a[part]), "d"(b[part / 2]));
  }
#endif
};
// 8-bit floats on capability 9 to 11, which has no mma.sync for them: the compiler would expand it to conversions, f16
// instructions and an addition. Here each word is converted to f16, which represents every e4m3 and e5m2, and the f16
// instruction accumulates. Each of the two products takes half of k's elements, the same of A and of B, in any order.
#define TILEWISE_WIDENS_FP8 (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
#if !defined(TILEWISE_HOST) && TILEWISE_WIDENS_FP8
struct FourF16 {
  unsigned low, high;
};
template <class Widen>
DEVICE void multiply_as_f16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], const Widen& widen) {
  UNROLL_ALL
  for (int half = 0; half < 2; ++half) {
    const FourF16 upper = widen(a[2 * half]), lower = widen(a[2 * half + 1]), across = widen(b[half]);
    MmaF16::multiply(c, {upper.low, lower.low, upper.high, lower.high}, {across.low, across.high});
  }
}
#define TILEWISE_MULTIPLY_FP8(type)                                                                    \
  multiply_as_f16(c, a, b, [](unsigned word) {                                                         \
    FourF16 four;                                                                                      \
    asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %2;\n"                                           \
        " cvt.rn.f16x2." type "x2 %0, low;\n cvt.rn.f16x2." type "x2 %1, high;}"                       \
        : "=r"(four.low), "=r"(four.high)                                                              \
        : "r"(word));                                                                                  \
    return four;                                                                                       \
  })
#else
#define TILEWISE_MULTIPLY_FP8(type) TILEWISE_FOUR_TWO("m16n8k32.row.col.f32." type "." type ".f32", "f")
#endif
struct MmaE4m3 : MmaShape<16, 8, 32, 4, 890, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) { return tilewise_host::float_of_fp8<3>(word >> 8 * e); }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_MULTIPLY_FP8("e4m3");
  }
#endif
};
struct MmaE5m2 : MmaShape<16, 8, 32, 4, 890, unsigned, float, float> {
#ifdef TILEWISE_HOST
  static Element element(Word word, int e) { return tilewise_host::float_of_fp8<2>(word >> 8 * e); }
  static Sum multiply_add(Element x, Element y, Sum sum) { return __builtin_fmaf(x, y, sum); }
#else
  static DEVICE_MEMBER void multiply(Sum (&c)[C], const Word (&a)[A], const Word (&b)[B]) {
    TILEWISE_MULTIPLY_FP8("e5m2");
  }
#endif
};

#ifdef TILEWISE_HOST
#include "mma_on_cpu.hpp"
#endif

// sums[r][c] += a[r] x b[c] for Rows x Columns instruction tiles. Products are exact. Sums are rounded to nearest in
// the order of k on the CPU, in an order and a way that NVIDIA does not state on a GPU. On the CPU the lanes
// synchronise once for all tiles: several times as fast as tile by tile.
template <class Op, int Rows, int Columns>
DEVICE void multiply_blocks(typename Op::Sum (&sums)[Rows][Columns][Op::C],
                            const typename Op::Word (&a)[Rows][Op::A],
                            const typename Op::Word (&b)[Columns][Op::B],
                            SourceLine at = source_line()) {
  static_assert(__CUDA_ARCH__ >= Op::SINCE, "this GPU lacks this instruction (see Op::SINCE)");
#ifdef TILEWISE_HOST
  tilewise_host::multiply<Op, Rows, Columns>(sums[0][0], a[0], b[0], at);
#else
  UNROLL_ALL
  for (int r = 0; r < Rows; ++r) {
    UNROLL_ALL
    for (int c = 0; c < Columns; ++c) Op::multiply(sums[r][c], a[r], b[c]);
  }
#endif
}

// The same for one tile.
template <class Op>
DEVICE void multiply_fragments(typename Op::Sum (&sums)[Op::C], const typename Op::Word (&a)[Op::A],
                               const typename Op::Word (&b)[Op::B], SourceLine at = source_line()) {
  static_assert(__CUDA_ARCH__ >= Op::SINCE, "this GPU lacks this instruction (see Op::SINCE)");
  TILEWISE_ONE_OF(Op::multiply(sums, a, b),
                  (tilewise_host::multiply<Op, 1, 1>(sums, a, b, at)));
}
