#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tilewise/dtype.hpp"
#include "tilewise/element.hpp"
#include "tilewise/epilogue.hpp"
#include "tilewise/export.h"

namespace tilewise {

/// How A and B are stored. The first letter is A's, the second B's: n = as m x k (A) and k x n (B),
/// t = transposed, as k x m and n x k. All matrices are row-major; C is m x n.
enum class Layout : std::uint8_t { nn, nt, tn, tt };

inline bool a_transposed(Layout l) { return l == Layout::tn || l == Layout::tt; }
inline bool b_transposed(Layout l) { return l == Layout::nt || l == Layout::tt; }
TILEWISE_API std::string_view to_string(Layout layout);
/// Throws Error(invalid_argument) for any other name than nn, nt, tn, tt; the message lists them.
TILEWISE_API Layout parse_layout(std::string_view name);

/// Whether the products of a batch have different numbers of rows, which only the device knows
/// ("grouped products", as of the experts of a mixture). `batch` is their number.
enum class Grouping : std::uint8_t {
  none,
  /// A (m x k) and C (m x n) are one matrix each, with the rows of all products one after another.
  /// Call::group_rows has the end of each product's rows. Rows behind the last end have no product.
  rows,
  /// Each product has an A and a C of m rows. The first Call::group_rows[i] rows count.
  counts,
  /// The products have different k: A and B are one matrix each, with the steps of k of all
  /// products one after another, and C has a matrix for each product, as the gradients of experts'
  /// weights do. They are stored as rows: the layout is tn, and k the number of all.
  /// Call::group_rows has the end of each product's rows of A and B.
  depth
};
TILEWISE_API std::string_view to_string(Grouping grouping);
/// Throws Error(invalid_argument) for any other name than none, rows, counts, depth; the message
/// lists them.
TILEWISE_API Grouping parse_grouping(std::string_view name);

/// How many rows the products of a group are expected to have. A call computes any numbers of rows
/// correctly; this one is tuned and chosen for.
enum class Distribution : std::uint8_t {
  even,    ///< all products the same
  zipf,    ///< product i in proportion to 1 / (i + 1)
  one_hot  ///< one product all rows
};
TILEWISE_API std::string_view to_string(Distribution distribution);
/// Throws Error(invalid_argument) for any other name than even, zipf, one_hot; the message lists
/// them.
TILEWISE_API Distribution parse_distribution(std::string_view name);

/// One matrix of a product as it is stored, without its address and its leading dimension.
struct Operand {
  DType type = DType::f32;
  /// Whether the transpose is stored, row-major: A as k x m, B as n x k. C is never transposed.
  bool transposed = false;
  /// The largest power of two up to 16 (bytes) that divides the address, the leading dimension in
  /// bytes and the batch stride in bytes.
  int alignment = 16;
  auto operator<=>(const Operand&) const = default;
};

/// The alignment of each operand, in bytes.
struct Alignment {
  int a = 16, b = 16, c = 16;
  auto operator<=>(const Alignment&) const = default;
};

struct SumOrder;

/// A matrix product without its pointers: C (m x n) = alpha op(A) op(B) + beta C, and with an
/// epilogue what it makes of these sums. The members are the key of the database, except
/// `pointers`: problems with it are served but never stored.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b, c;
  DType accumulator = DType::f32;
  MathMode math = MathMode::strict;
  std::int64_t batch = 1;
  /// Whether a call's a, b and c are arrays in device memory of `batch` pointers to matrices in
  /// device memory.
  bool pointers = false;
  Grouping grouping = Grouping::none;
  Distribution distribution = Distribution::even;  ///< of a grouped problem
  const EpilogueForm* epilogue = nullptr;          ///< set_epilogue()
  /// The order in which the products of an element of C are added: set_invariant(), set_order().
  /// Null: any order.
  const SumOrder* order = nullptr;
  auto operator<=>(const Problem&) const = default;
};

inline Layout layout_of(const Problem& problem) {
  return static_cast<Layout>(2 * problem.a.transposed + problem.b.transposed);
}
inline void set_layout(Problem& problem, Layout layout) {
  problem.a.transposed = a_transposed(layout);
  problem.b.transposed = b_transposed(layout);
}
inline Alignment alignment_of(const Problem& problem) {
  return {problem.a.alignment, problem.b.alignment, problem.c.alignment};
}
inline void set_alignment(Problem& problem, const Alignment& alignment) {
  problem.a.alignment = alignment.a;
  problem.b.alignment = alignment.b;
  problem.c.alignment = alignment.c;
}

/// The row of product_kinds() with a problem's types and mode. Null if there is none: then no
/// kernel computes the problem.
TILEWISE_API const ProductKind* product_kind(const Problem& problem);
/// Sets the types of A, B, C and the accumulator, and the mode. Throws Error(invalid_argument) for
/// an unsupported combination of types; the message lists the supported ones.
TILEWISE_API void set_types(Problem& problem, DType a, DType b, DType c, MathMode math);
/// The same for A and B of one type, and for a row of product_kinds().
TILEWISE_API void set_types(Problem& problem, DType operand, DType c, MathMode math);
TILEWISE_API void set_types(Problem& problem, const ProductKind& kind);
/// Bound of a problem's error relative to |A| |B|, element by element, before C is rounded: the
/// error of the sums, about (k + 2) u, plus that of rounding the operands (docs/measuring.md). At
/// most 1. Throws Error(unsupported) for types without a product_kind().
TILEWISE_API double error_bound(const Problem& problem);

/// Makes the product batch-invariant: the bits of a row of C depend on this row of A, on B and on
/// the epilogue's operands, and on nothing else: not on m, the batch, the row's place, A's layout,
/// leading dimensions, addresses, or packed operands. All products of the same n, k, types, mode,
/// layout of B and epilogue have one order of sums, which is kept in the database or the bundle
/// (`autotune tune --invariant` chooses it), else is the default order of the GPU model. A product
/// that no kernel computes in this order is an error. docs/invariance.md has the details.
TILEWISE_API void set_invariant(Problem& problem, bool invariant = true);
/// Sets the order by its text, as `autotune explain` writes it: "tensor16+parts2048". "kept": as
/// set_invariant(); "": any order. Throws Error(invalid_argument) for another text.
TILEWISE_API void set_order(Problem& problem, std::string_view text);
/// The text of the problem's order; "" for any.
TILEWISE_API std::string order_text(const Problem& problem);

inline bool is_grouped(const Problem& problem) { return problem.grouping != Grouping::none; }
/// Whether the problem is a batch, which a batched kernel serves.
inline bool is_batched(const Problem& problem) {
  return problem.batch > 1 || problem.pointers || is_grouped(problem);
}
/// The number of matrices of A, B and C: one for each product, or one that has those of all.
inline std::int64_t matrices_a(const Problem& problem) {
  return problem.grouping == Grouping::rows || problem.grouping == Grouping::depth ? 1
                                                                                   : problem.batch;
}
inline std::int64_t matrices_b(const Problem& problem) {
  return problem.grouping == Grouping::depth ? 1 : problem.batch;
}
inline std::int64_t matrices_c(const Problem& problem) {
  return problem.grouping == Grouping::rows ? 1 : problem.batch;
}

/// "1024x512x2048" (MxNxK).
TILEWISE_API std::string size_text(const Problem& problem);
/// One line for people: "nn 1024x512x2048 f32 strict align 16,16,16". Has the batch only if it is
/// not 1, "by pointers" for a batch by pointers, and "grouped by rows, even" for a grouped one; has
/// the epilogue and the order if they are set.
TILEWISE_API std::string to_string(const Problem& problem);

/// 2 m n k batch, of grouped products those of all rows; a double, because it can exceed 2^63.
TILEWISE_API double flops_of(const Problem& problem);
/// Bytes of A, B, C and the operands of the epilogue with the smallest leading dimensions, as a
/// double.
TILEWISE_API double operand_bytes(const Problem& problem);

/// The alignment of tightly packed matrices (leading dimension = row length) at 16-byte aligned
/// addresses.
TILEWISE_API Alignment natural_alignment(const Problem& problem);

/// A problem of the given types and mode, with the alignment of tightly packed matrices at 16-byte
/// aligned addresses, for prepare(), explain() and pack_b(). `c` is the result's type
/// (default_result() is the usual one). Throws Error(invalid_argument) for an unsupported
/// combination of types; the message lists the supported ones.
TILEWISE_API Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                                   DType operand, DType c, MathMode math = MathMode::strict,
                                   std::int64_t batch = 1);

/// The same for an A and a B of different types.
TILEWISE_API Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                                   DType a, DType b, DType c, MathMode math = MathMode::strict,
                                   std::int64_t batch = 1);

/// The same for the C++ types T of A and B and R of C.
template <Element T, Element R>
Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                      MathMode math = MathMode::strict, std::int64_t batch = 1) {
  return typed_problem(layout, m, n, k, ElementType<T>::value, ElementType<R>::value, math, batch);
}

/// Smallest leading dimension, in elements, of each operand as stored.
TILEWISE_API std::int64_t min_lda(const Problem& problem);
TILEWISE_API std::int64_t min_ldb(const Problem& problem);
TILEWISE_API std::int64_t min_ldc(const Problem& problem);
/// Rows of A and B as stored (C has m).
TILEWISE_API std::int64_t rows_a(const Problem& problem);
TILEWISE_API std::int64_t rows_b(const Problem& problem);

}  // namespace tilewise

template <>
struct std::hash<tilewise::Problem> {
  TILEWISE_API std::size_t operator()(const tilewise::Problem& problem) const noexcept;
};
