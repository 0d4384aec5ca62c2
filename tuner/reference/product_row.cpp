#include "tuner/reference/product_row.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kWidth = 256;  // elements of B generated at a time

// Row i of op(A) of matrix `matrix`.
std::vector<double> row_of_a(const Problem& problem, const TestData& a, std::int64_t matrix,
                             std::int64_t i) {
  std::vector<double> row(static_cast<std::size_t>(problem.k));
  const std::int64_t base = matrix * problem.m * problem.k;
  if (!problem.a.transposed) {
    a.values(base + i * a.columns(), problem.k, row.data());
  } else {
    for (std::int64_t p = 0; p < problem.k; ++p) {
      a.values(base + p * a.columns() + i, 1, &row[static_cast<std::size_t>(p)]);
    }
  }
  return row;
}

}  // namespace

void product_row(const Problem& problem, DataSet set, std::uint64_t seed, std::int64_t i,
                 double* plain, double* absolute, int threads) {
  const std::int64_t matrix = ProductRows(problem).product_of(i);
  const bool by_depth = problem.grouping == Grouping::depth;
  std::vector<double> row = row_of_a(problem, TestData(problem, set, DataOf::a, seed),
                                     by_depth ? 0 : i / problem.m, i % problem.m);
  if (by_depth) {  // of the product's steps of k
    const RowRange steps =
        row_ranges(problem, group_rows_of(problem).data())[static_cast<std::size_t>(matrix)];
    std::fill(row.begin(), row.begin() + steps.begin, 0.0);
    std::fill(row.begin() + steps.end, row.end(), 0.0);
  }
  const TestData b(problem, set, DataOf::b, seed);
  const bool transposed = problem.b.transposed;
  const std::int64_t base = by_depth ? 0 : matrix * problem.k * problem.n;
  std::fill_n(plain, problem.n, 0.0);
  std::fill_n(absolute, problem.n, 0.0);
  const auto add = [&](std::int64_t j, std::int64_t p, double value) {
    const double term = row[static_cast<std::size_t>(p)] * value;
    plain[j] += term;
    absolute[j] += std::fabs(term);
  };
  parallel_for(ceil_div(problem.n, kWidth), threads, [&](std::int64_t block, int) {
    double values[kWidth];
    const std::int64_t first = block * kWidth, end = std::min(problem.n, first + kWidth);
    for (std::int64_t p = 0; !transposed && p < problem.k; ++p) {
      b.values(base + p * problem.n + first, end - first, values);
      for (std::int64_t j = first; j < end; ++j) add(j, p, values[j - first]);
    }
    for (std::int64_t j = first; transposed && j < end; ++j) {
      for (std::int64_t p = 0; p < problem.k; p += kWidth) {
        const std::int64_t count = std::min(kWidth, problem.k - p);
        b.values(base + j * problem.k + p, count, values);
        for (std::int64_t q = 0; q < count; ++q) add(j, p + q, values[q]);
      }
    }
  });
}

}  // namespace tilewise
