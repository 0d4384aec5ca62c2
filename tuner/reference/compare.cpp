#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/reference.hpp"
#include "tuner/reference/block.hpp"
#include "tuner/reference/parallel.hpp"
#include "tuner/reference/product_row.hpp"

namespace tilewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kChunk = 512;  // elements of C0 made at a time: stay in L1
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

// Judges single rows of a result, whoever holds them.
struct Comparer {
  const Problem& problem;
  const BlockLayout& layout;
  DataSet set;
  Scalars scalars;
  TestData c0;
  double unit = dtype_info(problem.accumulator).unit_roundoff;
  double output_unit = dtype_info(problem.c).unit_roundoff;
  double gamma_k = gamma(static_cast<double>(problem.k) + 2, unit);

  Comparer(const Problem& of, const BlockLayout& block, DataSet data, const Scalars& applied)
      : problem(of),
        layout(block),
        set(data),
        scalars(applied),
        c0(of, data, Operand::c0, block.header().seed) {}

  // Exact data's `count` elements from (i, j) on; `want` is A B, `old` is C0 or zeros.
  void exact(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
             const float* got, const float* want, const float* old) const {
    const auto expected = [&](std::int64_t at) {
      return scalars.alpha * double{want[at]} + scalars.beta * double{old[at]};
    };
    bool wrong = false;
    for (std::int64_t at = 0; at < count; ++at) wrong |= !(double{got[at]} == expected(at));
    for (std::int64_t at = 0; wrong && at < count; ++at) {
      if (got[at] == expected(at)) continue;
      return findings.note(kInfinity, i, j + at, got[at], expected(at), 0);
    }
  }

  // Bounded data's; `want` is A B, `absolute` |A||B|.
  void bounded(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
               const float* got, const double* want, const float* absolute,
               const float* old) const {
    const double alpha = std::fabs(scalars.alpha), beta = std::fabs(scalars.beta);
    double squared_error = 0, squared_reference = 0, squared_absolute = 0;
    for (std::int64_t at = 0; at < count; ++at) {
      const double expected = scalars.alpha * want[at] + scalars.beta * double{old[at]};
      const double magnitude = alpha * double{absolute[at]} + beta * std::fabs(double{old[at]});
      const double bound = gamma_k * magnitude + output_unit * std::fabs(expected);
      const double error = std::fabs(got[at] - expected);
      if (!(error / bound <= findings.ratio)) {  // 0 / 0 and NaN, too
        findings.note(ratio_of(error, bound), i, j + at, got[at], expected, bound);
      }
      squared_error += error * error;
      squared_reference += expected * expected;
      squared_absolute += magnitude * magnitude;
    }
    findings.squared_error += squared_error;
    findings.squared_reference += squared_reference;
    findings.squared_absolute += squared_absolute;
  }

  // `count` elements of row i from column j on, against products from `at` on.
  void stored(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
              const float* got, const StoredProducts& products, std::int64_t at) const {
    float old[kChunk] = {};
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t now = std::min(kChunk, count - done), from = at + done;
      if (scalars.beta != 0) c0.fill(i * problem.n + j + done, now, old);
      if (set == DataSet::exact) {
        exact(findings, i, j + done, now, got + done, products.exact + from, old);
      } else {
        bounded(findings, i, j + done, now, got + done, products.bounded + from,
                products.absolute + from, old);
      }
    }
  }

  // What samples hold of row i.
  void sampled(Findings& findings, std::int64_t i, const float* row) const {
    const auto& header = layout.header();
    const auto rows_end = header.rows.begin() + header.row_count;
    const auto found = std::lower_bound(header.rows.begin(), rows_end, i);
    if (found != rows_end && *found == i) {
      stored(findings, i, 0, problem.n, row, layout.rows,
             (found - header.rows.begin()) * problem.n);
    }
    for (std::int64_t c = 0; c < header.column_count; ++c) {
      const std::int64_t j = header.columns[static_cast<std::size_t>(c)];
      stored(findings, i, j, 1, row + j, layout.columns, i * header.column_count + c);
    }
  }

  // Row i of C x against alpha A (B x) + beta C0 x: the largest error over its bound.
  double freivalds(std::int64_t i, const float* row) const {
    constexpr std::int64_t width = BlockLayout::kVectors;
    const FreivaldsVectors& vectors = layout.vectors[static_cast<std::size_t>(set)];
    double sums[width] = {};
    for (std::int64_t j = 0; j < problem.n; ++j) {
      const double value = row[j];
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

  // Computes row i of C in full, to name the element that Freivalds' sums found wrong.
  void locate(Findings& findings, std::int64_t i, const float* row, int threads) const {
    std::vector<double> plain(static_cast<std::size_t>(problem.n)), absolute(plain);
    product_row(problem, set, layout.header().seed, i, plain.data(), absolute.data(), threads);
    std::vector<float> exact_row(plain.begin(), plain.end());  // integers: nothing is lost
    std::vector<float> absolute_row(absolute.begin(), absolute.end());
    const StoredProducts products{1, problem.n, exact_row.data(), plain.data(),
                                  absolute_row.data()};
    stored(findings, i, 0, problem.n, row, products, 0);
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

struct ResultCheck::State {
  const Problem& problem;
  const BlockLayout layout;
  const Comparer comparer;
  std::mutex mutex;                         // guards what follows
  std::map<std::int64_t, Findings> pieces;  // by first row: merged in that order
  double freivalds_ratio = 0;
  std::int64_t bad_row = -1;  // the first that Freivalds' sums found wrong, and what it held
  std::vector<float> bad_values;

  State(const Reference& reference, DataSet set, const Scalars& scalars)
      : problem(reference.problem()),
        layout(problem, reference.block().data()),
        comparer(problem, layout, set, scalars) {}

  void note_freivalds(std::int64_t i, const float* row, double ratio) {
    const std::lock_guard lock(mutex);
    freivalds_ratio = std::max(freivalds_ratio, ratio);
    if (ratio <= 1 || (bad_row >= 0 && bad_row < i)) return;
    bad_row = i;
    bad_values.assign(row, row + problem.n);
  }
};

ResultCheck::ResultCheck(const Reference& reference, DataSet set, const Scalars& scalars)
    : state_(std::make_unique<State>(reference, set, scalars)) {}

ResultCheck::~ResultCheck() = default;

void ResultCheck::rows(std::int64_t first, std::int64_t count, const void* got, std::int64_t ld) {
  const Comparer& comparer = state_->comparer;
  const bool sampled = state_->layout.header().sampled != 0;
  Findings findings;
  for (std::int64_t i = first; i < first + count; ++i) {
    const float* row = static_cast<const float*>(got) + (i - first) * ld;
    if (sampled) {
      comparer.sampled(findings, i, row);
      state_->note_freivalds(i, row, comparer.freivalds(i, row));
    } else {
      const std::int64_t n = state_->problem.n;
      comparer.stored(findings, i, 0, n, row, state_->layout.full, i * n);
    }
  }
  const std::lock_guard lock(state_->mutex);
  state_->pieces.emplace(first, findings);
}

Comparison ResultCheck::finish(int threads) const {
  const Comparer& comparer = state_->comparer;
  Findings findings;
  for (const auto& [first, piece] : state_->pieces) findings.merge(piece);
  const std::int64_t bad_row = state_->bad_row;
  if (bad_row >= 0 && !(findings.ratio > 1)) {
    Findings row;
    comparer.locate(row, bad_row, state_->bad_values.data(), threads);
    if (row.ratio > 1) findings = row;
  }
  Comparison result;
  result.error_ratio = std::max(state_->freivalds_ratio, findings.ratio);
  result.ok = result.error_ratio <= 1;
  if (findings.ratio > 1) {
    result.worst = describe(findings, comparer.set);
  } else if (bad_row >= 0) {
    result.worst = "row " + std::to_string(bad_row) + " of C times a vector is wrong";
  }
  if (comparer.set == DataSet::bounded) judge_norm(result, findings, comparer);
  return result;
}

Comparison Reference::compare(DataSet set, const Scalars& scalars, const void* got,
                              std::int64_t ldc, int threads) const {
  ResultCheck check(*this, set, scalars);
  const std::int64_t chunk =
      std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, problem_.n));
  parallel_for((problem_.m + chunk - 1) / chunk, threads, [&](std::int64_t index, int) {
    const std::int64_t first = index * chunk;
    check.rows(first, std::min(chunk, problem_.m - first),
               static_cast<const float*>(got) + first * ldc, ldc);
  });
  return check.finish(threads);
}

}  // namespace tilewise
