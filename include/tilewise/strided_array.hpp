#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <array>
#include <cstdint>

#include "tilewise/export.h"

/// Which elements of memory an array covers. All functions are thread-safe and do not throw.
namespace tilewise {

/// An array in memory. The element with the indices i has the address data + element_bytes * (i[0]
/// * dims[0].stride + i[1] * dims[1].stride + ...).
struct StridedArray {
  static constexpr int kMostDims = 8;
  struct Dim {
    std::int64_t size = 0;    ///< number of indices, from 0
    std::int64_t stride = 0;  ///< in elements; 0 and negative values are allowed
  };

  const void* data = nullptr;
  std::int64_t element_bytes = 1;
  int count = 0;  ///< number of dims in use
  std::array<Dim, kMostDims> dims;

  /// Adds a dimension. A dimension of size 1 has no effect, whatever its stride.
  void add(std::int64_t size, std::int64_t stride) {
    if (size != 1) dims[static_cast<std::size_t>(count++)] = {size, stride};
  }
};

/// Whether two arrays share an element of memory. Takes constant time. The answer is exact for
/// arrays in separate ranges of memory, and for parts of one larger array: parts of the rows of a
/// matrix, blocks of a matrix, slices along any dimension. For other arrays the answer may be true
/// although no element is shared. An array with a dimension of size 0 has no elements.
TILEWISE_API bool share_elements(const StridedArray& x, const StridedArray& y);

/// Whether each combination of indices has its own element. The test is that every stride is longer
/// than the span of all shorter strides; arrays whose elements are distinct without this property
/// give false.
TILEWISE_API bool has_distinct_elements(const StridedArray& x);

}  // namespace tilewise
