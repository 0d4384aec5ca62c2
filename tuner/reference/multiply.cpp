#include "tuner/reference.hpp"
#include "tuner/reference/product.hpp"

namespace tilewise {

void reference_multiply(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
                        const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                        double beta, float* c, std::int64_t ldc, int threads) {
  const auto update = [=](const ProductBlock& block) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const double* from = block.values + i * block.ld;
      float* to = c + (block.row + i) * ldc + block.column;
      for (std::int64_t j = 0; j < block.columns; ++j) {
        const double old = beta == 0 ? 0 : beta * double{to[j]};  // beta = 0 forgets a NaN in C
        const double sum = alpha == 0 ? 0 : alpha * from[j];
        to[j] = static_cast<float>(sum + old);
      }
    }
  };
  product(m, n, alpha == 0 ? 0 : k, MatrixView::of(a, lda, a_transposed(layout)),
          MatrixView::of(b, ldb, b_transposed(layout)), update, {}, threads);
}

}  // namespace tilewise
