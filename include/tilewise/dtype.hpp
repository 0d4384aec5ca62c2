#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilewise/export.h"

namespace tilewise {

/// Element types. i32 is a result and an accumulator only. e4m3 and e5m2 are the 8-bit
/// floating-point types of OCP; e4m3 has no infinities. i4, of B only, has 4 bits (-8 to 7, two's
/// complement): of the two numbers in a byte the low bits are the first. Never rename or reorder
/// the types: on-disk names are those of dtype_info(), and kernels are compiled with these numbers
/// (templates/words/types.cuh).
enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, i32, e4m3, e5m2, i4 };
inline constexpr std::size_t kDTypes = 9;

/// The arithmetic of products. Only the caller chooses it.
///
/// `strict`: multiplies the operands' own values and sums in the accumulator's type. In f32 and f64
/// each multiply-add is rounded once, as IEEE's fused multiply-add is. i8 is exact. Products of 16
/// and 8 bits are exact in f32, but tensor cores truncate their sums (ProductKind::sum_roundoff).
///
/// `tf32`: f32 operands are first rounded to 11 bits of precision.
///
/// `f32x3`: splits each f32 operand into a large and a small tf32 part and sums three products of
/// these parts. The accuracy is about f32's, on tensor cores.
///
/// `fast`: e4m3 and e5m2 only. The sums over all of k may be the tensor cores' own, which keep
/// about 14 bits on Hopper. With `strict`, sums of 128 products are added in f32.
///
/// `emulated`: f64 and f32. A product may be computed by 8-bit integers (f64), where each element's
/// error is at most sqrt(k) 2^-53 |A| |B| + 2^-53 |C|, or by three products of 16-bit floats (f32),
/// where it is at most error_bound() |A| |B|. The GPU checks in every call what depends on the
/// operands; else the product is that of `strict` (docs/emulation.md).
enum class MathMode : std::uint8_t { strict, tf32, f32x3, fast, emulated };

/// One row of the table of types, dtypes().
struct DTypeInfo {
  DType type;
  std::string_view name;
  int bits;
  double unit_roundoff;  ///< u: half the distance from 1 to the next number above it; integers 0
  double largest;        ///< the largest finite number
};

TILEWISE_API const DTypeInfo& dtype_info(DType type);
TILEWISE_API std::string_view to_string(DType type);
TILEWISE_API std::string_view to_string(MathMode mode);
TILEWISE_API std::span<const DTypeInfo> dtypes();

/// Parses a name. Throws Error(invalid_argument) for any other name; the message lists all names.
TILEWISE_API DType parse_dtype(std::string_view name);
TILEWISE_API MathMode parse_math_mode(std::string_view name);

constexpr int bits_of(DType type) {
  constexpr std::array<std::uint8_t, kDTypes> kBits{32, 64, 16, 16, 8,
                                                    32, 8,  8,  4};  // read by each call
  return kBits.at(static_cast<std::size_t>(type));
}
/// Bytes of one element, rounded up.
constexpr int bytes_of(DType type) { return (bits_of(type) + 7) / 8; }
/// Bytes of `elements` contiguous elements, rounded up. Overflows only where the result does.
constexpr std::int64_t bytes_of(DType type, std::int64_t elements) {
  const int bits = bits_of(type);
  if (bits % 8 == 0) return elements * (bits / 8);
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
}
inline bool is_integer(DType type) {
  return type == DType::i8 || type == DType::i32 || type == DType::i4;
}
inline bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

/// One row of product_kinds(): a supported combination of types and mode, and its accuracy. B has
/// A's type, or is narrower (weights): i4, i8 or e4m3 beside an A of f16 or bf16, whose products
/// are exact. docs/measuring.md derives the bounds.
struct ProductKind {
  DType a, b, c, accumulator;
  MathMode math;
  /// Relative error of one addition: f64 2^-53, f32 2^-24, on tensor cores (which truncate) 2^-23,
  /// fp8 2^-13 (Hopper keeps about 14 bits of a sum), integers 0.
  double sum_roundoff;
  /// Relative error of one product of two elements before it is added. 0 if products are exact,
  /// tf32 2 x 2^-11, f32x3 about 3 x 2^-22 (the small parts are rounded, and their product is
  /// omitted), and so is that of emulated f32.
  double product_roundoff;
  /// The number of products in one partial sum. Partial sums are added in the accumulator's own
  /// arithmetic. 0: one sum over all of k.
  double promoted_every = 0;
};

/// All kinds. The first kind of each type of A is its default.
TILEWISE_API std::span<const ProductKind> product_kinds();
/// The kind with these types and this mode; null if there is none.
TILEWISE_API const ProductKind* find_product_kind(DType a, DType b, DType c, MathMode math);
/// The same for A and B of one type.
TILEWISE_API const ProductKind* find_product_kind(DType operand, DType c, MathMode math);
/// The usual type of C: the operand's own, i32 for i8, f32 for fp8.
TILEWISE_API DType default_result(DType operand);
TILEWISE_API DType accumulator_of(DType operand);

}  // namespace tilewise
