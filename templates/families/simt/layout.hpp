// Where simt's tiles and epilogue scratch lie in shared memory, in floats: included by its kernel
// and by its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::simt {

// Stages of a PREFETCH: 0 to 2 through registers, 3 to 5 by cp.async, 6 to 8 by TMA.
constexpr int stages_of(int prefetch) {
  return prefetch == 8   ? 6
         : prefetch >= 6 ? prefetch - 3
         : prefetch >= 3 ? prefetch - 1
                         : (prefetch == 2 ? 2 : 1);
}

// One operand's tile.
struct TileLayout {
  int span, depth;  // of m or n, and of k
  int vector;       // elements of a load
  bool along_k;     // k is contiguous in memory
  bool transpose;   // between global and shared memory
  int prefetch, fragment_k;

  // k is contiguous in shared memory.
  constexpr bool staged_k() const { return along_k != transpose; }
  // TMA copies tiles as they lie in memory, where rows are aligned to 16 bytes.
  constexpr bool by_tma() const { return prefetch >= 6 && !transpose && vector == 4; }
  // Where k is contiguous, TMA copies panels of at most 128 bytes of k, swizzled at their width.
  constexpr bool swizzled() const { return by_tma() && along_k; }
  constexpr int panel() const { return layout::smaller(depth, 32); }
  // Tiles that neither TMA nor cp.async can copy pass through registers: cp.async transposes single
  // words, not vectors.
  constexpr bool by_registers() const {
    return prefetch >= 6 ? !by_tma() : prefetch >= 3 && transpose && vector > 1;
  }
  // Elements added to a row: a column's elements lie in different banks, and rows stay aligned for
  // vector access.
  constexpr int pad() const {
    if (by_tma()) return 0;
    if (!staged_k()) return transpose ? 4 : 0;
    return transpose ? fragment_k : layout::larger(vector, fragment_k);
  }
  constexpr int stride() const { return (staged_k() ? depth : span) + pad(); }
  // Rounded up so that the next tile is aligned for vectors, and for TMA.
  constexpr int elements() const {
    return layout::round_up((staged_k() ? span : depth) * stride(), prefetch >= 6 ? 256 : 4);
  }
};

// A block's shared memory: the stages, after the main loop replaced by the sums that the groups of
// warps exchange; behind them TMA's mbarriers.
struct BlockLayout {
  int stage_elements, prefetch;
  int tile_m, tile_n, slice_k;

  constexpr int barriers_at() const {
    const int exchanged = slice_k > 1 ? slice_k * tile_m * tile_n : 0;
    return layout::larger(stages_of(prefetch) * stage_elements, exchanged);
  }
  constexpr int shared_bytes() const {
    const int barriers = prefetch >= 6 ? stages_of(prefetch) * 16 : 0;  // two of 8 bytes a stage
    return 4 * barriers_at() + barriers;
  }
};

}  // namespace tilewise::simt
