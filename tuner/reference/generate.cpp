#include "tuner/reference/generate.hpp"

#include <algorithm>
#include <cmath>

#include "tuner/reference/parallel.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kLargestMagnitude = 16;  // exact even in an fp8 operand
constexpr std::int64_t kChunk = 1 << 16;

// Odd multiples of 2^-24 in (-1, 1): never zero, and exact in f32.
float bounded_value(std::uint64_t bits) {
  const auto r = static_cast<std::int64_t>(bits >> 40);
  return static_cast<float>(2 * r + 1 - (std::int64_t{1} << 24)) * 0x1p-24F;
}

// Integers in [-magnitude, magnitude], never zero.
float exact_value(std::uint64_t bits, std::int64_t magnitude) {
  const auto r =
      static_cast<std::int64_t>(((bits >> 32) * static_cast<std::uint64_t>(2 * magnitude)) >> 32);
  return static_cast<float>(r < magnitude ? r - magnitude : r - magnitude + 1);
}

struct Extent {
  std::int64_t rows, columns;
};
Extent extent_of(const Problem& problem, Operand operand) {
  switch (operand) {
    case Operand::a:
      return {rows_a(problem), min_lda(problem)};
    case Operand::b:
      return {rows_b(problem), min_ldb(problem)};
    case Operand::c0:
      break;
  }
  return {problem.m, problem.n};
}

}  // namespace

// The finaliser of SplitMix64 over a counter (Steele, Lea, Flood 2014).
std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed * 0xD1342543DE82EF95U + counter * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

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

void generate(const Problem& problem, DataSet set, Operand operand, std::uint64_t seed, float* to,
              int threads) {
  const Extent extent = extent_of(problem, operand);
  const ExactRange range = exact_range(problem);
  const std::int64_t count = extent.rows * extent.columns;
  const std::int64_t magnitude = operand == Operand::c0 ? kLargestMagnitude : range.magnitude;
  const std::uint64_t stream = mixed_bits(
      seed, 1 + 4 * static_cast<std::uint64_t>(set) + static_cast<std::uint64_t>(operand));
  const bool sparse = set == DataSet::exact && operand == Operand::a && range.a_period > 1;
  const bool transposed = a_transposed(problem.layout);

  parallel_for((count + kChunk - 1) / kChunk, threads, [&](std::int64_t chunk, int) {
    const std::int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (std::int64_t i = chunk * kChunk; i < end; ++i) {
      const std::uint64_t bits = mixed_bits(stream, static_cast<std::uint64_t>(i));
      to[i] = set == DataSet::bounded ? bounded_value(bits) : exact_value(bits, magnitude);
      if (!sparse) continue;
      // Another phase in each row of op(A), so that together the rows cover every position of k.
      const std::int64_t row = transposed ? i % extent.columns : i / extent.columns;
      const std::int64_t position = transposed ? i / extent.columns : i % extent.columns;
      const auto phase =
          static_cast<std::int64_t>(mixed_bits(~stream, static_cast<std::uint64_t>(row)) %
                                    static_cast<std::uint64_t>(range.a_period));
      if (position % range.a_period != phase) to[i] = 0;
    }
  });
}

}  // namespace tilewise
