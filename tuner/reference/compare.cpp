#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/reference.hpp"
#include "tuner/reference/block.hpp"
#include "tuner/reference/parallel.hpp"
#include "tuner/reference/product.hpp"

namespace tilewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// How far the error's norm may lie above u times the norm of |alpha||A||B| + |beta||C0|. Rounding
// errors of the accumulator partly cancel and stay some ten times below; those of coarser
// arithmetic, which the bound per element cannot see when k is long, lie above.
constexpr double kNormFactor = 4;

// gamma_n of the error analysis; beyond n u = 1/2, where it loses its meaning, 2 n u (dot products
// in any order keep below n u: Jeannerod and Rump 2013).
double gamma(double n, double u) { return n * u < 0.5 ? n * u / (1 - n * u) : 2 * n * u; }

// What one thread has seen: the worst place, and sums for the norms.
struct Findings {
  double ratio = 0;  // largest error over bound
  std::int64_t row = -1, column = -1;
  double got = 0, expected = 0, bound = 0;
  double squared_error = 0, squared_reference = 0, squared_absolute = 0;

  void note(double new_ratio, std::int64_t i, std::int64_t j, double value, double reference,
            double limit) {
    if (row >= 0 && !(new_ratio > ratio)) return;
    ratio = new_ratio;
    row = i;
    column = j;
    got = value;
    expected = reference;
    bound = limit;
  }
  void merge(const Findings& other) {
    squared_error += other.squared_error;
    squared_reference += other.squared_reference;
    squared_absolute += other.squared_absolute;
    if (other.row < 0) return;
    const bool earlier = other.row < row || (other.row == row && other.column < column);
    if (row < 0 || other.ratio > ratio || (other.ratio == ratio && earlier)) {
      ratio = other.ratio;
      row = other.row;
      column = other.column;
      got = other.got;
      expected = other.expected;
      bound = other.bound;
    }
  }
};

// NaN-safe: a NaN anywhere is infinitely wrong.
double ratio_of(double error, double bound) {
  if (error <= bound) return bound > 0 ? error / bound : 0;
  return bound > 0 && error < kInfinity ? error / bound : kInfinity;
}

struct Comparer {
  const Problem& problem;
  const BlockLayout& layout;
  DataSet set;
  Scalars scalars;
  const float* got;
  std::int64_t ldc;
  int threads;
  double unit = dtype_info(problem.accumulator).unit_roundoff;
  double output_unit = dtype_info(problem.c).unit_roundoff;
  double gamma_k = gamma(static_cast<double>(problem.k) + 2, unit);

  void element(Findings& findings, std::int64_t i, std::int64_t j, double exact, double bounded,
               double absolute) const {
    const double value = got[i * ldc + j];
    const double c0 = layout.operand(set, 2)[i * problem.n + j];
    const double old = scalars.beta == 0 ? 0 : scalars.beta * c0;
    if (set == DataSet::exact) {
      const double expected = scalars.alpha * exact + old;
      if (!(value == expected)) findings.note(kInfinity, i, j, value, expected, 0);
      return;
    }
    const double expected = scalars.alpha * bounded + old;
    const double magnitude = std::fabs(scalars.alpha) * absolute + std::fabs(old);
    const double bound = gamma_k * magnitude + output_unit * std::fabs(expected);
    const double error = std::fabs(value - expected);
    findings.note(ratio_of(error, bound), i, j, value, expected, bound);
    findings.squared_error += error * error;
    findings.squared_reference += expected * expected;
    findings.squared_absolute += magnitude * magnitude;
  }

  // One row of stored products against one row of the result.
  void stored_row(Findings& findings, const StoredProducts& stored, std::int64_t r, std::int64_t i,
                  const std::int64_t* columns) const {
    for (std::int64_t c = 0; c < stored.columns; ++c) {
      const std::int64_t at = r * stored.columns + c, j = columns ? columns[c] : c;
      if (set == DataSet::exact) {
        element(findings, i, j, stored.exact[at], 0, 0);
      } else {
        element(findings, i, j, 0, stored.bounded[at], stored.absolute[at]);
      }
    }
  }

  // Rows of stored products; `rows` and `columns` say which of C's they are (null: all).
  void stored(Findings& total, const StoredProducts& products, const std::int64_t* rows,
              const std::int64_t* columns) const {
    const std::int64_t chunk =
        std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, products.columns));
    std::vector<Findings> found(static_cast<std::size_t>((products.rows + chunk - 1) / chunk));
    parallel_for(std::ssize(found), threads, [&](std::int64_t index, int) {
      Findings& findings = found[static_cast<std::size_t>(index)];
      const std::int64_t end = std::min(products.rows, (index + 1) * chunk);
      for (std::int64_t r = index * chunk; r < end; ++r) {
        stored_row(findings, products, r, rows ? rows[r] : r, columns);
      }
    });
    for (const Findings& findings : found)
      total.merge(findings);  // in order: the same for any threads
  }

  // C x against alpha A (B x) + beta C0 x, row by row. Returns the first bad row, or -1.
  std::int64_t freivalds(double& ratio) const {
    const FreivaldsVectors& vectors = layout.vectors[static_cast<std::size_t>(set)];
    std::mutex mutex;
    std::int64_t bad = -1;
    parallel_for(problem.m, threads, [&](std::int64_t i, int) {
      const double worst = freivalds_row(vectors, i);
      const std::lock_guard lock(mutex);
      ratio = std::max(ratio, worst);
      if (!(worst <= 1) && (bad < 0 || i < bad)) bad = i;
    });
    return bad;
  }

  double freivalds_row(const FreivaldsVectors& vectors, std::int64_t i) const {
    constexpr std::int64_t width = BlockLayout::kVectors;
    double sums[width] = {};
    for (std::int64_t j = 0; j < problem.n; ++j) {
      const double value = got[i * ldc + j];
      for (std::int64_t v = 0; v < width; ++v) sums[v] += value * layout.x[j * width + v];
    }
    double worst = 0;
    for (std::int64_t v = 0; v < width; ++v) {
      const std::int64_t at = i * width + v;
      const double expected = scalars.alpha * vectors.product[at] + scalars.beta * vectors.c0[at];
      double bound = 0;
      if (set == DataSet::bounded) {
        // The per-element bound summed over the row with weights |x|, and the sums' own rounding.
        const double magnitude = std::fabs(scalars.alpha) * vectors.absolute_product[at] +
                                 std::fabs(scalars.beta) * vectors.absolute_c0[at];
        const double rounding = 0x1p-52 * static_cast<double>(problem.n + problem.k + 4);
        bound = (gamma_k + output_unit + rounding) * magnitude;
      }
      worst = std::max(worst, ratio_of(std::fabs(sums[v] - expected), bound));
    }
    return worst;
  }

  // Computes a row of C in full, to name the element that Freivalds' sums found wrong.
  void locate(Findings& findings, std::int64_t i) const {
    const bool transposed = a_transposed(problem.layout);
    const std::int64_t lda = min_lda(problem);
    const float* a = layout.operand(set, 0) + (transposed ? i : i * lda);
    const MatrixView b =
        MatrixView::of(layout.operand(set, 1), min_ldb(problem), b_transposed(problem.layout));
    std::vector<double> plain(static_cast<std::size_t>(problem.n)), absolute(plain);
    const auto keep = [](std::vector<double>& to) {
      return [&to](const ProductBlock& block) {
        std::copy_n(block.values, block.columns, to.begin() + block.column);
      };
    };
    product(1, problem.n, problem.k, MatrixView::of(a, lda, transposed), b, keep(plain),
            keep(absolute), threads);
    for (std::int64_t j = 0; j < problem.n; ++j) {
      const auto at = static_cast<std::size_t>(j);
      element(findings, i, j, plain[at], plain[at], absolute[at]);
    }
  }
};

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

std::string describe(const Findings& worst, DataSet set) {
  std::string line = "C[" + std::to_string(worst.row) + "][" + std::to_string(worst.column) +
                     "] = " + text(worst.got) + " instead of " + text(worst.expected);
  return line + (set == DataSet::exact ? " (exact data)" : " (bound " + text(worst.bound) + ")");
}

// The norm of the error against the norm of what was summed; see kNormFactor.
void judge_norm(Comparison& result, const Findings& sums, const Comparer& comparer) {
  const double error = std::sqrt(sums.squared_error);
  const double reference = std::sqrt(sums.squared_reference);
  const double allowed = kNormFactor * comparer.unit * std::sqrt(sums.squared_absolute) +
                         comparer.output_unit * reference;
  result.normwise_error = reference > 0 ? error / reference : 0;
  result.error_ratio = std::max(result.error_ratio, ratio_of(error, allowed));
  if (result.ok && !(error <= allowed)) {
    result.ok = false;
    result.worst = "the error's norm is " + text(error) + ", allowed are " + text(allowed) +
                   ": every element is within its bound, but the arithmetic is coarser than " +
                   std::string(to_string(comparer.problem.accumulator));
  }
}

}  // namespace

Comparison Reference::compare(DataSet set, const Scalars& scalars, const void* got,
                              std::int64_t ldc, int threads) const {
  const BlockLayout layout(problem_, block_.data());
  const auto& header = layout.header();
  const Comparer comparer{problem_, layout, set, scalars, static_cast<const float*>(got),
                          ldc,      threads};
  Findings findings;
  Comparison result;
  std::int64_t bad_row = -1;
  if (header.sampled) {
    comparer.stored(findings, layout.rows, header.rows.data(), nullptr);
    comparer.stored(findings, layout.columns, nullptr, header.columns.data());
    bad_row = comparer.freivalds(result.error_ratio);
  } else {
    comparer.stored(findings, layout.full, nullptr, nullptr);
  }
  if (bad_row >= 0 && !(findings.ratio > 1)) {
    Findings row;
    comparer.locate(row, bad_row);
    if (row.ratio > 1) findings = row;
  }
  result.error_ratio = std::max(result.error_ratio, findings.ratio);
  result.ok = result.error_ratio <= 1;
  if (findings.ratio > 1) {
    result.worst = describe(findings, set);
  } else if (bad_row >= 0) {
    result.worst = "row " + std::to_string(bad_row) + " of C times a vector is wrong";
  }
  if (set == DataSet::bounded) judge_norm(result, findings, comparer);
  return result;
}

}  // namespace tilewise
