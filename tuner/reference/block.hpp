#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "tuner/reference/reference.hpp"

namespace tilewise {

/// Products for a set of rows and a set of columns of C: A B of the exact data (integers below
/// 2^31), A B of the bounded data, and |A| |B| of the bounded data, rounded up. Row-major, with
/// leading dimension `columns`. Rows are counted through a batch: row i of matrix b is b m + i.
struct StoredProducts {
  std::int64_t rows = 0, columns = 0;
  std::int32_t* exact = nullptr;
  double* bounded = nullptr;
  float* absolute = nullptr;

  /// Rows `first` .. `first + count - 1`.
  StoredProducts from_row(std::int64_t first, std::int64_t count) const {
    const std::int64_t skipped = first * columns;
    return {count, columns, exact + skipped, bounded + skipped, absolute + skipped};
  }
};

/// The Freivalds vectors of one data set, kVectors values per row: A (B x), C0 x, |A| (|B| |x|),
/// |C0| |x|. The absolute ones are null for exact data.
struct FreivaldsVectors {
  double* product = nullptr;
  double* c0 = nullptr;
  double* absolute_product = nullptr;
  double* absolute_c0 = nullptr;
};

/// The layout of a reference's flat block.
class BlockLayout {
 public:
  static constexpr int kVectors = 4;
  static constexpr int kMaxSamples = 32;

  /// The start of the block; it determines the layout of the rest.
  struct Header {
    std::array<char, 8> magic;
    std::uint64_t problem_hash;
    std::uint64_t seed;
    std::uint64_t sampled;
    double strict_error;  // see Reference::strict_f32_error()
    std::int64_t row_count, column_count;
    std::array<std::int64_t, kMaxSamples> rows, columns;  // sampled rows and columns of C
  };

  /// Bytes that a block with this header needs.
  static std::size_t bytes_for(const Problem& problem, const Header& header);
  /// The layout of a block whose header is already written.
  BlockLayout(const Problem& problem, std::byte* base);

  const Header& header() const { return *header_; }
  /// Scaled data use the vectors of the bounded data.
  const FreivaldsVectors& vectors_of(DataSet set) const {
    return vectors[set == DataSet::exact ? 0 : 1];
  }
  StoredProducts full;           ///< every element; empty when sampled
  StoredProducts rows, columns;  ///< sampled rows (x n) and columns (m x; none of a batch)
  double* x = nullptr;           ///< n x kVectors: small integers, never zero
  std::array<FreivaldsVectors, 2> vectors;  ///< of exact and of bounded data

 private:
  std::size_t place(const Problem& problem, const Header& header, std::byte* base);
  BlockLayout() = default;
  Header* header_ = nullptr;
};

/// Identifies the problem that a block was computed for.
std::uint64_t block_hash(const Problem& problem);

}  // namespace tilewise
