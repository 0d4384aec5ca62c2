#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/dtype.hpp"
#include "tilewise/export.h"

namespace tilewise {

/// What an element of an epilogue's operand belongs to.
enum class EpilogueOver : std::uint8_t {
  all,       ///< a scalar: every element of C
  rows,      ///< name[i]: the elements of a row of C
  columns,   ///< name[j]: the elements of a column of C
  elements,  ///< name[i,j]: one element of C
  // Scales of products (Epilogue), one for each kScaledSteps steps of k or as many as the text has:
  row_blocks,     ///< name[i,k/128]: of a row of A
  column_blocks,  ///< name[j,k/128]: of a column of B
  tiles,          ///< name[j/128,k/128]: of 128 columns of B
  zero_points     ///< name[j,k/128] behind a comma: what a column of B has for 0
};
/// Steps of k, and of tiles columns, that one scale is for. Of narrow weights the text may have
/// others.
inline constexpr std::int64_t kScaledSteps = 128;
/// Whether an operand belongs to blocks of k: it is one of the products, not of their sums.
constexpr bool is_of_blocks(EpilogueOver over) { return over >= EpilogueOver::row_blocks; }
/// Whether an operand has scales of products.
constexpr bool is_scale(EpilogueOver over) {
  return is_of_blocks(over) && over != EpilogueOver::zero_points;
}
/// Whether an operand belongs to rows of C: of products whose rows follow one another there is one
/// for all.
constexpr bool is_of_rows(EpilogueOver over) {
  return over == EpilogueOver::rows || over == EpilogueOver::elements ||
         over == EpilogueOver::row_blocks;
}

/// An operand as a matrix in memory. Vectors and scalars have one row.
struct EpilogueShape {
  std::int64_t rows = 1, columns = 1;
};

enum class EpilogueUse : std::uint8_t {
  read,     ///< an operand of the arithmetic
  written,  ///< name[i,j] = x
  summed    ///< name[j] = sum(x): over the rows of C
};

struct EpilogueForm;  // the arithmetic without names; one object for equal forms, never destroyed
struct Problem;

/// A caller's arithmetic between the sums of a product and C, as text (docs/epilogues.md):
///
///     Epilogue epilogue("x = acc + bias[j]; aux[i,j] = x; gelu_tanh(x) + residual[i,j]");
///
/// `acc` is alpha op(A) op(B) + beta C. The last expression is stored in C. Other names are
/// operands, which a call binds by their slots (Call::operands).
///
/// In strict products of 8-bit floats `acc(a[i,k/128] * b[j/128,k/128])` multiplies the sum of each
/// 128 steps of k by scales of A and B before the sums are added. Either may be left out; B's are
/// [j/128,k/128] or [j,k/128]. With k first ([k/128,i]) the scales of a step of k are neighbours in
/// memory. Where B has fewer bits than A, `acc(s[j,k/64])` scales its blocks of 32 steps of k or
/// another power of two, and `acc(s[j,k/64], z[j,k/64])` subtracts zero points from its integers
/// before: (b - z) s. Immutable; thread-safe.
class Epilogue {
 public:
  /// Throws Error(invalid_argument) that points into the text: what is wrong, and what is allowed.
  TILEWISE_API explicit Epilogue(std::string_view text);

  /// Number of operands, at most 8.
  std::size_t operands() const { return names_.size(); }
  /// The place of an operand in Call::operands. Equal epilogues with other names have the same
  /// slots. Throws Error(not_found) for another name; the message lists the names.
  TILEWISE_API std::size_t slot(std::string_view name) const;
  /// The operands' names, by slot.
  const std::vector<std::string>& names() const { return names_; }
  TILEWISE_API EpilogueOver over(std::size_t slot) const;
  TILEWISE_API EpilogueUse use(std::size_t slot) const;
  /// What the operand of a product of m x n x k has, without the leading dimension.
  TILEWISE_API EpilogueShape shape(std::size_t slot, std::int64_t m, std::int64_t n,
                                   std::int64_t k) const;
  /// The type that the text states; none: C's type, of a scalar and of scales f32 (f64 for a C of
  /// f64), of zero points i8.
  TILEWISE_API std::optional<DType> type(std::size_t slot) const;
  /// The same with this type of an operand, unless the text states one.
  TILEWISE_API Epilogue with_type(std::size_t slot, DType type) const;
  /// The normal form, with the operands p0, p1, ...
  TILEWISE_API std::string text() const;
  const EpilogueForm* form() const { return form_; }

 private:
  const EpilogueForm* form_;
  std::vector<std::string> names_;
};

/// Makes an epilogue part of a problem, whose types are set. Types that the text states and the
/// problem implies are left out.
TILEWISE_API void set_epilogue(Problem& problem, const Epilogue& epilogue);
/// The normal form of a problem's epilogue; empty without one.
TILEWISE_API std::string epilogue_text(const Problem& problem);

/// An operand of a call's epilogue: a matrix, a vector or a scalar. Sizes are in elements.
struct EpilogueOperand {
  /// Device memory: name[i,j] m x n with leading dimension `ld`, name[i] m elements, name[j] n
  /// elements, a scalar one element. Scales and zero points are matrices with leading dimension
  /// `ld`, name[i,k/128] m x ceil(k / 128), name[k/128,i] ceil(k / 128) x m, and so on. Null for a
  /// scalar with `value`. What is written may share no element with A, B, C or another operand.
  /// What is read may not be written by the call, except for C itself in place of name[i,j] with
  /// C's type, address, leading dimension and stride.
  const void* data = nullptr;
  std::int64_t ld = 0;
  /// From the operand of one product of a batch to the next; 0: one for all. Of products whose
  /// rows follow one another (Grouping::rows), name[i] and name[i,j] have all m rows and no stride.
  std::int64_t stride = 0;
  double value = 0;  ///< of a scalar without `data`
};

}  // namespace tilewise
