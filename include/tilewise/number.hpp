#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>

#include "tilewise/dtype.hpp"
#include "tilewise/export.h"

/// Conversion of numbers of every DType on the CPU. Of i4 two are in a byte, the first in the low
/// bits; the conversions of one number use these, and narrow() clears the bits behind the last. A
/// 16- or 8-bit floating-point number is represented by its bits in an integer of that size,
/// little-endian as on every GPU. All functions are thread-safe and do not throw.
namespace tilewise {

/// The exact value stored at `from`, which may be unaligned.
TILEWISE_API double to_double(DType type, const void* from);

/// Stores the number nearest to `value`, ties to even. A value beyond the largest finite number
/// becomes infinity in f64, f32, f16 and bf16. In e4m3, e5m2 and the integers it becomes the
/// largest finite number, as in a GPU's conversion with saturation, and so does infinity. NaN stays
/// NaN; in an integer it becomes 0.
TILEWISE_API void from_double(DType type, double value, void* to);

/// The same for `count` elements, at about 1 ns each or less. Both arrays must be aligned to their
/// elements and must not overlap. The forms with float round to nearest if float is the narrower
/// type (f64, i32); otherwise they are as exact as those with double.
TILEWISE_API void widen(DType type, const void* from, std::int64_t count, double* to);
TILEWISE_API void widen(DType type, const void* from, std::int64_t count, float* to);
TILEWISE_API void narrow(DType type, const double* from, std::int64_t count, void* to);
TILEWISE_API void narrow(DType type, const float* from, std::int64_t count, void* to);

/// The smallest number above 0, including subnormal numbers. Integers: 1.
TILEWISE_API double smallest_of(DType type);

}  // namespace tilewise
