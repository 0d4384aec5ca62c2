#include "templates/plan/sum_order.hpp"

#include "vocabulary/rounding.hpp"

namespace tilewise {

SumOrder chain_of(const Problem& problem) {
  SumOrder order;
  if (is_integer(problem.accumulator)) order.arithmetic = SumOrder::Arithmetic::exact;
  return order;
}

int reduce_rows(const Problem& problem, int parts) {
  if (problem.order && problem.order->part > 0) return problem.order->rows;
  return parts >= 32 ? 8 : (parts >= 8 ? 4 : 1);
}

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
  order.rows = reduce_rows(problem, parts);
  return order;
}

}  // namespace tilewise
