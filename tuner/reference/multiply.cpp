#include <vector>

#include "tilewise/number.hpp"
#include "tuner/reference/product.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

void reference_multiply(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
                        const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                        double beta, float* c, std::int64_t ldc, int threads) {
  const auto update = [=](const ProductBlock& block) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const double* from = block.values + i * block.ld;
      float* to = c + (block.row + i) * ldc + block.column;
      for (std::int64_t j = 0; j < block.columns; ++j) {
        const double old = beta == 0 ? 0 : beta * double{to[j]};  // beta = 0 ignores a NaN in C
        const double sum = alpha == 0 ? 0 : alpha * from[j];
        to[j] = static_cast<float>(sum + old);
      }
    }
  };
  product(m, n, alpha == 0 ? 0 : k, MatrixView::of(a, lda, a_transposed(layout)),
          MatrixView::of(b, ldb, b_transposed(layout)), update, {}, threads);
}

namespace {

// One matrix of an operand, widened, rows tightly packed.
template <typename Wide>
std::vector<Wide> widened(DType type, const void* from, std::int64_t rows, std::int64_t columns,
                          std::int64_t ld, int threads) {
  std::vector<Wide> values(static_cast<std::size_t>(rows * columns));
  parallel_for(rows, threads, [&](std::int64_t row, int) {
    widen(type, static_cast<const std::byte*>(from) + bytes_of(type, row * ld), columns,
          values.data() + row * columns);
  });
  return values;
}

const void* matrix_of(const void* first, std::int64_t matrix, std::int64_t stride, DType type) {
  return static_cast<const std::byte*>(first) + bytes_of(type, matrix * stride);
}

// Updates C with a block of A B.
struct Update {
  const Problem& problem;
  double alpha, beta;
  std::byte* c;
  std::int64_t ldc;

  void operator()(const ProductBlock& block) const {
    const std::int64_t bytes = bytes_of(problem.c.type);
    std::vector<double> row(static_cast<std::size_t>(block.columns));
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const double* from = block.values + i * block.ld;
      std::byte* to = c + ((block.row + i) * ldc + block.column) * bytes;
      if (beta != 0) widen(problem.c.type, to, block.columns, row.data());  // 0 ignores a NaN in C
      for (std::size_t j = 0; j < row.size(); ++j) {
        const double old = beta == 0 ? 0 : beta * row[j];
        row[j] = (alpha == 0 ? 0 : alpha * from[j]) + old;
      }
      narrow(problem.c.type, row.data(), block.columns, to);
    }
  }
};

template <typename Wide>
void multiply_one(const Problem& of_batch, const Call& call, std::int64_t matrix, int threads) {
  Problem problem = of_batch;
  std::int64_t first_row = 0, first_step = 0;
  const auto of = [matrix](std::int64_t matrices) { return matrices == 1 ? 0 : matrix; };
  if (is_grouped(of_batch)) {
    const RowRange range = row_ranges(of_batch, call.group_rows)[static_cast<std::size_t>(matrix)];
    const bool by_depth = of_batch.grouping == Grouping::depth;
    (by_depth ? first_step : first_row) = range.begin;
    (by_depth ? problem.k : problem.m) = range.end - range.begin;
  }
  const bool reads = call.alpha != 0 && problem.k > 0;
  const auto operand = [&](const void* first, std::int64_t nth, std::int64_t stride, DType type,
                           std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    return widened<Wide>(type, matrix_of(first, nth, stride, type), reads ? rows : 0, columns, ld,
                         threads);
  };
  const std::vector<Wide> a = operand(
      matrix_of(matrix_of(call.a, first_row, problem.a.transposed ? 1 : call.lda, problem.a.type),
                first_step, call.lda, problem.a.type),
      of(matrices_a(of_batch)), call.stride_a, problem.a.type, rows_a(problem), min_lda(problem),
      call.lda);
  const std::vector<Wide> b =
      operand(matrix_of(call.b, first_step, call.ldb, problem.b.type), of(matrices_b(of_batch)),
              call.stride_b, problem.b.type, rows_b(problem), min_ldb(problem), call.ldb);
  std::byte* c =
      static_cast<std::byte*>(call.c) +
      (of(matrices_c(of_batch)) * call.stride_c + first_row * call.ldc) * bytes_of(problem.c.type);
  product(problem.m, problem.n, reads ? problem.k : 0,
          MatrixView::of(a.data(), min_lda(problem), problem.a.transposed),
          MatrixView::of(b.data(), min_ldb(problem), problem.b.transposed),
          Update{problem, call.alpha, call.beta, c, call.ldc}, {}, threads);
}

}  // namespace

void reference_multiply(const Problem& problem, const Call& call, int threads) {
  const bool many = problem.batch > 1;  // then each matrix is computed by one thread
  parallel_for(problem.batch, many ? threads : 1, [&](std::int64_t matrix, int) {
    if (problem.a.type == DType::f64) {
      multiply_one<double>(problem, call, matrix, many ? 1 : threads);
    } else {
      multiply_one<float>(problem, call, matrix, many ? 1 : threads);
    }
  });
}

}  // namespace tilewise
