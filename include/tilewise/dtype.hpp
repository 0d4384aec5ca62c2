#pragma once
#include <cstdint>
#include <string_view>

namespace tilewise {

/// Element types. On-disk names are those of dtype_info(): never rename one.
enum class DType : std::uint8_t { f32 };

/// How products may be computed. `strict`: in the operands' own type, every product and sum rounded
/// as IEEE fused multiply-add does; no tensor-core shortcuts.
enum class MathMode : std::uint8_t { strict };

/// One row of the table of types.
struct DTypeInfo {
  DType type;
  std::string_view name;
  int bytes;
  double unit_roundoff;  ///< u: half the distance from 1 to the next number above it
};

const DTypeInfo& dtype_info(DType type);
std::string_view to_string(DType type);
std::string_view to_string(MathMode mode);

/// Parse a name. Throws Error(invalid_argument) that lists the names there are.
DType parse_dtype(std::string_view name);
MathMode parse_math_mode(std::string_view name);

inline int bytes_of(DType type) { return dtype_info(type).bytes; }

}  // namespace tilewise
