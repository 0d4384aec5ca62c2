#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilewise {

/// Element types. On-disk names are those of dtype_info(), and kernels are compiled for these
/// numbers (templates/types.cuh): never rename or reorder. i32 is a result and an accumulator only.
/// e4m3 and e5m2 are the 8-bit floating-point types of OCP (e4m3 without infinities).
enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, i32, e4m3, e5m2 };

/// How products may be computed; a caller chooses, never anyone else.
/// `strict`: the operands' own values are multiplied and summed in the accumulator's type. f32,
/// f64: every product and sum rounded as IEEE fused multiply-add does. i8: exact. 16 and 8 bits:
/// products are exact in f32, but tensor cores truncate sums (see ProductKind::sum_roundoff).
/// `tf32`: f32 operands are first rounded to 11 bits of precision.
/// `f32x3`: each f32 operand is split into a large and a small tf32 part, and three products of
/// parts are summed: about f32's accuracy on tensor cores.
enum class MathMode : std::uint8_t { strict, tf32, f32x3 };

/// One row of the table of types.
struct DTypeInfo {
  DType type;
  std::string_view name;
  int bytes;
  double unit_roundoff;  ///< u: half the distance from 1 to the next number above it; integers 0
  double largest;        ///< the largest finite number
};

const DTypeInfo& dtype_info(DType type);
std::string_view to_string(DType type);
std::string_view to_string(MathMode mode);
std::span<const DTypeInfo> dtypes();

/// Parse a name. Throws Error(invalid_argument) that lists the names there are.
DType parse_dtype(std::string_view name);
MathMode parse_math_mode(std::string_view name);

inline int bytes_of(DType type) { return dtype_info(type).bytes; }
inline bool is_integer(DType type) { return type == DType::i8 || type == DType::i32; }
inline bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

/// One row of the table of products: types that go together, and how exact they are. A and B have
/// one type. The bounds are those of docs/measuring.md.
struct ProductKind {
  DType operand, c, accumulator;
  MathMode math;
  /// Relative error of one sum as it is done: f64 2^-53, f32 2^-24, on tensor cores (which
  /// truncate) 2^-23, fp8 2^-13 (Hopper keeps about 14 bits of a sum), integers 0.
  double sum_roundoff;
  /// Relative error of what takes part in a product instead of |a b|: 0 where products are exact,
  /// tf32 2 x 2^-11, f32x3 about 3 x 2^-22 (the product of the small parts is left out, and they
  /// are rounded).
  double product_roundoff;
  /// Of k: sums over so many are added up in the accumulator's own arithmetic; 0: sum_roundoff
  /// counts throughout.
  double promoted_every = 0;
};

/// Every kind, the first of an operand's type being its default.
std::span<const ProductKind> product_kinds();
/// The kind of these types and this mode, or null.
const ProductKind* find_product_kind(DType operand, DType c, MathMode math);
/// C's type when none is asked for: the operand's own, i32 for i8, f32 for fp8.
DType default_result(DType operand);
DType accumulator_of(DType operand);

}  // namespace tilewise
