#include "tuner/reference/generate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tuner/reference.hpp"
#include "tuner/reference/parallel.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kLargestMagnitude = 16;  // exact even in an fp8 operand
constexpr std::int64_t kChunk = 1 << 16;
constexpr std::int64_t kCompared = 512;  // elements made at a time to be compared: stay in L1

// Odd multiples of 2^-24 in (-1, 1): never zero, and exact in f32.
struct Bounded {
  [[gnu::always_inline]] float operator()(std::uint64_t bits) const {
    const auto r = static_cast<std::int32_t>(bits >> 40);
    return static_cast<float>(2 * r + 1 - (1 << 24)) * 0x1p-24F;
  }
};

// Integers in [-magnitude, magnitude], never zero.
struct Exact {
  std::int32_t magnitude;
  [[gnu::always_inline]] float operator()(std::uint64_t bits) const {
    const auto count = static_cast<std::uint64_t>(2 * magnitude);
    const auto r = static_cast<std::int32_t>(((bits >> 32) * count) >> 32);
    return static_cast<float>(r - magnitude + static_cast<std::int32_t>(r >= magnitude));
  }
};

template <typename Value>
[[gnu::always_inline]] inline void make(Value value, std::uint64_t stream, std::uint64_t first,
                                        std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = value(mixed_bits(stream, first + static_cast<std::uint64_t>(i)));
  }
}

// The same, once more where there are 64-bit multiplications on vectors: some four times as fast.
template <typename Value>
void make_any(Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count,
              float* to) {
  make(value, stream, first, count, to);
}
#if defined(__x86_64__)
template <typename Value>
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void make_avx512(
    Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count, float* to) {
  make(value, stream, first, count, to);
}
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
#endif

template <typename Value>
void make_best(Value value, std::uint64_t stream, std::uint64_t first, std::int64_t count,
               float* to) {
#if defined(__x86_64__)
  if (kHasAvx512) return make_avx512(value, stream, first, count, to);
#endif
  make_any(value, stream, first, count, to);
}

}  // namespace

ExactRange exact_range(const Problem& problem) {
  const Scalars scalars = Reference::scalars(DataSet::exact, 1);
  const double limit = 1 / dtype_info(problem.accumulator).unit_roundoff - 1;
  const double sum =
      (limit - std::fabs(scalars.beta) * kLargestMagnitude) / std::fabs(scalars.alpha);
  const double k = std::max(1.0, static_cast<double>(problem.k));
  ExactRange range;
  range.magnitude =
      std::clamp(static_cast<std::int64_t>(std::sqrt(sum / k)), std::int64_t{1}, kLargestMagnitude);
  if (k > sum) range.a_period = static_cast<std::int64_t>(std::ceil(k / std::floor(sum - 1)));
  return range;
}

TestData::TestData(const Problem& problem, DataSet set, Operand operand, std::uint64_t seed)
    : set_(set),
      rows_(problem.m),
      columns_(problem.n),
      magnitude_(kLargestMagnitude),
      transposed_(a_transposed(problem.layout)),
      stream_(mixed_bits(
          seed, 1 + 4 * static_cast<std::uint64_t>(set) + static_cast<std::uint64_t>(operand))) {
  if (operand == Operand::c0) return;
  rows_ = operand == Operand::a ? rows_a(problem) : rows_b(problem);
  columns_ = operand == Operand::a ? min_lda(problem) : min_ldb(problem);
  const ExactRange range = exact_range(problem);
  magnitude_ = range.magnitude;
  if (set == DataSet::exact && operand == Operand::a) period_ = range.a_period;
}

void TestData::fill(std::int64_t first, std::int64_t count, float* to) const {
  const auto begin = static_cast<std::uint64_t>(first);
  if (set_ == DataSet::bounded) {
    make_best(Bounded{}, stream_, begin, count, to);
  } else {
    make_best(Exact{static_cast<std::int32_t>(magnitude_)}, stream_, begin, count, to);
  }
  if (period_ > 1) thin_out(first, count, to);
}

// Another phase in each row of op(A), so that together the rows cover every position of k.
void TestData::thin_out(std::int64_t first, std::int64_t count, float* values) const {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = (first + i) / columns_, column = (first + i) % columns_;
    const auto phase = static_cast<std::int64_t>(
        mixed_bits(~stream_, static_cast<std::uint64_t>(transposed_ ? column : row)) %
        static_cast<std::uint64_t>(period_));
    if ((transposed_ ? row : column) % period_ != phase) values[i] = 0;
  }
}

bool TestData::matches(std::int64_t first, std::int64_t count, const float* values) const {
  float expected[kCompared];
  for (std::int64_t done = 0; done < count; done += kCompared) {
    const std::int64_t now = std::min(kCompared, count - done);
    fill(first + done, now, expected);
    if (std::memcmp(expected, values + done, static_cast<std::size_t>(now) * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

void TestData::fill_all(float* to, int threads) const {
  const std::int64_t count = rows_ * columns_;
  parallel_for((count + kChunk - 1) / kChunk, threads, [&](std::int64_t chunk, int) {
    const std::int64_t first = chunk * kChunk;
    fill(first, std::min(kChunk, count - first), to + first);
  });
}

}  // namespace tilewise
