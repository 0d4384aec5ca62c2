// Words of the kernel dialect for the arithmetic of an epilogue (vocabulary/epilogue.hpp), which templates/plan/pointwise.cpp
// writes with them. Each operator is rounded to nearest by itself: the compiler contracts no multiplication and addition, so
// that every kernel gives equal bits. On the CPU results are those of evaluate(). On a GPU exp, log, tanh and erf are
// CUDA's, at most 2 units in the last place from the exact value (CUDA C++ Programming Guide, "Mathematical Functions").
#pragma once
#include "words/types.cuh"

// An epilogue computes in f64 where C is f64, else in f32.
#if RESULT == TYPE_F64
typedef double PointwiseNumber;
#else
typedef float PointwiseNumber;
#endif
constexpr int kPointwiseType = RESULT == TYPE_F64 ? TYPE_F64 : TYPE_F32;

#ifdef TILEWISE_HOST
#define TILEWISE_FUNCTION(on_cpu, on_gpu) on_cpu
#else
#define TILEWISE_FUNCTION(on_cpu, on_gpu) on_gpu
#endif

// A result of an epilogue as it is stored: floats are rounded to nearest; integers too, saturated, and NaN becomes 0.
template <int TYPE>
DEVICE typename Number<TYPE>::Stored narrow_pointwise(PointwiseNumber value) {
  if constexpr (TYPE == TYPE_I32 || TYPE == TYPE_I8) {
    constexpr PointwiseNumber END = TYPE == TYPE_I32 ? 0x1p31 : 0x1p7;  // the first number that is too large
    constexpr int LARGEST = TYPE == TYPE_I32 ? 0x7fffffff : 0x7f;
    const PointwiseNumber whole = TILEWISE_FUNCTION(__builtin_nearbyint(value), rint(value));
    const int number = whole >= END ? LARGEST : (whole < -END ? -LARGEST - 1 : (whole != whole ? 0 : int(whole)));
    return static_cast<typename Number<TYPE>::Stored>(number);
  } else {
    return Number<TYPE>::narrow(value);
  }
}

// The operators and functions of T that the hardware or CUDA's library has. `rn`: the letter of T in CUDA's operators that
// round to nearest; `s`: the suffix of a function of T in C.
template <class T>
struct Basic;
#define TILEWISE_OPERATOR(T, name, sign, on_gpu) \
  static DEVICE_MEMBER T name(T x, T y) { return TILEWISE_FUNCTION(x sign y, on_gpu(x, y)); }
#define TILEWISE_CALL(T, name, on_cpu, on_gpu) \
  static DEVICE_MEMBER T name(T x) { return TILEWISE_FUNCTION(on_cpu(x), on_gpu(x)); }
#define TILEWISE_BASIC(T, rn, s)                                         \
  template <>                                                            \
  struct Basic<T> {                                                      \
    TILEWISE_OPERATOR(T, add, +, __##rn##add_rn)                         \
    TILEWISE_OPERATOR(T, subtract, -, __##rn##sub_rn)                    \
    TILEWISE_OPERATOR(T, multiply, *, __##rn##mul_rn)                    \
    TILEWISE_OPERATOR(T, divide, /, __##rn##div_rn)                      \
    TILEWISE_CALL(T, square_root, __builtin_sqrt##s, __##rn##sqrt_rn)    \
    TILEWISE_CALL(T, absolute, __builtin_fabs##s, fabs##s)               \
    TILEWISE_CALL(T, exponential, __builtin_exp##s, exp##s)              \
    TILEWISE_CALL(T, logarithm, __builtin_log##s, log##s)                \
    TILEWISE_CALL(T, hyperbolic_tangent, __builtin_tanh##s, tanh##s)     \
    TILEWISE_CALL(T, error_function, __builtin_erf##s, erf##s)           \
  };
TILEWISE_BASIC(float, f, f)
TILEWISE_BASIC(double, d, )

// 1 / (1 + exp(-x)). In f32 on a GPU by the special function unit, in four instructions: ex2.approx and rcp.approx, with
// results below the normal numbers as 0, are off by 2^-22 and by a unit in the last place (PTX ISA), and the argument of
// ex2 is off by |x| roundings at most.
template <class T>
DEVICE T logistic(T x) {
  typedef Basic<T> B;
  return B::divide(T(1), B::add(T(1), B::exponential(-x)));
}
// The normal distribution's function, (1 + erf(x / sqrt(2))) / 2. In f32 on a GPU, for x < 0, t P(t) exp(-x^2 / 2) with
// t = 1 / (1 + 0.3 |x|) and P of degree 7, which is off by 1.5e-7 relatively (fitted with equal weights from 0 to 14), all in
// all by at most 2^-21 absolutely; 1 - that of -x for others.
template <class T>
DEVICE T normal(T x) {
  typedef Basic<T> B;
  return B::multiply(T(0.5), B::add(T(1), B::error_function(B::multiply(x, T(0.70710678118654752)))));  // sqrt(1 / 2)
}
#ifndef TILEWISE_HOST
DEVICE float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE float logistic(float x) {
  return fast_reciprocal(__fadd_rn(1, fast_exp2(__fmul_rn(x, -0x1.715476p+0f))));  // -log2(e)
}
DEVICE float normal(float x) {
  const float t = fast_reciprocal(__fmaf_rn(0.3f, fabsf(x), 1));
  float p = 0x1.2441f4p-5f;
  p = __fmaf_rn(p, t, -0x1.41f652p-3f);
  p = __fmaf_rn(p, t, 0x1.a6a134p-3f);
  p = __fmaf_rn(p, t, -0x1.b7d76ep-5f);
  p = __fmaf_rn(p, t, 0x1.074d84p-3f);
  p = __fmaf_rn(p, t, 0x1.993d9p-4f);
  p = __fmaf_rn(p, t, 0x1.ee9beap-4f);
  p = __fmaf_rn(p, t, 0x1.ea0066p-4f);
  const float below = __fmul_rn(__fmul_rn(t, p), fast_exp2(__fmul_rn(__fmul_rn(x, x), -0x1.715476p-1f)));
  return x < 0 ? below : __fsub_rn(1, below);
}
#endif

// Also of -0.
DEVICE bool is_negative(float x) { return bits_of(x) >> 31; }
DEVICE bool is_negative(double x) {
  UInt64 bits;
  copy_bits(bits, x);
  return bits >> 63;
}

// The operators and functions of an epilogue, by the names of EpilogueOp.
template <class T>
struct Functions : Basic<T> {
  typedef Basic<T> B;
  static DEVICE_MEMBER T negate(T x) { return -x; }
  // Keeps NaN; -0 is less than 0, so that the order of the arguments changes no bit.
  static DEVICE_MEMBER T minimum(T x, T y) {
    if (x != x || y != y) return B::add(x, y);
    return x < y || (x == y && is_negative(x)) ? x : y;
  }
  static DEVICE_MEMBER T maximum(T x, T y) { return -minimum(-x, -y); }
  static DEVICE_MEMBER bool less(T x, T y) { return x < y; }
  static DEVICE_MEMBER bool less_or_equal(T x, T y) { return x <= y; }
  static DEVICE_MEMBER bool equal(T x, T y) { return x == y; }
  static DEVICE_MEMBER bool not_equal(T x, T y) { return x != y; }
  static DEVICE_MEMBER T where(bool condition, T x, T y) { return condition ? x : y; }
  static DEVICE_MEMBER T reciprocal_root(T x) { return B::divide(T(1), B::square_root(x)); }
  static DEVICE_MEMBER T sigmoid(T x) { return logistic(x); }
  static DEVICE_MEMBER T silu(T x) { return B::multiply(x, logistic(x)); }
  static DEVICE_MEMBER T relu(T x) { return x < T(0) ? T(0) : x; }
  static DEVICE_MEMBER T gelu(T x) { return B::multiply(x, normal(x)); }
  // x (1 + tanh(y)) / 2 is x / (1 + exp(-2 y)), which loses no digits where tanh(y) is near -1.
  static DEVICE_MEMBER T gelu_tanh(T x) {
    const T slope = B::add(T(1.5957691216057308), B::multiply(T(0.07135481627260025), B::multiply(x, x)));  // 2 sqrt(2 / pi)
    return B::multiply(x, logistic(B::multiply(x, slope)));
  }
};
