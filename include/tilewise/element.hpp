#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>

#include "tilewise/dtype.hpp"

namespace tilewise {

/// Elements of 16 and 8 bits, for programs without CUDA's headers. Each holds the bits of the CUDA
/// type of the same name (__half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2), so a pointer to one
/// may be cast to the other. number.hpp converts them on the CPU.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
struct e4m3 {
  std::uint8_t bits;
};
struct e5m2 {
  std::uint8_t bits;
};

/// The DType of a C++ type, and the type of alpha and beta of its products. A program can add its
/// own type that holds the same bits:
///   template <> struct tilewise::ElementType<__half> : tilewise::ElementType<tilewise::f16> {};
template <class T>
struct ElementType;

template <DType TYPE, class SCALAR>
struct ElementTypeIs {
  static constexpr DType value = TYPE;
  using Scalar = SCALAR;
};
template <>
struct ElementType<float> : ElementTypeIs<DType::f32, float> {};
template <>
struct ElementType<double> : ElementTypeIs<DType::f64, double> {};
template <>
struct ElementType<f16> : ElementTypeIs<DType::f16, float> {};
template <>
struct ElementType<bf16> : ElementTypeIs<DType::bf16, float> {};
template <>
struct ElementType<std::int8_t> : ElementTypeIs<DType::i8, std::int32_t> {};
template <>
struct ElementType<std::int32_t> : ElementTypeIs<DType::i32, std::int32_t> {};
template <>
struct ElementType<e4m3> : ElementTypeIs<DType::e4m3, float> {};
template <>
struct ElementType<e5m2> : ElementTypeIs<DType::e5m2, float> {};

template <class T>
concept Element = requires {
  ElementType<T>::value;
};

/// The type of alpha and beta of products of T, which is the accumulator's type.
template <Element T>
using ScalarOf = typename ElementType<T>::Scalar;

}  // namespace tilewise
