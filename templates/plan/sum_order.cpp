#include "templates/plan/sum_order.hpp"

#include "vocabulary/rounding.hpp"

namespace tilewise {

std::string to_string(const SumOrder& order) {
  using Arithmetic = SumOrder::Arithmetic;
  if (order.arithmetic == Arithmetic::exact) return "exact";
  constexpr const char* kNames[] = {"",
                                    "",
                                    "tensor",
                                    "fp8 by mma",
                                    "fp8 by wgmma",
                                    "f32x3 by mma",
                                    "f32x3 by wgmma",
                                    "f32x3 swapped"};
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  const std::string name = kNames[static_cast<int>(order.arithmetic)];
  if (order.arithmetic == Arithmetic::fused)
    add("one at a time");
  else
    add(name + ", " + std::to_string(order.together) + " at a time");
  if (order.promoted > 0) add("promoted every " + std::to_string(order.promoted));
  if (order.slices > 1 || order.slice > 0)
    add(std::to_string(order.slices) + " slices of " + std::to_string(order.slice));
  if (order.lane_vector > 0) add("lanes of " + std::to_string(order.lane_vector));
  if (order.part > 0) add("parts of " + std::to_string(order.part));
  if (order.rows > 1) add(std::to_string(order.rows) + " rows");
  return text;
}

SumOrder chain_of(const Problem& problem) {
  SumOrder order;
  if (is_integer(problem.accumulator)) order.arithmetic = SumOrder::Arithmetic::exact;
  return order;
}

int reduce_rows(int parts) { return parts >= 32 ? 8 : (parts >= 8 ? 4 : 1); }

SumOrder in_slices(SumOrder order, int tile_k, int slices) {
  if (order.arithmetic == SumOrder::Arithmetic::exact || slices == 1) return order;
  order.slices = slices;
  order.slice = tile_k / slices;
  return order;
}

SumOrder in_parts(SumOrder order, const Problem& problem, int tile_k, int parts) {
  if (order.arithmetic == SumOrder::Arithmetic::exact) return order;
  const std::int64_t part =
      ceil_div(ceil_div(problem.k, std::int64_t{tile_k}), std::int64_t{parts}) * tile_k;
  if (part >= problem.k) return order;
  order.part = part;
  order.rows = reduce_rows(parts);
  return order;
}

}  // namespace tilewise
