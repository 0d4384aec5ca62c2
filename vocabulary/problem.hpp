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

/// What makes a problem another one than the bare product of its sizes, types and alignment, as it
/// is stored: "order tensor16; epilogue acc+p0[j]"; empty for the bare product.
std::string variant_text(const Problem& problem);
/// Throws Error(invalid_argument) for a text that this version does not know.
void set_variant(Problem& problem, std::string_view variant);

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
