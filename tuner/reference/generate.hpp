#pragma once
#include <cstdint>
#include <span>

#include "tilewise/problem.hpp"

namespace tilewise {

/// The kinds of test data (docs/measuring.md): integers whose every partial sum is exact, and
/// uniform [-1, 1] (of i8: integers of its whole range) held to an error bound. `scaled` is the
/// bounded data with rows of A and columns of B multiplied by powers of two over a wide range.
enum class DataSet : std::uint8_t { exact, bounded, scaled };

/// What a problem is checked with: exact and bounded; f32x3 also with scaled, whose small parts
/// partly underflow.
std::span<const DataSet> data_sets(const Problem& problem);

/// What test data an operand holds.
enum class Operand : std::uint8_t { a, b, c0 };

/// Magnitudes and sparsity of the exact data: chosen from k so that no partial sum, in any order
/// and with the exact scalars applied, passes what the accumulator holds exactly (f32 2^24; fp8,
/// whose sums may be kept in 14 bits, 2^13; i32 2^31), and that C's type is seldom exceeded. For a
/// k so long that even products of 1 would, A keeps one element in `a_period` of each row.
struct ExactRange {
  std::int64_t magnitude = 1;
  std::int64_t a_period = 1;
};
ExactRange exact_range(const Problem& problem);

/// Scaled data: the exponent of the power of two that multiplies row i of op(A) (-116 to -4), and
/// column j of op(B) (16 to 96). C0's elements are multiplied by both.
int row_exponent(std::int64_t i);
int column_exponent(std::int64_t j);

/// The test data of one operand, of all matrices of a batch, in the operand's own type. Each
/// element is a function of seed, operand and position alone, so none is kept: elements are made
/// where they are needed, about 1 ns each. A value; thread-safe.
class TestData {
 public:
  TestData(const Problem& problem, DataSet set, Operand operand, std::uint64_t seed);

  DType type() const { return type_; }
  /// As stored; the matrices of a batch lie one below the other, rows tightly one after the other.
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Elements first .. first + count - 1, counted along the rows, as a kernel reads them.
  void fill(std::int64_t first, std::int64_t count, void* to) const;
  /// Their values. As float only for types that float can hold: all but f64.
  void values(std::int64_t first, std::int64_t count, float* to) const;
  void values(std::int64_t first, std::int64_t count, double* to) const;
  /// Whether `stored` holds these elements, bit for bit.
  bool matches(std::int64_t first, std::int64_t count, const void* stored) const;
  /// All of it, on `threads` threads (0 = all cores).
  void fill_all(void* to, int threads) const;

 private:
  template <typename Wide>
  void make(std::int64_t first, std::int64_t count, Wide* to) const;
  template <typename Wide>
  void thin_out(std::int64_t first, std::int64_t count, Wide* values) const;
  void scale(std::int64_t first, std::int64_t count, float* values) const;
  template <typename Wide>
  void widened(std::int64_t first, std::int64_t count, Wide* to) const;

  DType type_;
  DataSet set_;
  Operand operand_;
  std::int64_t rows_, columns_, matrix_rows_;
  std::int64_t magnitude_;
  std::int64_t period_ = 1;  ///< over 1: one element in so many of each row of op(A) is not 0
  bool transposed_;          ///< rows of op(X) are columns as stored
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
