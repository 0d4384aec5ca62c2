#pragma once
#include "templates/plan/multiply_plan.hpp"

namespace tilewise {

/// Stream-K for the last wave, where a wave has `slots` blocks (clusters): one block computes each
/// tile of C of the full waves; the tiles left over are divided into equal shares of tiles of k.
struct StreamK {
  std::int64_t tile_m = 1, tile_n = 1;           ///< of C; of a cluster's blocks together
  std::int64_t whole_tiles = 0, rest_tiles = 0;  ///< tiles of C: of full waves, left over
  std::int64_t depth = 1;                        ///< tiles of k of a tile of C
  std::int64_t share = 1;                        ///< tiles of k of a stream-K block
  /// Blocks that have a share.
  std::int64_t blocks() const { return (rest_tiles * depth + share - 1) / share; }
};
StreamK stream_k_of(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
                    std::int64_t tile_k, std::int64_t slots);

/// Adds stream-K to a plan: the arguments of the blocks (partial, depth, whole_tiles, share), the
/// workspace of their partial sums, and the step that adds them. The caller sets the grid.
/// Throws Error(unsupported) for a batch of more than 1.
void add_stream_k(MultiplyPlan& plan, const Problem& problem, const StreamK& stream_k, int group_m);

}  // namespace tilewise
