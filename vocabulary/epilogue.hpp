#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/epilogue.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// A function or an operator of the arithmetic.
enum class EpilogueOp : std::uint8_t {
  /// `acc`: alpha op(A) op(B) + beta C. Its arguments are operands of the products: scales, and
  /// zero points of B.
  sum_of_products,
  number,
  operand,
  negate,
  add,
  subtract,
  multiply,
  divide,
  minimum,  ///< keeps NaN, as do `maximum` and `relu`; -0 is less than 0
  maximum,
  less,  ///< comparisons are conditions of `where` only
  less_or_equal,
  equal,
  not_equal,
  where,  ///< where(condition, x, y): x where the condition holds, else y
  absolute,
  square_root,
  reciprocal_root,
  exponential,
  logarithm,
  hyperbolic_tangent,
  error_function,
  sigmoid,
  silu,  ///< x sigmoid(x)
  relu,
  gelu,      ///< x (1 + erf(x / sqrt 2)) / 2
  gelu_tanh  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

struct EpilogueNode {
  EpilogueOp op = EpilogueOp::sum_of_products;
  double value = 0;            ///< of a number
  std::size_t slot = 0;        ///< of an operand
  std::vector<std::size_t> x;  ///< places of the arguments, all before this node
  /// Numbers are equal where their bits are: -0 is another number than 0.
  bool operator==(const EpilogueNode& other) const {
    return op == other.op && slot == other.slot && x == other.x &&
           std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(other.value);
  }
};

/// A matrix, vector or scalar of the caller besides A, B and C; its place in the list is its slot.
struct EpilogueSlot {
  EpilogueOver over = EpilogueOver::all;
  EpilogueUse use = EpilogueUse::read;
  std::size_t node = 0;                      ///< what is written or summed
  std::optional<DType> type = std::nullopt;  ///< none: default_type()
  bool k_first = false;                      ///< of blocks of k: k is the first index
  std::int64_t steps = kScaledSteps;         ///< of blocks of k: the steps of each
  bool operator==(const EpilogueSlot&) const = default;
};
/// The type of the arithmetic of an epilogue before a C of this type.
inline DType epilogue_arithmetic(DType c) { return c == DType::f64 ? c : DType::f32; }
/// The type of an operand without one: C's, of a scalar and of scales that of the arithmetic, of
/// zero points i8.
inline DType default_type(const EpilogueSlot& slot, DType c) {
  if (slot.over == EpilogueOver::zero_points) return DType::i8;
  return slot.over == EpilogueOver::all || is_scale(slot.over) ? epilogue_arithmetic(c) : c;
}
inline DType type_of(const EpilogueSlot& slot, DType c) {
  return slot.type.value_or(default_type(slot, c));
}

/// The caller's arithmetic between the sums of a product and C, in normal form: equal results have
/// one node, arguments of commutative operators are in one order, and operands are numbered in the
/// order in which the nodes read them. Nothing
/// is reassociated or simplified, so that a text and its normal form give equal bits, but for the
/// sign and the payload of NaN.
struct EpilogueForm {
  std::vector<EpilogueNode> nodes;  ///< in the order of evaluation
  std::vector<EpilogueSlot> operands;
  std::size_t c = 0;  ///< the node whose value is stored in C

  static constexpr std::size_t kMostNodes = 64, kMostOperands = 8;
  bool operator==(const EpilogueForm&) const = default;
};

/// An epilogue as a caller wrote it: the operands' names, by slot.
struct NamedEpilogue {
  EpilogueForm form;
  std::vector<std::string> names;

  /// The slot of an operand; none for another name.
  std::optional<std::size_t> slot_of(std::string_view name) const;
};

/// Reads "x = acc + bias[j]; aux[i,j] = x; gelu_tanh(x)":
///
///     text      = { statement ";" } value [";"]          the value is C's
///     statement = name "=" value | name [type] "[i,j]" "=" value
///               | name [type] "[j]" "=" "sum" "(" value ")"
///     value     = + - * / with the usual precedence, of factors
///     factor    = "-" factor | "(" value ")" | number | name [type] [index]
///               | "acc" ["(" scale ["*" scale] ["," zero] ")"]
///     zero      = name [type] "[j," block "]" | name [type] "[" block ",j]"
///     scale     = name [type] "[" place "," block "]" | name [type] "[" block "," place "]"
///     place     = "i" | "j" | "j/128"
///     block     = "k/" steps                           a power of two, 32 to 2^30
///               | function "(" value { "," value } ")"
///               | "where" "(" value comparison value "," value "," value ")"
///     index     = "[i]" | "[j]" | "[i,j]"
///     type      = ":" f32 | ":" bf16 | ...             of an operand that has not default_type()
///
/// Comparisons are < <= > >= == !=. The functions of one argument are abs, sqrt, rsqrt, exp, log,
/// tanh, erf, sigmoid, silu, relu, gelu, gelu_tanh, of two min and max; clamp(x, low, high) is
/// min(max(x, low), high). Throws Error(invalid_argument) that points into the text: what is wrong,
/// and what is allowed.
NamedEpilogue parse_epilogue(std::string_view text);

/// The normal form of what was read as it is written.
NamedEpilogue normal_form(const NamedEpilogue& read);

/// "[i]" of an operand by row, "[k/128,i]" of scales; empty for a scalar.
std::string index_text(const EpilogueSlot& operand);

/// Whether the epilogue scales products.
bool has_scales(const EpilogueForm& epilogue);
inline bool has_scales(const Problem& problem) {
  return problem.epilogue && has_scales(*problem.epilogue);
}

/// Its first operand of scales; null without. All operands of blocks of k have equal steps.
const EpilogueSlot* scales_of(const Problem& problem);
/// Its zero points of B, which there are with scales only; null without.
const EpilogueSlot* zero_points_of(const Problem& problem);

/// Why no kernel scales the products of a problem with has_scales(); else empty.
std::string unsupported_scales(const Problem& problem);

EpilogueShape shape_of(const EpilogueSlot& operand, std::int64_t m, std::int64_t n, std::int64_t k);
inline EpilogueShape shape_of(const EpilogueSlot& operand, const Problem& problem) {
  return shape_of(operand, problem.m, problem.n, problem.k);
}

/// The text of the normal form, with operands p0, p1, ...: parse_epilogue() of it gives an equal
/// EpilogueForm, and two epilogues are equal where their texts are.
std::string to_string(const EpilogueForm& epilogue);

/// The one object of a normal form, which is never destroyed. Thread-safe.
const EpilogueForm* interned(const EpilogueForm& form);
/// The same for a text; null for an empty one. Throws as parse_epilogue() does.
const EpilogueForm* interned(std::string_view text);

/// The value of C's element, in T's arithmetic (float or double): each operator is rounded by
/// itself. `values`: of each operand that is read, by slot. `results`, if not null: of each that is
/// written or summed, by slot.
template <class T>
T evaluate(const EpilogueForm& epilogue, T sum_of_products, const std::vector<T>& values,
           std::vector<T>* results = nullptr);

}  // namespace tilewise
