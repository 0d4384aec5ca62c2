#pragma once
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise {

/// Bound on the error of summing a problem's k products in its kind's arithmetic, relative to the
/// sum of their absolute values: n u / (1 - n u) for n = k + 2 additions (2 n u if n u is 0.5 or
/// more). With promoted partial sums: the bound of one partial sum plus that of adding them. Throws
/// Error(unsupported) for types without a product_kind().
double sum_bound(const Problem& problem);
/// "bf16", or "bf16 x i8" where B has another type.
std::string operands_text(DType a, DType b);

/// What makes a problem another one than the bare product of its sizes, types and alignment, as it
/// is stored: "order tensor16; epilogue acc+p0[j]"; empty for the bare product.
std::string variant_text(const Problem& problem);
/// Throws Error(invalid_argument) for a text that this version does not know.
void set_variant(Problem& problem, std::string_view variant);

/// "rows even"; empty for a problem that is not grouped.
std::string grouping_text(const Problem& problem);
/// Throws Error(invalid_argument) for another text.
void set_grouping(Problem& problem, std::string_view text);

/// Why no kernel computes this grouped problem; empty if kernels do, and without groups.
std::string unsupported_grouping(const Problem& problem);
/// Throws Error(unsupported) with that reason, and Error(invalid_argument) for sizes that the
/// numbers in group_rows cannot name.
void check_grouping(const Problem& problem);

/// The problem whose record serves this one: of products grouped by counts those grouped by rows,
/// with as many rows in all as count by the distribution; else the problem itself.
Problem tuned_as(const Problem& problem);

/// A call's group_rows of a grouped problem, by its distribution. Of Grouping::counts half of all
/// rows count.
std::vector<std::int32_t> group_rows_of(const Problem& problem);
/// Whether the first row of a product is any column of A as stored, so that it has the alignment of
/// one element.
inline bool rows_begin_anywhere(const Problem& problem) {
  return problem.grouping == Grouping::rows && problem.a.transposed;
}

/// What a number of group_rows is at most: m, or k where products have different k.
std::int64_t most_of(const Problem& problem);
/// Rows of each product by these numbers, as the device understands them (Call::group_rows).
struct RowRange {
  std::int64_t begin = 0, end = 0;  ///< of A and C; of A and B as stored with Grouping::depth
};
std::vector<RowRange> row_ranges(const Problem& problem, const std::int32_t* group_rows);

/// The rows of all matrices of A (and C), numbered through: which product has a row. Of a grouped
/// problem by its distribution.
class ProductRows {
 public:
  explicit ProductRows(const Problem& problem);
  std::int64_t product_of(std::int64_t row) const;
  /// The rows of a product.
  RowRange of(std::int64_t product) const;

 private:
  std::int64_t m_;
  std::vector<RowRange> ranges_;  // of products whose rows follow one another
};

/// Rows, and steps of k, of a product on average.
double mean_rows(const Problem& problem);
double mean_depth(const Problem& problem);
/// Tiles of k of a product on average.
double expected_depth_tiles(const Problem& problem, std::int64_t tile);
/// Rows of the product that has most by the problem's distribution; m if it is not grouped.
std::int64_t most_rows(const Problem& problem);

/// Tile rows of all products, of `tile` rows each: of a grouped problem the most that there can be.
std::int64_t row_tiles(const Problem& problem, std::int64_t tile);
/// The same, of a grouped problem by its distribution.
double expected_row_tiles(const Problem& problem, std::int64_t tile);

/// Matrices of B that are read: by a grouped product's distribution, those of products with rows.
std::int64_t expected_matrices_b(const Problem& problem);
/// operand_bytes() without those of B that are not read.
double expected_bytes(const Problem& problem);

/// Bytes of the epilogue's operands.
double epilogue_bytes(const Problem& problem);

struct Size {
  std::int64_t m = 0, n = 0, k = 0;
  auto operator<=>(const Size&) const = default;
};

/// "1024,4096,1024x512x2048" -> sizes in order, without duplicates. Each must be 1 .. 2^40. Throws
/// Error(invalid_argument) with the bad item and the allowed range.
std::vector<Size> parse_sizes(std::string_view text);

/// The largest power of two up to `limit` that divides every value (0 is divisible by all).
constexpr int common_alignment(std::initializer_list<std::uint64_t> values, int limit = 16) {
  // The lowest set bit of the values' OR is the largest power of two that divides each.
  std::uint64_t bits = static_cast<std::uint64_t>(limit);
  for (const std::uint64_t value : values) bits |= value;
  return static_cast<int>(bits & (~bits + 1));
}

}  // namespace tilewise
