#pragma once
#include <cstdint>

#include "tilewise/problem.hpp"
#include "tuner/reference.hpp"

namespace tilewise {

/// What test data an operand holds.
enum class Operand : std::uint8_t { a, b, c0 };

/// Magnitudes and sparsity of the exact data: chosen from k so that no partial sum, in any order
/// and with the exact scalars applied, reaches 1/u of the accumulator (2^24 for f32). For a k so
/// long that even products of 1 would, A keeps one element in `a_period` of each row.
struct ExactRange {
  std::int64_t magnitude = 1;
  std::int64_t a_period = 1;
};
ExactRange exact_range(const Problem& problem);

/// Fills `to` (tightly packed, as stored) on `threads` threads. Each element is a function of seed,
/// operand and position alone, so that any number of threads makes the same data.
void generate(const Problem& problem, DataSet set, Operand operand, std::uint64_t seed, float* to,
              int threads);

/// Well mixed 64 bits of a counter.
std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t counter);

}  // namespace tilewise
