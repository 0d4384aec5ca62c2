#include "tuner/reference/judge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tilewise/number.hpp"
#include "tuner/reference/product_row.hpp"
#include "tuner/reference/through_epilogue.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kChunk = 512;  // elements judged at a time: few, to stay in L1
// The largest error norm, in units of u times the norm of |alpha||A||B| + |beta||C0|. The
// accumulator's rounding errors partly cancel and stay some ten times below. Coarser arithmetic
// exceeds it; the bound per element does not detect that for long k.
constexpr double kNormFactor = 4;
// Truncated sums, such as those of tensor cores, all err towards zero in proportion to the partial
// sum's size, which grows as sqrt(k). The factor is then kNormFactor (1 + sqrt(k) / kTruncation).
constexpr double kTruncation = 16;
// Errors from rounding the operands are independent and cancel as 1 / sqrt(k); this factor is
// added.
constexpr double kOperandFactor = 2;
// Parts of an f32 operand, and their products, may be lost below f32's smallest normal number.
constexpr double kLost = 0x1p-126;
constexpr double kLargestX = 4;  // in Freivalds' vectors
// Elements along k that the reference adds before it adds partial sums (product.cpp).
constexpr double kReferenceDepth = 192;

// gamma_n of the error analysis; beyond n u = 1/2, where it is undefined, 2 n u (dot products in
// any order stay below n u: Jeannerod and Rump 2013).
double gamma(double n, double u) { return n * u < 0.5 ? n * u / (1 - n * u) : 2 * n * u; }

// NaN-safe: a NaN in either argument is infinitely wrong.
double ratio_of(double error, double bound) {
  if (error <= bound) return bound > 0 ? error / bound : 0;
  return bound > 0 && error < kInfinity ? error / bound : kInfinity;
}

// An f64 reference has the same rounding errors as the kernel, so its bound is added. 0 for other
// types.
double reference_gamma(const Problem& problem) {
  const double sums = kReferenceDepth + static_cast<double>(problem.k) / kReferenceDepth + 2;
  return problem.c.type == DType::f64 ? gamma(sums, 0x1p-53) : 0;
}

// The largest power of two not above |value|; 0 for 0.
double power_below(double value) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & 0x7FF0000000000000U);
}

std::string text(double value, int digits = 9) { return in_digits(value, digits); }

}  // namespace

void Findings::note(double new_ratio, std::int64_t i, std::int64_t j, double value,
                    double reference, double limit) {
  if (row >= 0 && !(new_ratio > ratio)) return;
  ratio = new_ratio;
  row = i;
  column = j;
  got = value;
  expected = reference;
  bound = limit;
}

void Findings::merge(const Findings& other) {
  squared_error += other.squared_error;
  squared_reference += other.squared_reference;
  squared_absolute += other.squared_absolute;
  squared_output += other.squared_output;
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

// Consecutive elements of a row as doubles, and the values to compare them with.
struct Judge::ElementRange {
  std::int64_t row, column, count;  // the row counted through the batch
  const double* got;
  const double* old;    // C0
  const double* slack;  // per element, added to the bound; for scaled data only
};

// The products of a row of C with the vectors x.
struct Judge::RowSums {
  static constexpr std::int64_t width = BlockLayout::kVectors;
  double values[width] = {}, slack[width] = {};
  double squares[width] = {};  // per vector: sum of (x times half a last place)^2
  bool nan = false;
  bool saturated = false;  // the sums cannot be compared
};

Judge::Judge(const Problem& problem, const BlockLayout& block, DataSet set, const Scalars& scalars,
             std::optional<std::size_t> slot)
    : problem_(problem),
      layout_(block),
      slot_(slot),
      type_(slot ? type_of(problem.epilogue->operands.at(*slot), problem.c.type) : problem.c.type),
      set_(set),
      scalars_(scalars),
      c0_(problem, set == DataSet::scaled ? DataSet::bounded : set, DataOf::c0,
          block.header().seed),
      kind_(*product_kind(problem)),
      exactly_(set == DataSet::exact || is_integer(problem.c.type)),
      narrow_c_(bytes_of(problem.c.type) < 4),
      output_unit_(dtype_info(problem.c.type).unit_roundoff),
      output_step_(is_integer(problem.c.type) ? 0 : smallest_of(problem.c.type) / 2),
      largest_(is_fp8(problem.c.type) ? dtype_info(problem.c.type).largest : kInfinity),
      gamma_k_(tilewise::sum_bound(problem) + reference_gamma(problem)),
      k_(static_cast<double>(problem.k)) {}

// Rounds exact values to C's type.
void Judge::round_to_c(double* values, std::int64_t count) const {
  if (!narrow_c_) return;
  alignas(64) std::byte stored[kChunk * sizeof(double)];
  narrow(problem_.c.type, values, count, stored);
  widen(problem_.c.type, stored, count, values);
}

// `want` is A B.
template <typename Want>
void Judge::exact(Findings& findings, const ElementRange& at, const Want* want) const {
  double expected[kChunk];
  for (std::int64_t i = 0; i < at.count; ++i) {
    expected[i] = scalars_.alpha * static_cast<double>(want[i]) + scalars_.beta * at.old[i];
  }
  round_to_c(expected, at.count);
  bool wrong = false;
  for (std::int64_t i = 0; i < at.count; ++i) wrong |= !(at.got[i] == expected[i]);
  for (std::int64_t i = 0; wrong && i < at.count; ++i) {
    if (at.got[i] == expected[i]) continue;
    return findings.note(kInfinity, at.row, at.column + i, at.got[i], expected[i], 0);
  }
}

// `want` is A B, `absolute` |A||B|.
template <bool Scaled>
void Judge::bounded(Findings& findings, const ElementRange& at, const double* want,
                    const float* absolute) const {
  const double alpha = std::fabs(scalars_.alpha), beta = std::fabs(scalars_.beta);
  const double sum_error = gamma_k_, product_error = kind_.product_roundoff * alpha;
  const double root_k = std::sqrt(std::max(1.0, k_));
  double squared_error = 0, squared_reference = 0, squared_absolute = 0, squared_output = 0;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const double exact_value = scalars_.alpha * want[i] + scalars_.beta * at.old[i];
    const double expected = std::clamp(exact_value, -largest_, largest_);
    const double products = double{absolute[i]};
    const double magnitude = alpha * products + beta * std::fabs(at.old[i]);
    const double slack = Scaled ? at.slack[i] : 0;
    const double rounding = output_unit_ * std::fabs(expected) + output_step_;
    const double bound = sum_error * magnitude + product_error * products + rounding + slack;
    const double error = std::fabs(at.got[i] - expected);
    if (!(error <= findings.ratio * bound)) {  // also true for NaN
      findings.note(ratio_of(error, bound), at.row, at.column + i, at.got[i], expected, bound);
    }
    // The norm excludes elements that may lose much; the losses of other elements cancel as
    // rounding errors do.
    if (Scaled && slack > sum_error * magnitude) continue;
    const double output = rounding + slack / root_k;
    squared_error += error * error;
    squared_reference += expected * expected;
    squared_absolute += magnitude * magnitude;
    squared_output += output * output;
  }
  findings.squared_error += squared_error;
  findings.squared_reference += squared_reference;
  findings.squared_absolute += squared_absolute;
  findings.squared_output += squared_output;
}

// Divides by the powers of two. `slack`: the error allowed for values below the normal numbers, per
// product in A's element, in B's, and in the product itself; and in C.
void Judge::unscale(std::int64_t i, std::int64_t j, std::int64_t count, double* values,
                    double* slack) const {
  const double down = std::ldexp(1.0, -row_exponent(i % problem_.m));
  const double lost = k_ * std::fabs(scalars_.alpha) * kLost;
  for (std::int64_t at = 0; at < count; ++at) {
    const double across = std::ldexp(1.0, -column_exponent(j + at));
    values[at] *= down * across;
    slack[at] = lost * (down + across + down * across) + output_step_ * down * across;
  }
}

// Judges `count` stored elements of row i from column j on against products from index `from` on.
void Judge::stored(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
                   const std::byte* got, const StoredProducts& products, std::int64_t from) const {
  if (problem_.epilogue)
    return epilogue_arithmetic(problem_.c.type) == DType::f64
               ? through_epilogue<double>(findings, i, j, count, got, products, from)
               : through_epilogue<float>(findings, i, j, count, got, products, from);
  double values[kChunk], old[kChunk], slack[kChunk];
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t now = std::min(kChunk, count - done), column = j + done, at = from + done;
    widen(problem_.c.type, got + done * bytes_of(problem_.c.type), now, values);
    if (set_ == DataSet::scaled) unscale(i, column, now, values, slack);
    if (scalars_.beta != 0) {
      c0_.values(i * problem_.n + column, now, old);
    } else {
      std::fill_n(old, now, 0.0);
    }
    const ElementRange stretch{i, column, now, values, old, slack};
    if (set_ == DataSet::exact) {
      exact(findings, stretch, products.exact + at);
    } else if (exactly_) {
      exact(findings, stretch, products.bounded + at);
    } else if (set_ == DataSet::scaled) {
      bounded<true>(findings, stretch, products.bounded + at, products.absolute + at);
    } else {
      bounded<false>(findings, stretch, products.bounded + at, products.absolute + at);
    }
  }
}

void Judge::row(Findings& findings, std::int64_t i, const std::byte* row) const {
  const auto& header = layout_.header();
  if (is_summed())
    return epilogue_arithmetic(problem_.c.type) == DType::f64 ? sums<double>(findings, i, row)
                                                              : sums<float>(findings, i, row);
  if (!header.sampled) {
    return stored(findings, i, 0, problem_.n, row, layout_.full, i * problem_.n);
  }
  const auto rows_end = header.rows.begin() + header.row_count;
  const auto found = std::lower_bound(header.rows.begin(), rows_end, i);
  if (found != rows_end && *found == i) {
    stored(findings, i, 0, problem_.n, row, layout_.rows,
           (found - header.rows.begin()) * problem_.n);
  }
  for (std::int64_t c = 0; c < header.column_count; ++c) {
    const std::int64_t j = header.columns[static_cast<std::size_t>(c)];
    stored(findings, i, j, 1, row + j * bytes_of(type_), layout_.columns,
           i * header.column_count + c);
  }
}

bool Judge::is_summed() const {
  return slot_ && problem_.epilogue->operands[*slot_].use == EpilogueUse::summed;
}

// What alpha op(A) op(B) + beta C may be.
void Judge::before_epilogue(std::int64_t i, std::int64_t j, std::int64_t count,
                            const StoredProducts& products, std::int64_t from, double* low,
                            double* high) const {
  const double alpha = std::fabs(scalars_.alpha), beta = std::fabs(scalars_.beta);
  double old[kChunk];
  std::fill_n(old, count, 0.0);
  if (scalars_.beta != 0) c0_.values(i * problem_.n + j, count, old);
  for (std::int64_t e = 0; e < count; ++e) {
    const std::int64_t at = from + e;
    const double product =
        set_ == DataSet::exact ? static_cast<double>(products.exact[at]) : products.bounded[at];
    const double value = scalars_.alpha * product + scalars_.beta * old[e];
    double bound = 0;
    if (!exactly_) {
      const double absolute = double{products.absolute[at]};
      bound = gamma_k_ * (alpha * absolute + beta * std::fabs(old[e])) +
              kind_.product_roundoff * alpha * absolute;
    }
    low[e] = value - bound;
    high[e] = value + bound;
    if (set_ != DataSet::scaled) continue;
    const double by_row = std::ldexp(1.0, row_exponent(i % problem_.m)),
                 by_column = std::ldexp(1.0, column_exponent(j + e));
    const double lost = k_ * alpha * kLost * (by_row + by_column + 1);  // as unscale() has it
    low[e] = low[e] * by_row * by_column - lost;
    high[e] = high[e] * by_row * by_column + lost;
  }
}

// Whether elements of row i are within their bounds, rounded to their type.
template <class T>
void Judge::within(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
                   const std::byte* got, const Bounds<T>* allowed) const {
  T ends[kChunk];
  double values[kChunk], low[kChunk], high[kChunk];
  alignas(64) std::byte stored[kChunk * sizeof(double)];
  const auto round = [&](T Bounds<T>::*end, double* to) {
    std::transform(allowed, allowed + count, ends, [&](const Bounds<T>& x) { return x.*end; });
    narrow(type_, ends, count, stored);
    widen(type_, stored, count, to);
  };
  round(&Bounds<T>::low, low);
  round(&Bounds<T>::high, high);
  widen(type_, got, count, values);
  for (std::int64_t e = 0; e < count; ++e) {
    double least = allowed[e].empty() ? kInfinity : low[e];
    double most = allowed[e].empty() ? -kInfinity : high[e];
    if (allowed[e].nan && is_integer(type_))
      least = std::min(least, 0.0), most = std::max(most, 0.0);
    const double value = values[e], middle = least + (most - least) / 2, half = (most - least) / 2;
    double ratio = 0;
    if (value != value)
      ratio = allowed[e].nan && !is_integer(type_) ? 0 : kInfinity;
    else if (!(least <= value && value <= most))
      ratio = std::max(ratio_of(std::fabs(value - middle), half), std::nextafter(1.0, 2.0));
    else if (half > 0 && half < kInfinity)
      ratio = std::min(1.0, std::fabs(value - middle) / half);
    if (findings.row < 0 || ratio > findings.ratio)
      findings.note(ratio, i, j + e, value, least == most ? least : middle, half);
  }
}

template <class T>
void Judge::through_epilogue(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
                             const std::byte* got, const StoredProducts& products,
                             std::int64_t from) const {
  ThroughEpilogue<T> epilogue(problem_, slot_, layout_.header().seed);
  double low[kChunk], high[kChunk];
  Bounds<T> made[kChunk];
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t now = std::min(kChunk, count - done);
    before_epilogue(i, j + done, now, products, from + done, low, high);
    epilogue.apply(i, j + done, now, low, high, made);
    within(findings, i, j + done, now, got + done * bytes_of(type_), made);
  }
}

// Sums over the rows of neighbouring columns; the first row's products begin at `from`.
template <class T>
Findings Judge::sums_of_columns(std::int64_t product, std::int64_t j, std::int64_t count,
                                const std::byte* got, const StoredProducts& products,
                                std::int64_t from) const {
  struct Sum {
    double low = 0, high = 0, absolute = 0;
    bool nan = false;
  };
  ThroughEpilogue<T> epilogue(problem_, slot_, layout_.header().seed);
  double low[kChunk], high[kChunk];
  Bounds<T> made[kChunk];
  std::vector<Sum> sums(static_cast<std::size_t>(count));
  for (std::int64_t row = 0; row < problem_.m; ++row) {
    const std::int64_t i = product * problem_.m + row;
    before_epilogue(i, j, count, products, from + row * products.columns, low, high);
    epilogue.apply(i, j, count, low, high, made);
    for (std::int64_t e = 0; e < count; ++e) {
      Sum& sum = sums[static_cast<std::size_t>(e)];
      sum.low += static_cast<double>(made[e].low);
      sum.high += static_cast<double>(made[e].high);
      sum.absolute += std::max(std::fabs(static_cast<double>(made[e].low)),
                               std::fabs(static_cast<double>(made[e].high)));
      sum.nan |= made[e].nan;
    }
  }
  // The kernel's additions, and those above.
  const double rounding =
      2 * gamma(static_cast<double>(problem_.m) + 2, double{std::numeric_limits<T>::epsilon()} / 2);
  for (std::int64_t e = 0; e < count; ++e) {
    const Sum& sum = sums[static_cast<std::size_t>(e)];
    if (sum.nan || !(sum.absolute < kInfinity)) {  // not looked at more closely
      made[e] = {-std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity(), true};
      continue;
    }
    made[e] = {static_cast<T>(sum.low - rounding * sum.absolute),
               static_cast<T>(sum.high + rounding * sum.absolute), false};
  }
  Findings findings;
  within(findings, product, j, count, got, made);
  return findings;
}

template <class T>
void Judge::sums(Findings& findings, std::int64_t product, const std::byte* row) const {
  const auto& header = layout_.header();
  const bool sampled = header.sampled != 0;
  const std::int64_t together = sampled ? 1 : 64;  // columns of a task
  const std::int64_t tasks = sampled ? header.column_count : ceil_div(problem_.n, together);
  std::vector<Findings> found(static_cast<std::size_t>(tasks));
  parallel_for(tasks, 0, [&](std::int64_t task, int) {
    const std::int64_t j =
        sampled ? header.columns[static_cast<std::size_t>(task)] : task * together;
    const std::int64_t count = sampled ? 1 : std::min(together, problem_.n - j);
    found[static_cast<std::size_t>(task)] = sums_of_columns<T>(
        product, j, count, row + j * bytes_of(type_), sampled ? layout_.columns : layout_.full,
        sampled ? product * problem_.m * header.column_count + task
                : product * problem_.m * problem_.n + j);
  });
  for (const Findings& one : found) findings.merge(one);
}

Judge::RowSums Judge::sums_of(std::int64_t i, const std::byte* row) const {
  RowSums sums;
  const double end = narrow_c_ ? dtype_info(problem_.c.type).largest
                               : std::numeric_limits<double>::quiet_NaN();  // no value reaches it
  const bool scaled = set_ == DataSet::scaled, rounded = exactly_ && narrow_c_;
  double values[kChunk], slack[kChunk];
  for (std::int64_t j = 0; j < problem_.n; j += kChunk) {
    const std::int64_t now = std::min(kChunk, problem_.n - j);
    widen(problem_.c.type, row + j * bytes_of(problem_.c.type), now, values);
    if (scaled) unscale(i, j, now, values, slack);
    for (std::int64_t at = 0; at < now; ++at) {
      const double* x = layout_.x + (j + at) * RowSums::width;
      sums.nan |= values[at] != values[at];
      sums.saturated |= std::fabs(values[at]) >= end;
      const double half = rounded ? output_unit_ * power_below(values[at]) : 0;
      for (std::int64_t v = 0; v < RowSums::width; ++v) {
        sums.values[v] += x[v] * values[at];
        if (rounded) sums.squares[v] += x[v] * half * x[v] * half;
        if (scaled) sums.slack[v] += std::fabs(x[v]) * slack[at];
      }
    }
  }
  return sums;
}

double Judge::sum_bound(const RowSums& sums, std::int64_t v, std::int64_t at) const {
  if (exactly_) {
    // Rounding to C's type causes independent errors, uniform within half a last place. Their sum
    // exceeds five times the root of the sum of the squared halves less than once in 10^15
    // (Hoeffding's inequality with a uniform distribution's variance).
    return narrow_c_ ? 5 * std::sqrt(sums.squares[v]) : 0;
  }
  // The per-element bound summed over the row with weights |x|, and the rounding of the sums.
  const FreivaldsVectors& vectors = layout_.vectors_of(set_);
  const double products = std::fabs(scalars_.alpha) * vectors.absolute_product[at];
  const double magnitude = products + std::fabs(scalars_.beta) * vectors.absolute_c0[at];
  const double rounding = 0x1p-52 * (static_cast<double>(problem_.n) + k_ + 4);
  const double steps = kLargestX * output_step_ * static_cast<double>(problem_.n);
  return (gamma_k_ + output_unit_ + rounding) * magnitude + kind_.product_roundoff * products +
         sums.slack[v] + steps;
}

// Compares C x with alpha A (B x) + beta C0 x.
double Judge::freivalds(std::int64_t i, const std::byte* row) const {
  const RowSums sums = sums_of(i, row);
  if (sums.nan) return kInfinity;
  if (sums.saturated) return 0;
  const FreivaldsVectors& vectors = layout_.vectors_of(set_);
  double worst = 0;
  for (std::int64_t v = 0; v < RowSums::width; ++v) {
    const std::int64_t at = i * RowSums::width + v;
    const double expected = scalars_.alpha * vectors.product[at] + scalars_.beta * vectors.c0[at];
    const double error = std::fabs(sums.values[v] - expected);
    worst = std::max(worst, ratio_of(error, sum_bound(sums, v, at)));
  }
  return worst;
}

void Judge::locate(Findings& findings, std::int64_t i, const std::byte* row, int threads) const {
  std::vector<double> plain(static_cast<std::size_t>(problem_.n)), absolute(plain);
  product_row(problem_, set_ == DataSet::exact ? set_ : DataSet::bounded, layout_.header().seed, i,
              plain.data(), absolute.data(), threads);
  std::vector<std::int32_t> exact_row;  // unused for bounded data
  if (set_ == DataSet::exact) exact_row.assign(plain.begin(), plain.end());
  std::vector<float> absolute_row(absolute.begin(), absolute.end());
  const StoredProducts products{1, problem_.n, exact_row.data(), plain.data(), absolute_row.data()};
  stored(findings, i, 0, problem_.n, row, products, 0);
}

// The largest allowed norm of the error; see the constants above.
double Judge::allowed_norm(const Findings& sums) const {
  const double root_k = std::sqrt(std::max(1.0, k_));
  const bool truncates = kind_.sum_roundoff > dtype_info(problem_.accumulator).unit_roundoff;
  const double factor = kNormFactor * (truncates ? 1 + root_k / kTruncation : 1);
  const double operands = std::min(1.0, kOperandFactor / root_k) * kind_.product_roundoff;
  return (factor * kind_.sum_roundoff + operands) * std::sqrt(sums.squared_absolute) +
         std::sqrt(sums.squared_output);
}

std::string Judge::describe(const Findings& worst) const {
  const std::int64_t rows = is_summed() ? 1 : problem_.m, i = worst.row % rows;
  std::string line = slot_ ? "p" + std::to_string(*slot_) : "C";
  if (!is_summed()) line += "[" + std::to_string(i) + "]";
  line += "[" + std::to_string(worst.column) + "]";
  if (matrices_c(problem_) > 1) line += " of matrix " + std::to_string(worst.row / rows);
  const int digits = problem_.c.type == DType::f64 ? 17 : 9;
  line += " = " + text(worst.got, digits) + " instead of " + text(worst.expected, digits);
  if (exactly_ && !problem_.epilogue) return line + " (exact data)";
  line += " (bound " + text(worst.bound) + ")";
  if (problem_.epilogue) return line;
  if (set_ != DataSet::scaled) return line;
  return line + ", all times 2^" + std::to_string(row_exponent(i) + column_exponent(worst.column)) +
         " (scaled data)";
}

// Compares the norm of the error with the norm of the summed terms.
void Judge::judge_norm(Comparison& result, const Findings& sums) const {
  const double error = std::sqrt(sums.squared_error);
  const double reference = std::sqrt(sums.squared_reference);
  const double allowed = allowed_norm(sums);
  result.normwise_error = reference > 0 ? error / reference : 0;
  result.error_ratio = std::max(result.error_ratio, ratio_of(error, allowed));
  if (!result.ok || error <= allowed) return;
  result.ok = false;
  result.worst =
      "the error's norm is " + text(error) + ", allowed are " + text(allowed) +
      ": every element is within its bound, but the arithmetic is coarser than " +
      (problem_.math == MathMode::strict ? "sums in " + std::string(to_string(problem_.accumulator))
                                         : std::string(to_string(problem_.math)));
}

Comparison Judge::verdict(const Findings& findings, double freivalds_ratio,
                          std::int64_t bad_row) const {
  Comparison result;
  result.error_ratio = std::max(freivalds_ratio, findings.ratio);
  result.ok = result.error_ratio <= 1;
  if (findings.ratio > 1) {
    result.worst = describe(findings);
  } else if (bad_row >= 0) {
    result.worst = "row " + std::to_string(bad_row) + " of C times a vector is wrong";
  }
  if (!exactly_ && !problem_.epilogue) judge_norm(result, findings);
  return result;
}

}  // namespace tilewise
