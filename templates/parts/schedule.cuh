// From a block's number to its work: a tile of C, a part of k, a product of the batch.
#pragma once
#include "parts/arguments.cuh"

// Which output tile is the index-th, as a block of the one-dimensional grid works on it. Tiles are walked in groups of
// GROUP_M tile rows, down each column of the group before going right, so that blocks running at the
// same time share operand tiles in L2. The grid is one-dimensional since its x alone may pass 65535.
struct Tile {
  Int64 row, column;  // of the tile's first element
  int split;
};

DEVICE Int64 tile_count(Int64 m, Int64 n, int tile_m, int tile_n) {
  return (m + tile_m - 1) / tile_m * ((n + tile_n - 1) / tile_n);
}

DEVICE Tile tile_at(Int64 m, Int64 n, int tile_rows_together, unsigned index, int tile_m, int tile_n) {
  const unsigned tiles_m = static_cast<unsigned>((m + tile_m - 1) / tile_m);
  const unsigned tiles_n = static_cast<unsigned>((n + tile_n - 1) / tile_n);
  const unsigned split = index / (tiles_m * tiles_n);
  index -= split * tiles_m * tiles_n;
  const unsigned group_m = static_cast<unsigned>(tile_rows_together);
  const unsigned group = index / (group_m * tiles_n);
  const unsigned first = group * group_m;
  const unsigned rows = tiles_m - first < group_m ? tiles_m - first : group_m;
  const unsigned inside = index - first * tiles_n;
  return {static_cast<Int64>(first + inside % rows) * tile_m,
          static_cast<Int64>(inside / rows) * tile_n, static_cast<int>(split)};
}

// A block's work: a tile of C of one product, or its part of k of it.
// A block's number is tile + tiles x (split + splits x batch).
struct WorkTile {
  Tile tile;
  const Element* a;  // the product's operands
  const Element* b;
  Result* c;
  Sum* partial;  // [m][n], this split's sums: instead of c when SPLIT
};

DEVICE WorkTile work_tile_of_block(const MultiplyArgs& args, int tile_m, int tile_n) {
  unsigned index = blockIdx.x;
  Int64 batch = 0;
#if BATCHED
  const unsigned blocks = // of one product
      static_cast<unsigned>(tile_count(args.rows(), args.columns(), tile_m, tile_n)) * unsigned(args.parts());
  batch = index / blocks;
  index %= blocks;
#endif
  const Tile tile = tile_at(args.rows(), args.columns(), args.tile_rows_together(), index, tile_m, tile_n);
  return {tile, args.a + batch * args.stride_a, args.b + batch * args.stride_b,
          args.c + batch * args.stride_c,
          reinterpret_cast<Sum*>(args.c) + (batch * args.parts() + tile.split) * args.rows() * args.columns()};
}

// Where k is split into args.parts() parts (Split), the tiles of TileK steps of a part; the last part may be short or
// empty. Else all tiles of k. A kernel finds the part's ends itself: a function that returns both compiles to other
// registers.
template <bool Split, int TileK>
DEVICE Int64 k_share(const MultiplyArgs& args) {
  const Int64 tiles = (args.steps() + TileK - 1) / TileK;
  return Split ? (tiles + args.parts() - 1) / args.parts() : tiles;  //@ schedule-split-share
}

// stream-K. Tiles of C up to `whole_tiles` are one block's each. The tiles of k of the others, `depth` a tile of C, are
// counted through and dealt out evenly: `share` to a block, so that a block has the end of one tile and maybe the
// beginning of the next.
struct StreamKPart {
  Int64 index, first, last;  // a tile of C, and of its k the tiles first to last - 1
};
struct StreamKRange {
  int shared_block;  // below 0: the block has a tile of C of its own
  Int64 from, to;    // tiles of k, counted through all tiles of C
  Int64 depth;

  DEVICE_MEMBER StreamKRange(int whole_tiles, Int64 tile_depth, int share, Int64 tiles) : depth(tile_depth) {
    shared_block = int(blockIdx.x) - whole_tiles;
    const Int64 shared_begin = whole_tiles * depth;
    const Int64 end = tiles * depth;
    from = shared_block < 0 ? blockIdx.x * depth : shared_begin + Int64(shared_block) * share;
    to = from + (shared_block < 0 ? depth : share);
    if (to > end) to = end;
  }
  DEVICE_MEMBER bool any() const { return from < to; }
  DEVICE_MEMBER StreamKPart part() const {
    const Int64 index = from / depth, first = from - index * depth;
    return {index, first, first + (to - from) < depth ? first + (to - from) : depth};
  }
  DEVICE_MEMBER void advance(const StreamKPart& done) { from += done.last - done.first; }
};
