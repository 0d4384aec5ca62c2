#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tilewise/problem.hpp"

namespace tilewise {

/// How a plan adds the products of an element of C. Two plans of equal order give equal bits from
/// equal operands on one GPU model: tiles, stages, packs and the other elements of C never count.
///
/// The k of an element is cut into parts, a part into slices, and a slice's sum is a chain:
/// products are added to it in ascending order, `together` at a time.
struct SumOrder {
  /// What one step of a chain computes. Orders of different arithmetic differ.
  enum class Arithmetic : std::uint8_t {
    exact,  ///< integers: every order gives equal bits
    fused,  ///< a fused multiply-add in the type of the sums
    /// An instruction for tensor cores, mma.sync or wgmma, of 16-bit floats or tf32.
    tensor,
    fp8_by_mma,
    fp8_by_wgmma,
    f32x3_by_mma,
    f32x3_by_wgmma,
    f32x3_swapped  ///< by wgmma, with B as the left operand
  };
  Arithmetic arithmetic = Arithmetic::fused;
  /// Products that a step adds: on capability 9, where it was tried. Others may add fewer of an
  /// instruction's products at a time, all kernels alike.
  int together = 1;
  /// Where not 0: chains of so many products start at 0, and ordinary additions sum them.
  int promoted = 0;
  /// Of each slices x slice products, every slice has `slice` neighbours. The slices' sums are
  /// added in their order.
  int slices = 1, slice = 0;
  /// Where not 0: the 32 lanes of a warp share a slice. Lane l has `lane_vector` neighbours from
  /// (32 u + l) x lane_vector on, for u from 0 to slice / (32 lane_vector) - 1. Sums of lanes 16
  /// apart are added, then 8, 4, 2 and 1 apart.
  int lane_vector = 0;
  /// Products of a part of k; 0: there is one part.
  std::int64_t part = 0;
  /// Row r adds parts r, r + rows, ...; the rows' sums are added in their order.
  int rows = 1;
  auto operator<=>(const SumOrder&) const = default;
};

/// Words joined by '+', without those that say nothing: "tensor16+parts512+rows4".
/// - exact, fused, or an instruction and the products that it adds: tensor16, fp8_by_wgmma32;
/// - promoted128: SumOrder::promoted;
/// - slices2x32, lanes4: SumOrder::slices x slice, lane_vector;
/// - parts512, rows4: SumOrder::part, rows.
std::string to_string(const SumOrder& order);
/// Throws Error(invalid_argument) for a text that to_string() does not write.
SumOrder parse_sum_order(std::string_view text);

/// The only copy of an order in this process, so that problems of equal orders are equal. Never
/// destroyed. Thread-safe.
const SumOrder* interned(const SumOrder& order);

/// The order of a problem that leaves the choice to the database (set_invariant()). Its text is
/// "kept". No plan has it: the library replaces it by the order that is kept for the product.
const SumOrder* kept_order();

/// What has one kept order: the product of one row with the same n, k, types, mode, layout of B and
/// epilogue, grouped or not: grouped products have k in one part.
Problem order_key(Problem problem);

}  // namespace tilewise
