#include "tuner/reference/generate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tilewise/number.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kLargestMagnitude = 16;
constexpr std::int64_t kChunk = 1 << 16;
constexpr std::int64_t kAtOnce = 512;  // elements generated at a time, few enough to stay in L1

// Odd multiples of 2^-grid in (-1, 1): never zero, and exact in f32 for grid up to 24. The smallest
// is no smaller than the smallest number of the type to which they are rounded.
struct Bounded {
  int grid;
  [[gnu::always_inline]] float operator()(std::uint64_t bits) const {
    const auto r = static_cast<std::int32_t>(bits >> (64 - grid));
    return static_cast<float>(2 * r + 1 - (1 << grid)) * scale;
  }
  float scale = std::ldexp(1.0F, -grid);
};

// The same at f64's precision.
struct BoundedF64 {
  [[gnu::always_inline]] double operator()(std::uint64_t bits) const {
    const auto r = static_cast<std::int64_t>(bits >> 12);
    return static_cast<double>(2 * r + 1 - (std::int64_t{1} << 52)) * 0x1p-52;
  }
};

// Integers in [-magnitude, magnitude], never zero, at most `most`.
template <typename Wide>
struct Exact {
  std::int32_t magnitude;
  Wide most;
  [[gnu::always_inline]] Wide operator()(std::uint64_t bits) const {
    const auto count = static_cast<std::uint64_t>(2 * magnitude);
    const auto r = static_cast<std::int32_t>(((bits >> 32) * count) >> 32);
    const auto value = static_cast<Wide>(r - magnitude + static_cast<std::int32_t>(r >= magnitude));
    return value < most ? value : most;
  }
};

int grid_of(DType type) { return std::min(24, -std::ilogb(smallest_of(type))); }

template <typename Value, typename Wide>
[[gnu::always_inline]] inline void make(Value value, std::uint64_t stream, std::uint64_t first,
                                        std::int64_t count, Wide* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = value(mixed_bits(stream, first + static_cast<std::uint64_t>(i)));
  }
}

// The same compiled with 64-bit vector multiplication where the CPU has it: some four times as
// fast.
template <typename Value, typename Wide>
void make_any(Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count,
              Wide* to) {
  make(value, stream, first, count, to);
}
#if defined(__x86_64__)
template <typename Value, typename Wide>
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void make_avx512(
    Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count, Wide* to) {
  make(value, stream, first, count, to);
}
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
#endif

template <typename Value, typename Wide>
void make_best(Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count,
               Wide* to) {
#if defined(__x86_64__)
  if (kHasAvx512) return make_avx512(value, stream, first, count, to);
#endif
  make_any(value, stream, first, count, to);
}

// The largest magnitude of exact data in a type, among the integers that it holds exactly.
std::int64_t largest_integer(DType type) {
  if (type == DType::i8) return 128;
  if (type == DType::i4) return 8;
  const double unit = dtype_info(type).unit_roundoff;
  return unit > 0 ? std::min(kLargestMagnitude, static_cast<std::int64_t>(1 / unit))
                  : kLargestMagnitude;
}

// Zero points are from -8 to 7.
constexpr double kLargestZero = 8, kMeanSquareOfZeros = 21.5;

// The mean square of integers in [-magnitude, magnitude] without zero.
double mean_square(std::int64_t magnitude) {
  const auto m = static_cast<double>(magnitude);
  return (m + 1) * (2 * m + 1) / 6;
}

// The largest sum that stays exact during accumulation and after the scalars.
double largest_sum(const Problem& problem) {
  const ProductKind* kind = product_kind(problem);
  const double unit = dtype_info(problem.accumulator).unit_roundoff;
  const double storable = 0x1p31 - 1;  // the reference stores them in 32 bits
  const double held = unit > 0 ? std::min(1 / unit - 1, storable) : storable;
  const double added =
      kind && kind->sum_roundoff > 0 ? std::min(1 / kind->sum_roundoff - 1, storable) : storable;
  const Scalars scalars = Reference::scalars(problem, DataSet::exact, 1);
  const auto c0 = static_cast<double>(largest_integer(problem.c.type));
  const double of_scales = has_scales(problem) ? 4 : 1;                    // 2 of A and 2 of B
  const double of_zeros = zero_points_of(problem) ? 1 + kLargestZero : 1;  // of a number of B
  return std::min(added, (held - std::fabs(scalars.beta) * c0) / std::fabs(scalars.alpha)) /
         (of_scales * of_zeros);
}

// A pseudo-random number below `count`, determined by `stream` and `index`.
[[gnu::always_inline]] inline int random_below(std::uint64_t count, std::uint64_t stream,
                                               std::int64_t index) {
  return static_cast<int>(((mixed_bits(stream, static_cast<std::uint64_t>(index)) >> 32) * count) >>
                          32);
}

// 2^exponent; the result must be a normal number.
[[gnu::always_inline]] inline float power_of_two(int exponent) {
  return std::bit_cast<float>((exponent + 127) << 23);
}

constexpr DataSet kSets[] = {DataSet::exact, DataSet::bounded, DataSet::scaled};

}  // namespace

std::span<const DataSet> data_sets(const Problem& problem) {
  return std::span(kSets).first(
      problem.math == MathMode::f32x3 || problem.math == MathMode::emulated ? 3 : 2);
}

ExactRange exact_range(const Problem& problem) {
  const double sum = largest_sum(problem);
  const double k = std::max(1.0, static_cast<double>(problem.k));
  ExactRange range;
  range.magnitude =
      std::clamp(static_cast<std::int64_t>(std::sqrt(sum / k)), std::int64_t{1},
                 std::min(largest_integer(problem.a.type), largest_integer(problem.b.type)));
  // Eight standard deviations of 3 A B stay within C's type.
  const double largest = is_integer(problem.c.type) ? 0x1p62 : dtype_info(problem.c.type).largest;
  const double of_zeros = zero_points_of(problem) ? kMeanSquareOfZeros : 0;
  const auto deviation = [&](std::int64_t magnitude) {
    const double square = mean_square(magnitude);
    return std::sqrt(square * (square + of_zeros) * k);
  };
  while (range.magnitude > 1 && 24 * deviation(range.magnitude) > largest) --range.magnitude;
  if (k > sum) range.a_period = static_cast<std::int64_t>(std::ceil(k / std::floor(sum - 1)));
  return range;
}

int row_exponent(std::int64_t i) { return -116 + 8 * random_below(15, 201, i); }
int column_exponent(std::int64_t j) { return 16 + 8 * random_below(11, 202, j); }

TestData::TestData(const Problem& problem, DataSet set, DataOf operand, std::uint64_t seed)
    : type_(problem.c.type),
      set_(set),
      operand_(operand),
      rows_(problem.m),
      columns_(problem.n),
      magnitude_(largest_integer(problem.c.type)),
      transposed_(false),
      // Scaled data are the bounded data times powers of two: the same random stream.
      stream_(mixed_bits(
          seed, 1 + 4 * (set == DataSet::exact ? 0U : 1U) + static_cast<std::uint64_t>(operand))) {
  if (operand != DataOf::c0) {
    const bool is_a = operand == DataOf::a;
    type_ = is_a ? problem.a.type : problem.b.type;
    rows_ = is_a ? rows_a(problem) : rows_b(problem);
    columns_ = is_a ? min_lda(problem) : min_ldb(problem);
    transposed_ = is_a ? problem.a.transposed : problem.b.transposed;
    const ExactRange range = exact_range(problem);
    magnitude_ = range.magnitude;
    if (is_a && (set == DataSet::exact || is_integer(type_))) period_ = range.a_period;
  }
  matrix_rows_ = rows_;
  if (problem.epilogue && operand != DataOf::c0)
    for (std::size_t slot = 0; slot < problem.epilogue->operands.size(); ++slot) {
      const EpilogueSlot& form = problem.epilogue->operands[slot];
      if (!is_of_blocks(form.over) ||
          (form.over == EpilogueOver::row_blocks) != (operand == DataOf::a))
        continue;
      const EpilogueShape shape = shape_of(form, problem);
      (is_scale(form.over) ? scales_ : zero_points_) = {
          mixed_bits(seed, 1000 + slot),
          form.over == EpilogueOver::tiles ? kScaledSteps : 1,
          form.k_first ? shape.columns : shape.rows,
          form.k_first ? shape.rows : shape.columns,
          form.steps,
          form.k_first};
    }
  rows_ *= operand == DataOf::a   ? matrices_a(problem)
           : operand == DataOf::b ? matrices_b(problem)
                                  : matrices_c(problem);
}

TestData::TestData(const Problem& problem, std::size_t slot, std::uint64_t seed)
    : type_(type_of(problem.epilogue->operands.at(slot), problem.c.type)),
      set_(DataSet::bounded),
      operand_(DataOf::c0),
      rows_(1),
      columns_(1),
      magnitude_(largest_integer(type_)),
      transposed_(false),
      stream_(mixed_bits(seed, 1000 + slot)) {
  const EpilogueSlot& operand = problem.epilogue->operands[slot];
  const EpilogueShape shape = shape_of(operand, problem);
  if (is_of_blocks(operand.over)) of_blocks_ = operand.over;
  rows_ = matrix_rows_ = shape.rows, columns_ = shape.columns;
  rows_ *= is_of_rows(operand.over) ? matrices_c(problem) : problem.batch;
}

// 1 or 2: sums of products keep the integers that exact data need.
[[gnu::always_inline]] inline int scale_of_block(std::uint64_t stream, std::int64_t index) {
  return 1 + random_below(2, stream, index);
}
[[gnu::always_inline]] inline int zero_of_block(std::uint64_t stream, std::int64_t index) {
  return random_below(16, stream, index) - static_cast<int>(kLargestZero);
}

template <typename Wide>
void TestData::make(std::int64_t first, std::int64_t count, Wide* to) const {
  const auto begin = static_cast<std::uint64_t>(first);
  if (of_blocks_) {
    const bool scales = is_scale(*of_blocks_);
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = static_cast<Wide>(scales ? scale_of_block(stream_, first + i)
                                       : zero_of_block(stream_, first + i));
    return;
  }
  if (set_ == DataSet::exact || is_integer(type_)) {
    const auto most = static_cast<Wide>(dtype_info(type_).largest);
    make_best(Exact<Wide>{static_cast<std::int32_t>(magnitude_), most}, stream_, begin, count, to);
  } else if constexpr (std::is_same_v<Wide, double>) {
    make_best(BoundedF64{}, stream_, begin, count, to);
  } else {
    make_best(Bounded{grid_of(type_)}, stream_, begin, count, to);
  }
  if (period_ > 1) thin_out(first, count, to);
  if (set_ == DataSet::scaled) scale(first, count, to);
}

void TestData::fill(std::int64_t first, std::int64_t count, void* to) const {
  if (type_ == DType::f32) return make(first, count, static_cast<float*>(to));
  if (type_ == DType::f64) return make(first, count, static_cast<double*>(to));
  float wide[kAtOnce];
  for (std::int64_t done = 0; done < count; done += kAtOnce) {
    const std::int64_t now = std::min(kAtOnce, count - done);
    make(first + done, now, wide);
    narrow(type_, wide, now, static_cast<std::byte*>(to) + bytes_of(type_, done));
  }
}

template <typename Wide>
void TestData::widened(std::int64_t first, std::int64_t count, Wide* to) const {
  alignas(64) std::byte stored[kAtOnce * sizeof(double)];
  for (std::int64_t done = 0; done < count; done += kAtOnce) {
    const std::int64_t now = std::min(kAtOnce, count - done);
    fill(first + done, now, stored);
    widen(type_, stored, now, to + done);
  }
}

void TestData::values(std::int64_t first, std::int64_t count, float* to) const {
  if (type_ == DType::f32) return fill(first, count, to);
  widened(first, count, to);
  dequantise(first, count, to);
}
void TestData::values(std::int64_t first, std::int64_t count, double* to) const {
  if (type_ == DType::f64) return fill(first, count, to);
  widened(first, count, to);
  dequantise(first, count, to);
}

// Each row of op(A) has its own phase, so that the rows together cover every position of k.
template <typename Wide>
void TestData::thin_out(std::int64_t first, std::int64_t count, Wide* values) const {
  const auto period = static_cast<std::uint64_t>(period_);
  const auto phase_of = [&](std::int64_t row) {
    return ((mixed_bits(~stream_, static_cast<std::uint64_t>(row)) >> 32) * period) >> 32;
  };
  std::int64_t row = first / columns_, column = first % columns_;
  for (std::int64_t i = 0; i < count; ++row, column = 0) {
    const std::int64_t end = std::min(count, i + columns_ - column);
    if (transposed_) {
      const std::int64_t matrix = row / matrix_rows_;
      const std::uint64_t here = static_cast<std::uint64_t>(row % matrix_rows_) % period;
      for (; i < end; ++i, ++column) {
        if (phase_of(matrix * columns_ + column) != here) values[i] = 0;
      }
    } else {
      const std::uint64_t phase = phase_of(row);
      std::uint64_t here = static_cast<std::uint64_t>(column) % period;
      for (; i < end; ++i, here = here + 1 == period ? 0 : here + 1) {
        if (here != phase) values[i] = 0;
      }
    }
  }
}

// Multiplies rows of op(A), columns of op(B), and both of C0, by their powers of two.
template <typename Wide>
void TestData::scale(std::int64_t first, std::int64_t count, Wide* values) const {
  const bool by_row = operand_ != DataOf::b, by_column = operand_ != DataOf::a;
  std::int64_t row = first / columns_, column = first % columns_;
  for (std::int64_t i = 0; i < count; ++row, column = 0) {
    const std::int64_t end = std::min(count, i + columns_ - column), local = row % matrix_rows_;
    for (; i < end; ++i, ++column) {
      int exponent = 0;
      if (by_row) exponent += row_exponent(transposed_ ? column : local);
      if (by_column) exponent += column_exponent(transposed_ ? local : column);
      values[i] *= power_of_two(exponent);
    }
  }
}

std::int64_t TestData::Blocks::place(std::int64_t matrix, std::int64_t nth, std::int64_t k) const {
  const std::int64_t at = nth / along, block = k / steps;
  return matrix * places * blocks + (k_first ? block * places + at : at * blocks + block);
}

// The elements of A or B as they are multiplied: less zero points, times scales.
template <typename Wide>
void TestData::dequantise(std::int64_t first, std::int64_t count, Wide* values) const {
  if (!scales_) return;
  const bool k_in_row = (operand_ == DataOf::a) != transposed_;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = (first + i) / columns_, column = (first + i) % columns_;
    const std::int64_t matrix = row / matrix_rows_, local = row % matrix_rows_;
    const std::int64_t nth = k_in_row ? local : column, k = k_in_row ? column : local;
    if (zero_points_)
      values[i] -= static_cast<Wide>(
          zero_of_block(zero_points_->stream, zero_points_->place(matrix, nth, k)));
    values[i] *= static_cast<Wide>(scale_of_block(scales_->stream, scales_->place(matrix, nth, k)));
  }
}

bool TestData::matches(std::int64_t first, std::int64_t count, const void* stored) const {
  alignas(64) std::byte expected[kAtOnce * sizeof(double)];
  for (std::int64_t done = 0; done < count; done += kAtOnce) {
    const std::int64_t now = std::min(kAtOnce, count - done);
    fill(first + done, now, expected);
    if (std::memcmp(expected, static_cast<const std::byte*>(stored) + bytes_of(type_, done),
                    static_cast<std::size_t>(bytes_of(type_, now))) != 0) {
      return false;
    }
  }
  return true;
}

void TestData::fill_all(void* to, int threads) const {
  // Rows begin at bytes.
  const bool whole = columns_ * bits_of(type_) % 8 == 0;
  const std::int64_t count = rows_ * columns_, chunk = whole ? kChunk : columns_;
  parallel_for(chunk > 0 ? ceil_div(count, chunk) : 0, threads, [&](std::int64_t nth, int) {
    const std::int64_t first = nth * chunk;
    fill(first, std::min(chunk, count - first),
         static_cast<std::byte*>(to) +
             (whole ? bytes_of(type_, first) : nth * bytes_of(type_, columns_)));
  });
}

}  // namespace tilewise
