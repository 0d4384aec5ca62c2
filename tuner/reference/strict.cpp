#include "tuner/reference/strict.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr double kMostProducts = 0x1p28;  // some tenths of a second on one core
constexpr std::int64_t kMostRows = 8;
constexpr std::int64_t kColumns = 64;  // per pass: their sums and rows of B fit L1

// Computes columns first .. end - 1 of one row of A B. `b` points to (0, first); its columns are
// `across` apart, its rows `along`.
[[gnu::always_inline]] inline void add_up(std::int64_t columns, std::int64_t k, const float* row,
                                          const float* b, std::int64_t across, std::int64_t along,
                                          float* sums) {
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t j = 0; j < columns; ++j) {
      sums[j] = __builtin_fmaf(row[p], b[j * across + p * along], sums[j]);
    }
  }
}
void add_up_anywhere(std::int64_t columns, std::int64_t k, const float* row, const float* b,
                     std::int64_t across, std::int64_t along, float* sums) {
  add_up(columns, k, row, b, across, along, sums);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void add_up_fma(std::int64_t columns, std::int64_t k, const float* row,
                                            const float* b, std::int64_t across, std::int64_t along,
                                            float* sums) {
  if (across == 1) return add_up(columns, k, row, b, 1, along, sums);
  add_up(columns, k, row, b, across, along, sums);
}
#endif

void add_up_best(std::int64_t columns, std::int64_t k, const float* row, const float* b,
                 std::int64_t across, std::int64_t along, float* sums) {
#if defined(__x86_64__)
  static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_fma) return add_up_fma(columns, k, row, b, across, along, sums);
#endif
  add_up_anywhere(columns, k, row, b, across, along, sums);
}

// One row of A B with the arithmetic of a strict f32 kernel.
void strict_row(std::int64_t n, std::int64_t k, const float* row, const MatrixView& b, float* c,
                int threads) {
  const std::int64_t across = b.transposed ? b.ld : 1, along = b.transposed ? 1 : b.ld;
  parallel_for(ceil_div(n, kColumns), threads, [&](std::int64_t block, int) {
    const std::int64_t first = block * kColumns;
    add_up_best(std::min(kColumns, n - first), k, row, b.f32 + first * across, across, along,
                c + first);
  });
}

}  // namespace

double strict_f32_error(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
                        const MatrixView& b, int threads) {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  const double a_row = static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t rows = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kMostProducts / a_row), 1, std::min(m, kMostRows));
  double squared_error = 0, squared = 0;
  std::vector<float> row(static_cast<std::size_t>(k)), c(static_cast<std::size_t>(n));
  std::vector<double> exact(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t i = r * m / rows;
    for (std::int64_t p = 0; p < k; ++p) {
      row[static_cast<std::size_t>(p)] = static_cast<float>(a.at(i, p));
    }
    std::fill(c.begin(), c.end(), 0.0F);
    strict_row(n, k, row.data(), b, c.data(), threads);
    product(
        1, n, k, MatrixView::of(row.data(), k), b,
        [&](const ProductBlock& block) {
          std::copy_n(block.values, block.columns, exact.data() + block.column);
        },
        {}, threads);
    for (std::size_t j = 0; j < c.size(); ++j) {
      const double error = double{c[j]} - exact[j];
      squared_error += error * error;
      squared += exact[j] * exact[j];
    }
  }
  return squared > 0 ? std::sqrt(squared_error / squared) : 0;
}

}  // namespace tilewise
