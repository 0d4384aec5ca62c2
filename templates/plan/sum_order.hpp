#pragma once
#include <cstdint>

#include "vocabulary/sum_order.hpp"

namespace tilewise {

/// One product after the other, by ordinary multiply-adds.
SumOrder chain_of(const Problem& problem);

/// The same by so many slices (SLICE_K) of the k of each tile.
SumOrder in_slices(SumOrder order, int tile_k, int slices);

/// The order with k cut into so many parts of whole tiles, as MultiplyPlan cuts it.
SumOrder in_parts(SumOrder order, const Problem& problem, int tile_k, int parts);

/// The rows of the reduce step that adds so many parts: those of the problem's order, if it has
/// parts.
int reduce_rows(const Problem& problem, int parts);

}  // namespace tilewise
