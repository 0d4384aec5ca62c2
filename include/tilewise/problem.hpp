#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/dtype.hpp"

namespace tilewise {

/// How A and B are stored. First letter A, second B: n = stored as m x k (k x n), t = stored
/// transposed (k x m, n x k). All row-major; C is always m x n row-major.
enum class Layout : std::uint8_t { nn, nt, tn, tt };

inline bool a_transposed(Layout l) { return l == Layout::tn || l == Layout::tt; }
inline bool b_transposed(Layout l) { return l == Layout::nt || l == Layout::tt; }
std::string_view to_string(Layout layout);
/// Throws Error(invalid_argument) naming nn, nt, tn, tt.
Layout parse_layout(std::string_view name);

/// Per operand, the largest power of two up to 16 (bytes) that divides the address, the leading
/// dimension in bytes and the batch stride in bytes.
struct Alignment {
  int a = 16, b = 16, c = 16;
  auto operator<=>(const Alignment&) const = default;
};

/// What is asked: C (m x n) = alpha op(A) op(B) + beta C. A value; its parts are the database key.
struct Problem {
  Layout layout = Layout::nn;
  std::int64_t m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, c = DType::f32, accumulator = DType::f32;
  MathMode math = MathMode::strict;
  std::int64_t batch = 1;
  Alignment alignment;
  auto operator<=>(const Problem&) const = default;
};

/// The row of product_kinds() that a problem's types and mode are, or null: then nothing computes
/// it.
const ProductKind* product_kind(const Problem& problem);
/// Sets all four types and the mode. Throws Error(invalid_argument) that lists what goes together.
void set_types(Problem& problem, DType operand, DType c, MathMode math);
/// The greatest relative error of summing a problem's k products as its kind does it, over the sum
/// of their sizes: n u / (1 - n u) for n = k + 2 sums (2 n u where that has no meaning), where sums
/// are promoted of those between two promotions and of the promotions. Throws Error(unsupported)
/// for types that nothing computes.
double sum_bound(const Problem& problem);
/// A problem's greatest error over |A| |B|, element by element, before C is rounded: (k + 2) u of
/// the sums as they are done, and what rounding the operands adds (docs/measuring.md). Throws
/// Error(unsupported) for types that nothing computes.
double error_bound(const Problem& problem);

/// "1024x512x2048" (MxNxK).
std::string size_text(const Problem& problem);
/// "nn 1024x512x2048 f32 strict align 16,16,16" (batch only when not 1): one line for people.
std::string to_string(const Problem& problem);

/// 2 m n k batch, as double (it passes 2^63 before memory does).
double flops_of(const Problem& problem);
/// Bytes of A, B and C with the smallest leading dimensions, as double.
double operand_bytes(const Problem& problem);

struct Size {
  std::int64_t m = 0, n = 0, k = 0;
  auto operator<=>(const Size&) const = default;
};

/// "1024,4096,1024x512x2048" -> sizes in order, duplicates removed. Each must be 1 .. 2^40.
/// Throws Error(invalid_argument) naming the bad item and what is allowed.
std::vector<Size> parse_sizes(std::string_view text);

/// The largest power of two up to `limit` that divides every value given (0 divides by anything).
int common_alignment(std::initializer_list<std::uint64_t> values, int limit = 16);

/// Alignment of a problem whose matrices are packed tightly (leading dimension = row length) at
/// 256-byte aligned addresses: what `--align auto` means.
Alignment natural_alignment(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType a,
                            DType b, DType c);

/// Smallest leading dimension, in elements, of each operand as stored.
std::int64_t min_lda(const Problem& problem);
std::int64_t min_ldb(const Problem& problem);
std::int64_t min_ldc(const Problem& problem);
/// Rows of A and B as stored (C has m).
std::int64_t rows_a(const Problem& problem);
std::int64_t rows_b(const Problem& problem);

}  // namespace tilewise

template <>
struct std::hash<tilewise::Problem> {
  std::size_t operator()(const tilewise::Problem& problem) const noexcept;
};
