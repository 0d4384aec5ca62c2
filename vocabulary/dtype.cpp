#include "tilewise/dtype.hpp"

#include <algorithm>
#include <array>

#include "vocabulary/enum_names.hpp"

namespace tilewise {
namespace {

// One row per type, in the order of the enum.
constexpr std::array kTypes{
    DTypeInfo{DType::f32, "f32", 32, 0x1p-24, 0x1.fffffep127},
    DTypeInfo{DType::f64, "f64", 64, 0x1p-53, 0x1.fffffffffffffp1023},
    DTypeInfo{DType::f16, "f16", 16, 0x1p-11, 65504},
    DTypeInfo{DType::bf16, "bf16", 16, 0x1p-8, 0x1.fep127},
    DTypeInfo{DType::i8, "i8", 8, 0, 127},
    DTypeInfo{DType::i32, "i32", 32, 0, 2147483647},
    DTypeInfo{DType::e4m3, "e4m3", 8, 0x1p-4, 448},
    DTypeInfo{DType::e5m2, "e5m2", 8, 0x1p-3, 57344},
    DTypeInfo{DType::i4, "i4", 4, 0, 7},
};

static_assert(kTypes.size() == kDTypes);
static_assert(std::all_of(kTypes.begin(), kTypes.end(),
                          [](const DTypeInfo& row) { return row.bits == bits_of(row.type); }));

constexpr std::array<std::string_view, 5> kMathModes{"strict", "tf32", "f32x3", "fast", "emulated"};

constexpr double kTensorSum = 0x1p-23, kFp8Sum = 0x1p-13, kFp8Chunk = 128;
constexpr auto strict = MathMode::strict;

constexpr std::array kProducts{
    ProductKind{DType::f32, DType::f32, DType::f32, DType::f32, strict, 0x1p-24, 0},
    ProductKind{DType::f32, DType::f32, DType::f32, DType::f32, MathMode::tf32, kTensorSum,
                0x1p-10},
    ProductKind{DType::f32, DType::f32, DType::f32, DType::f32, MathMode::f32x3, kTensorSum,
                0x3p-22},
    ProductKind{DType::f32, DType::f32, DType::f32, DType::f32, MathMode::emulated, kTensorSum,
                0x3p-22},
    ProductKind{DType::f64, DType::f64, DType::f64, DType::f64, strict, 0x1p-53, 0},
    ProductKind{DType::f64, DType::f64, DType::f64, DType::f64, MathMode::emulated, 0x1p-53, 0},
    ProductKind{DType::f16, DType::f16, DType::f16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::f16, DType::f16, DType::f32, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::bf16, DType::bf16, DType::bf16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::bf16, DType::bf16, DType::f32, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::bf16, DType::i4, DType::bf16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::bf16, DType::i8, DType::bf16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::bf16, DType::e4m3, DType::bf16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::f16, DType::i4, DType::f16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::f16, DType::i8, DType::f16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::f16, DType::e4m3, DType::f16, DType::f32, strict, kTensorSum, 0},
    ProductKind{DType::i8, DType::i8, DType::i32, DType::i32, strict, 0, 0},
    ProductKind{DType::e4m3, DType::e4m3, DType::f32, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e4m3, DType::e4m3, DType::f16, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e4m3, DType::e4m3, DType::bf16, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e4m3, DType::e4m3, DType::e4m3, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e5m2, DType::e5m2, DType::f32, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e5m2, DType::e5m2, DType::f16, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e5m2, DType::e5m2, DType::bf16, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e5m2, DType::e5m2, DType::e5m2, DType::f32, strict, kFp8Sum, 0, kFp8Chunk},
    ProductKind{DType::e4m3, DType::e4m3, DType::f32, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e4m3, DType::e4m3, DType::f16, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e4m3, DType::e4m3, DType::bf16, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e4m3, DType::e4m3, DType::e4m3, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e5m2, DType::e5m2, DType::f32, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e5m2, DType::e5m2, DType::f16, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e5m2, DType::e5m2, DType::bf16, DType::f32, MathMode::fast, kFp8Sum, 0},
    ProductKind{DType::e5m2, DType::e5m2, DType::e5m2, DType::f32, MathMode::fast, kFp8Sum, 0},
};

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kTypes.at(static_cast<std::size_t>(type)); }

std::span<const DTypeInfo> dtypes() { return kTypes; }

std::string_view to_string(DType type) { return dtype_info(type).name; }

std::string_view to_string(MathMode mode) { return kMathModes.at(static_cast<std::size_t>(mode)); }

DType parse_dtype(std::string_view name) { return parse_named<DType>(name, "type"); }

MathMode parse_math_mode(std::string_view name) { return parse_named<MathMode>(name, "math mode"); }

std::span<const ProductKind> product_kinds() { return kProducts; }

const ProductKind* find_product_kind(DType a, DType b, DType c, MathMode math) {
  for (const ProductKind& row : kProducts) {
    if (row.a == a && row.b == b && row.c == c && row.math == math) return &row;
  }
  return nullptr;
}

const ProductKind* find_product_kind(DType operand, DType c, MathMode math) {
  return find_product_kind(operand, operand, c, math);
}

DType default_result(DType operand) {
  for (const ProductKind& row : kProducts) {
    if (row.a == operand) return row.c;
  }
  return operand;
}

DType accumulator_of(DType operand) {
  for (const ProductKind& row : kProducts) {
    if (row.a == operand) return row.accumulator;
  }
  return operand;
}

}  // namespace tilewise
