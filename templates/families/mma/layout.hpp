// Where mma's tiles, epilogue scratch and mbarriers lie in shared memory: included by its kernel
// and by its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::mma {

// One operand's tile.
struct TileLayout {
  int span, depth;  // of m or n, and of k; elements
  int element;      // bytes
  bool along_k;     // k is contiguous
  int bytes;        // of one copy: BYTES_A, BYTES_B
  bool tma;

  constexpr int row_bytes() const { return (along_k ? depth : span) * element; }
  constexpr int rows() const { return along_k ? span : depth; }
  constexpr int tile_bytes() const { return rows() * row_bytes(); }
  // Rows that are not aligned to words are realigned in shared memory, by the warp that copied
  // them. Each such row has one more 16-byte chunk, behind the tile.
  constexpr bool shifts() const { return bytes < 4; }
  // Row classes, each with a tensor map, where rows are not multiples of 16 bytes apart; else 1.
  constexpr int row_classes() const { return tma && bytes < 16 ? 16 / element : 1; }
  constexpr int class_row_bytes() const { return row_bytes() + 16; }
  constexpr int class_bytes() const {  // TMA's destinations are aligned to 128 bytes
    return layout::round_up(rows() / row_classes() * class_row_bytes(), 128);
  }
  // The tile's bytes in a stage.
  constexpr int staged_bytes() const {
    if (row_classes() > 1) return layout::round_up(row_classes() * class_bytes(), 1024);
    return tile_bytes() + (shifts() ? rows() * 16 : 0);
  }
  constexpr int chunks_across() const { return layout::larger(1, row_bytes() / 16); }
  // 8-bit elements whose k is not contiguous: their swizzle is not one of TMA's.
  constexpr bool bytes_across() const { return element == 1 && !along_k; }
  // Whether ldmatrix reads its fragments.
  constexpr bool by_matrix() const {
    return row_classes() == 1 && (element == 2 || (along_k && element < 8));
  }
  // 16-byte chunks that each of `threads` threads copies.
  constexpr int chunks(int threads) const {
    return layout::ceil_div(rows() * chunks_across(), layout::larger(1, threads));
  }
  // Neighbouring chunks that a lane realigns at a time; 1 where rows need none.
  constexpr int run(int threads) const {
    const int count = chunks(threads), in_line = layout::smaller(8, chunks_across());
    if (!shifts() || bytes_across() || count % 2 != 0) return 1;
    return count % 4 != 0 || in_line < 4 ? 2 : 4;
  }
};

// A block's shared memory: stages, each a tile of A and one of B. After the main loop the same
// place is epilogue scratch: the sums of the groups of warps, or 16 rows of each warp's sums.
// TMA's mbarriers lie behind the larger of the two, so that late arrivals find them intact.
struct BlockLayout {
  int stage_bytes, stages;
  int tile_m, tile_n, warp_n;
  int slice_k, warps;  // groups of warps, and warps of a group
  int sum;             // bytes
  bool epilogue, tma;

  // Sums from one of a warp's 16 rows of scratch to the next: in the banks, neighbouring rows begin
  // a quarter of a line apart.
  constexpr int row_stride() const {
    const int line = 128 / sum;
    return layout::round_up(warp_n + warp_n / 8 - line / 4, line) + line / 4;
  }
  constexpr int scratch_bytes() const {
    const int groups = (slice_k - 1) * tile_m * tile_n * sum;
    return layout::larger(groups, epilogue ? warps * 16 * row_stride() * sum : 0);
  }
  constexpr int barriers_at() const {  // bytes
    return layout::larger(stages * stage_bytes, scratch_bytes());
  }
  constexpr int shared_bytes() const { return barriers_at() + (tma ? stages * 16 : 0); }
};

}  // namespace tilewise::mma
