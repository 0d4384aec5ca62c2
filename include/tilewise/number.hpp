#pragma once
#include <cstdint>

#include "tilewise/dtype.hpp"

/// Numbers of every DType as a CPU holds them: 16- and 8-bit floating-point types are their bits in
/// an integer of that size, little-endian as on every GPU. All functions are thread-safe and throw
/// nothing.
namespace tilewise {

/// The value stored at `from`, exactly. Needs no alignment.
double to_double(DType type, const void* from);

/// Stores the number nearest to `value`, ties to even. Beyond the largest finite number: infinity
/// for f64, f32, f16, bf16; the largest finite number for e4m3, e5m2 (for infinity, too) and the
/// integers, as a GPU's conversion with saturation does. NaN stays NaN; in an integer it is 0.
void from_double(DType type, double value, void* to);

/// The same for runs of elements, some 1 ns or less each. Both arrays are aligned to their elements
/// and apart from each other. From and to float: rounded to nearest where float is the narrower
/// (f64, i32), else exact as double is.
void widen(DType type, const void* from, std::int64_t count, double* to);
void widen(DType type, const void* from, std::int64_t count, float* to);
void narrow(DType type, const double* from, std::int64_t count, void* to);
void narrow(DType type, const float* from, std::int64_t count, void* to);

/// The smallest number above 0: below it values are lost, and next to it errors are absolute.
/// Integers: 1.
double smallest_of(DType type);

}  // namespace tilewise
