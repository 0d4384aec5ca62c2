#pragma once
#include "templates/plan/multiply_plan.hpp"

namespace tilewise::simt {

/// How the tiles of C are shared out when a wave has `slots` blocks: tiles of full waves are one
/// block's each, those that are left over are cut into equal shares of tiles of k.
struct StreamK {
  std::int64_t whole_tiles = 0, rest_tiles = 0;
  std::int64_t depth = 1;  ///< tiles of k
  std::int64_t share = 1;  ///< tiles of k for a block of the tail
  std::int64_t blocks() const { return (rest_tiles * depth + share - 1) / share; }
};
StreamK stream_k_of(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
                    std::int64_t tile_k, std::int64_t slots);

/// What STREAM_K 1 adds to a plan: blocks of the tail, the arguments that say which part each has,
/// and the step that adds up their sums. Throws Error(unsupported) for a batch.
void add_stream_k(MultiplyPlan& plan, const Problem& problem, const MultiplyShape& shape,
                  std::int64_t slots);

}  // namespace tilewise::simt
