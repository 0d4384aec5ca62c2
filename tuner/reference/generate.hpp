#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "tilewise/problem.hpp"

namespace tilewise {

/// The kinds of test data (docs/measuring.md). `exact`: integers whose partial sums are all exact.
/// `bounded`: uniform in [-1, 1] (i8: integers of its whole range), compared within an error bound.
/// `scaled`: bounded data with rows of A and columns of B multiplied by powers of two over a wide
/// range.
enum class DataSet : std::uint8_t { exact, bounded, scaled };

/// The data sets for checking a problem: exact and bounded; for f32x3 also scaled, since its low
/// parts may underflow.
std::span<const DataSet> data_sets(const Problem& problem);

/// The operand of test data.
enum class DataOf : std::uint8_t { a, b, c0 };

/// Magnitudes and sparsity of the exact data, chosen from k. No partial sum, in any order and with
/// the exact scalars applied, exceeds the integers that the accumulator holds exactly (f32 2^24;
/// fp8, where sums may have 14 bits, 2^13; i32 2^31), and sums seldom exceed C's type. Where k is
/// so long that products of 1 would exceed it, one element in `a_period` of each row of A is
/// nonzero.
struct ExactRange {
  std::int64_t magnitude = 1;
  std::int64_t a_period = 1;
};
ExactRange exact_range(const Problem& problem);

/// Scaled data: the exponent of the power of two for row i of op(A) (-116 to -4) and for column j
/// of op(B) (16 to 96). Elements of C0 are multiplied by both.
int row_exponent(std::int64_t i);
int column_exponent(std::int64_t j);

/// The test data of one operand, of all matrices of a batch, in the operand's type. Each element is
/// a function of seed, operand and position: elements are generated where they are needed (about 1
/// ns each) and not stored. A value; thread-safe.
class TestData {
 public:
  TestData(const Problem& problem, DataSet set, DataOf operand, std::uint64_t seed);
  /// The data of an operand of the problem's epilogue, which are bounded: a matrix of m x n, or one
  /// row of m, n or 1 elements, for each product. Scales are 1 or 2, zero points -8 to 7.
  TestData(const Problem& problem, std::size_t slot, std::uint64_t seed);

  DType type() const { return type_; }
  /// The stored shape: rows tightly packed, the matrices of a batch one below the other.
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Elements first .. first + count - 1 in row-major order, in the operand's type.
  void fill(std::int64_t first, std::int64_t count, void* to) const;
  /// The same elements as float (all types but f64) or double. Those of A and B are multiplied by
  /// the scales of their blocks of k (has_scales()), of B less its zero points before.
  void values(std::int64_t first, std::int64_t count, float* to) const;
  void values(std::int64_t first, std::int64_t count, double* to) const;
  /// Whether `stored` holds these elements bit for bit.
  bool matches(std::int64_t first, std::int64_t count, const void* stored) const;
  /// Generates all elements on `threads` threads (0 = all cores).
  void fill_all(void* to, int threads) const;

 private:
  template <typename Wide>
  void make(std::int64_t first, std::int64_t count, Wide* to) const;
  template <typename Wide>
  void thin_out(std::int64_t first, std::int64_t count, Wide* values) const;
  template <typename Wide>
  void scale(std::int64_t first, std::int64_t count, Wide* values) const;
  template <typename Wide>
  void dequantise(std::int64_t first, std::int64_t count, Wide* values) const;
  template <typename Wide>
  void widened(std::int64_t first, std::int64_t count, Wide* to) const;

  DType type_;
  DataSet set_;
  DataOf operand_;
  std::int64_t rows_, columns_, matrix_rows_;
  std::int64_t magnitude_;
  std::int64_t period_ = 1;  ///< above 1: one element in `period_` of each row of op(A) is not 0
  /// Of an operand of blocks of k: what it has.
  std::optional<EpilogueOver> of_blocks_;
  /// The scales or zero points of A's or B's blocks of k, by which values() differ from what is
  /// stored.
  struct Blocks {
    std::uint64_t stream;
    std::int64_t along, places, blocks, steps;
    bool k_first;
    std::int64_t place(std::int64_t matrix, std::int64_t nth, std::int64_t k) const;
  };
  std::optional<Blocks> scales_, zero_points_;
  bool transposed_;  ///< rows of op(X) are columns in memory
  std::uint64_t stream_;
};

/// A well-mixed 64-bit hash of a counter: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
[[gnu::always_inline]] inline std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed * 0xD1342543DE82EF95U + counter * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace tilewise
