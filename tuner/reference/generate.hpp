#pragma once
#include <cstdint>

#include "tilewise/problem.hpp"

namespace tilewise {

/// The two kinds of test data (docs/measuring.md): small integers whose every partial sum is exact,
/// and uniform [-1, 1] held to an error bound.
enum class DataSet : std::uint8_t { exact, bounded };

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

/// The test data of one operand (f32). Each element is a function of seed, operand and position
/// alone, so nobody keeps them: whoever needs some makes them, about 1 ns an element. A value;
/// thread-safe.
class TestData {
 public:
  TestData(const Problem& problem, DataSet set, Operand operand, std::uint64_t seed);

  /// As stored; rows lie tightly one after the other.
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Elements first .. first + count - 1, counted along the rows.
  void fill(std::int64_t first, std::int64_t count, float* to) const;
  /// Whether `values` are these elements, bit for bit.
  bool matches(std::int64_t first, std::int64_t count, const float* values) const;
  /// All of it, on `threads` threads (0 = all cores).
  void fill_all(float* to, int threads) const;

 private:
  void thin_out(std::int64_t first, std::int64_t count, float* values) const;

  DataSet set_;
  std::int64_t rows_, columns_;
  std::int64_t magnitude_;
  std::int64_t period_ = 1;  ///< over 1: one element in so many of each row of op(A) is not 0
  bool transposed_;          ///< rows of op(A) are columns as stored
  std::uint64_t stream_;
};

/// Well mixed 64 bits of a counter: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
[[gnu::always_inline]] inline std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed * 0xD1342543DE82EF95U + counter * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace tilewise
