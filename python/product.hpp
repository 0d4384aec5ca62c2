#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "tilewise/strided_array.hpp"

namespace tilewise::python {

constexpr int kMostDims = StridedArray::kMostDims;

/// An array of a framework: what a product needs of it. Strides are in elements.
struct View {
  enum class Place : std::uint8_t { host, cuda };

  std::string name;  ///< "a", "b", "out": for messages
  void* data = nullptr;
  DType type = DType::f32;
  int dims = 0;
  std::array<std::int64_t, kMostDims> shape{}, strides{};
  Place place = Place::host;
  int device = 0;  ///< CUDA's index
  bool read_only = false;
};

/// "(2, 3)".
std::string shape_text(const View& view);
/// The shape of the product of a and b: their leading dimensions, broadcast as NumPy does, then m
/// and n. Throws Error(invalid_argument) with both shapes where they do not fit, and for views of
/// fewer than two dimensions.
std::vector<std::int64_t> result_shape(const View& a, const View& b);

/// One matrix as it lies in memory.
struct Stored {
  std::int64_t rows, columns;  ///< as the view has them
  bool transposed;
  std::int64_t leading;  ///< dimension, elements
};
/// Throws Error(invalid_argument) where the view is no matrix, or its strides do not fit.
Stored stored_matrix(const View& view);

/// One product, or batch of products at even distances.
struct Product {
  Problem problem;
  Call call;  ///< without stream, alpha and beta
};
/// out = a b as few products: leading dimensions over which all three have even distances are one,
/// and the longest along which no operand is stored backwards is the batch. An operand or result
/// that is transposed in memory is taken as it lies. Throws Error(invalid_argument) for shapes,
/// types or strides that do not fit, and for an `out` that shares an element with a or b, or may,
/// where `reads` says that a and b are read.
std::vector<Product> products_of(const View& a, const View& b, const View& out, MathMode math,
                                 bool reads);

}  // namespace tilewise::python
