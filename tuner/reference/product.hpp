#pragma once
#include <cstdint>
#include <functional>

namespace tilewise {

/// A matrix of f32 or f64, read as op(X): element (i, j) is data[i * ld + j], or data[j * ld + i]
/// when transposed.
struct MatrixView {
  const float* f32 = nullptr;
  const double* f64 = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;

  static MatrixView of(const float* data, std::int64_t ld, bool transposed = false) {
    return {data, nullptr, ld, transposed};
  }
  static MatrixView of(const double* data, std::int64_t ld, bool transposed = false) {
    return {nullptr, data, ld, transposed};
  }
  double at(std::int64_t i, std::int64_t j) const {
    const std::int64_t place = transposed ? j * ld + i : i * ld + j;
    return f32 ? static_cast<double>(f32[place]) : f64[place];
  }
};

/// A finished block of a product: element (i, j) of the block, at values[i * ld + j], belongs to
/// (row + i, column + j) of the product.
struct ProductBlock {
  std::int64_t row, column, rows, columns;
  const double* values;
  std::int64_t ld;
};
using BlockSink = std::function<void(const ProductBlock&)>;

/// A B and |A| |B| in f64, A m x k and B k x n, on `threads` threads (0 = all cores). Each block of
/// a result is passed to its sink once, from any thread; a product with an empty sink is not
/// computed. The order of summation depends only on k, so results do not depend on the number of
/// threads.
void product(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
             const MatrixView& b, const BlockSink& plain, const BlockSink& absolute,
             int threads = 0);

}  // namespace tilewise
