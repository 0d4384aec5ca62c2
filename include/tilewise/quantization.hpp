#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>

#include "tilewise/call.hpp"
#include "tilewise/dtype.hpp"

namespace tilewise {

/// The rows of a matrix as 8-bit floats with a scale for each 128 neighbours of a row, as
/// `acc(a[i,k/128])` multiplies them (Epilogue). A scale is the largest magnitude of its block over
/// the largest number of `to`, at least 2^-126; an element is its number times the scale, rounded
/// to nearest. NaN counts in no magnitude and stays NaN. An infinite element makes its scale
/// infinite, and itself NaN; the finite ones of its block become 0. Sizes are in elements. All
/// pointers are device memory, and no two of the three matrices may share any. Kernels are compiled
/// when they are first needed: before a capture, quantize once.
struct Quantization {
  DType from = DType::bf16;  ///< f32, f16 or bf16
  DType to = DType::e4m3;    ///< e4m3 or e5m2
  std::int64_t rows = 0, columns = 0;
  const void* matrix = nullptr;  ///< rows x columns, row-major
  std::int64_t ld = 0;           ///< its leading dimension
  void* numbers = nullptr;       ///< rows x columns of `to`
  std::int64_t ld_numbers = 0;
  float* scales = nullptr;  ///< rows x ceil(columns / 128), with `k_first` the transpose
  std::int64_t ld_scales = 0;
  bool k_first = false;
  Stream stream = nullptr;
};

}  // namespace tilewise
