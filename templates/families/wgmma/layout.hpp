// Where wgmma's tiles, epilogue scratch and mbarriers lie in shared memory, and how many registers
// a thread has: included by its kernel and by its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::wgmma {

// Bytes of k that one instruction multiplies, of every type.
constexpr int kStepBytes = 32;

// PROMOTE: 1 and 2, of how many tiles of k a thread holds the sums besides its own; 3, those of a
// part of k.
constexpr int kPromotesParts = 3;
constexpr int promoted_at_once(int promote) { return promote == kPromotesParts ? 1 : promote; }

// One operand's tile: panels of rows of at most 128 bytes, one beside the other.
struct TileLayout {
  int span, depth;  // of m or n, and of k; elements
  bool along_k;     // k is contiguous
  int sharers;      // blocks of a cluster that use the same tile: each copies its share of the rows
  int element;      // bytes

  // Of an edge box, where the rows that are left vary. On an H100 boxes of 8 and 16 rows took
  // longer to copy than one of 128.
  static constexpr int kMostRows = 40;

  constexpr int row_bytes() const { return (along_k ? depth : span) * element; }
  constexpr int rows() const { return along_k ? span : depth; }
  // Bytes of a panel's row: the swizzle.
  constexpr int width() const {
    return row_bytes() % 128 == 0 ? 128 : (row_bytes() % 64 == 0 ? 64 : 32);
  }
  constexpr int panels() const { return row_bytes() / width(); }
  constexpr int panel_bytes() const { return rows() * width(); }
  constexpr int bytes() const { return panels() * panel_bytes(); }
  // Of a block's share.
  constexpr int share_rows() const { return rows() / sharers; }
  // Whether the shares make up the tile, each of a size and at a place that TMA takes.
  constexpr bool placed() const {
    return rows() % sharers == 0 && share_rows() <= 256 && share_rows() * width() % 128 == 0;
  }
  // Rows of an edge box: a share that is inside of the matrix in part is copied by as many of them
  // as have rows inside. of_matrix: its rows, whose last ones make up one edge box; 0: of a group,
  // any number.
  constexpr int edge_rows(int of_matrix) const {
    if (!along_k) return share_rows();
    if (of_matrix > 0)
      return of_matrix % share_rows() == 0 ? share_rows() : of_matrix % share_rows();
    int rows = layout::smaller(share_rows(), kMostRows);
    while (rows > 1 && (share_rows() % rows != 0 || rows * width() % 128 != 0)) --rows;
    return rows;
  }
  // Columns of a panel across k: a panel outside of the matrix is not copied.
  constexpr int panel_columns() const { return width() / element; }
  // Bytes that the sharers copy together of a tile with `inside` elements of m or n inside of the
  // matrix.
  constexpr int copied_bytes(int inside, int of_edge) const {
    const int part = layout::smaller(layout::larger(inside, 0), span);
    if (!along_k) return layout::ceil_div(part, panel_columns()) * panel_bytes();
    const int whole = part / share_rows() * share_rows();
    return (whole + layout::ceil_div(part - whole, of_edge) * of_edge) * row_bytes();
  }
};

// A block's shared memory: stages, each a tile of A and one of B, then scratch for each warp that
// multiplies, then mbarriers.
struct BlockLayout {
  int stage_bytes, stages;
  int scratch_bytes, warps;  // scratch of a warp
  int barriers;              // besides the two of each stage

  constexpr int scratch_at() const { return stages * stage_bytes; }
  constexpr int barriers_at() const {
    return scratch_at() + layout::round_up(warps * scratch_bytes, 128);
  }
  constexpr int shared_bytes() const { return barriers_at() + (2 * stages + barriers) * 8; }
};

// Scratch of the epilogue: `rows` rows of C with `columns` sums of 4 bytes.
struct ScratchLayout {
  int rows, columns;
  bool shifted;  // StagedRow's
  // Sums from one row to the next: 8 lanes write a column of 8 rows, 4 lanes pairs of a row,
  // without bank conflicts where rows begin 8 banks apart.
  constexpr int row_stride() const {
    const int used = columns + (shifted ? columns / 8 : 0);
    return layout::round_up(used, 32) + 8;
  }
  constexpr int bytes() const { return rows * row_stride() * 4; }
};

// Columns of sums that a warp stages at a time.
constexpr int staged_columns(int width) {
  return width % 32 == 0 ? 32 : (width % 16 == 0 ? 16 : 8);
}

// The largest of `most`, most / 2, ... that divides `whole`.
constexpr int largest_part(int whole, int most) {
  while (whole % most != 0) most /= 2;
  return most;
}

// What is laid down at a time, to be stored by TMA or row by row; there are two buffers, in turn.
//
// A warp lays down 16 rows of `columns` elements of C (at most 128 bytes), and where these do not
// divide the instruction's width, at last of `rest` elements. Swapped: a warpgroup lays down up to
// kMostRows rows of its 64 columns of C, as panels of `columns` columns (at most 128 bytes), and
// TMA stores boxes of `rows` rows.
struct StoredLayout {
  int rows, columns, element;
  bool swapped;
  int rest;
  static constexpr int kMostRows = 32, kBuffers = 2;

  constexpr int width() const { return columns * element; }
  // Tensor maps of C: a box of one has `columns` columns, of the other `rest`.
  constexpr int maps() const { return rest > 0 ? 2 : 1; }
  // TMA's swizzle of rows of so many columns; 0 where it has none of their length.
  constexpr int swizzle(int of_columns) const {
    const int bytes = of_columns * element;
    return bytes == 32 || bytes == 64 || bytes == 128 ? bytes : 0;
  }
  constexpr int panels() const { return swapped ? 64 / columns : 1; }
  constexpr int panel_bytes() const { return (swapped ? kMostRows : rows) * width(); }
  // A warp's share of a buffer.
  constexpr int bytes() const { return panels() * panel_bytes() / (swapped ? 4 : 1); }
};

// A warp's scratch. `width`: columns of the instruction. swapped: its rows are columns of C.
struct EpilogueLayout {
  int epilogue, width, result;  // the parameter EPILOGUE; bytes of an element of C
  bool swapped, shifted;

  constexpr int staged() const { return staged_columns(width); }
  constexpr ScratchLayout scratch() const {
    return swapped ? ScratchLayout{staged(), 16, shifted} : ScratchLayout{16, staged(), shifted};
  }
  constexpr StoredLayout stored() const {
    if (swapped)
      return {largest_part(width, StoredLayout::kMostRows), layout::smaller(64, 128 / result),
              result, true, 0};
    const int columns = layout::smaller(width, 128 / result);
    return {16, columns, result, false, width % columns};
  }
  constexpr int bytes() const {
    if (epilogue >= 2) return StoredLayout::kBuffers * stored().bytes();
    return epilogue == 1 ? scratch().bytes() : 0;
  }
};

// Mbarriers of the warpgroups that multiply: for their turns, where the warps of each meet, and for
// loads of C into each buffer.
struct ConsumerBarriers {
  int consumers;
  bool ping_pong, by_tma, swapped;  // by_tma: C is stored by TMA

  constexpr int turns() const { return ping_pong ? consumers : 0; }
  constexpr int meetings() const { return by_tma && swapped ? consumers : 0; }
  // A warp has its own buffers, swapped a warpgroup.
  constexpr int loads() const {
    return by_tma ? consumers * (swapped ? 1 : 4) * StoredLayout::kBuffers : 0;
  }
  constexpr int all() const { return turns() + meetings() + loads(); }
};

// Registers of a thread. A multiprocessor's are shared out evenly at the launch; then the warpgroup
// that copies gives registers to those that multiply (setmaxnreg), which ptxas takes into account.
struct RegisterLayout {
  int consumers, blocks;  // warpgroups that multiply; blocks on a multiprocessor
  int sums;               // of a thread that multiplies, with those that are promoted

  constexpr int at_launch() const {
    const int even = 65536 / (blocks * (consumers + 1) * 128) / 8 * 8;
    return layout::smaller(even, 248);
  }
  // 40 are enough for any code that copies, 24 for most.
  constexpr int copying() const {
    return (consumers == 2 && sums > 176) || (consumers == 3 && sums > 112) ? 24 : 40;
  }
  constexpr bool moves() const { return at_launch() > copying() && at_launch() < 232; }
  constexpr int multiplying() const {
    if (!moves()) return at_launch();
    const int more = (at_launch() - copying()) / consumers / 8 * 8;
    return layout::smaller(at_launch() + more, 240);
  }
};

}  // namespace tilewise::wgmma
