// From a block's number to its work: a tile of C, a part of k, a product of the batch.
#pragma once
#include "parts/arguments.cuh"

// The tile of C with number `index`. The tile order has groups of GROUP_M tile rows, and goes down each column of a group
// before the next column: blocks that run at the same time share operand tiles in L2. The grid is one-dimensional, since
// its x alone may exceed 65535.
struct Tile {
  Int64 row, column;  // of the tile's first element
  int split;
  int batch = 0;  // the product's number
};

DEVICE Int64 tile_count(Int64 m, Int64 n, int tile_m, int tile_n) {
  return (m + tile_m - 1) / tile_m * ((n + tile_n - 1) / tile_n);
}

// A tile's row and column, counted in tiles.
struct TilePlace {
  unsigned row, column;
};
DEVICE TilePlace tile_place(unsigned tiles_m, unsigned tiles_n, unsigned group_m, unsigned index) {
  const unsigned group = index / (group_m * tiles_n);
  const unsigned first = group * group_m;
  const unsigned rows = tiles_m - first < group_m ? tiles_m - first : group_m;
  const unsigned inside = index - first * tiles_n;
  return {first + inside % rows, inside / rows};
}

DEVICE Tile tile_at(Int64 m, Int64 n, int tile_rows_together, unsigned index, int tile_m, int tile_n) {
  const unsigned tiles_m = static_cast<unsigned>((m + tile_m - 1) / tile_m);
  const unsigned tiles_n = static_cast<unsigned>((n + tile_n - 1) / tile_n);
  const unsigned split = index / (tiles_m * tiles_n);
  index -= split * tiles_m * tiles_n;
  const TilePlace place = tile_place(tiles_m, tiles_n, static_cast<unsigned>(tile_rows_together), index);
  return {static_cast<Int64>(place.row) * tile_m, static_cast<Int64>(place.column) * tile_n,
          static_cast<int>(split)};
}

// A block's work: a tile of C of one product, for all of k or for one part of it (split).
// A block's number is tile + tiles x (split + splits x batch).
struct WorkTile {
  Tile tile;
  const Element* a;  // the product's operands
  const Element* b;
  Result* c;
  Sum* partial;  // [m][n], the split's sums; used instead of c when SPLIT
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

// Tiles of k, TileK steps each, of one of args.parts() parts (Split), else of all of k. The last part may be short or
// empty. Kernels compute the ends of a part themselves: a function that returns both uses other registers.
template <bool Split, int TileK>
DEVICE Int64 k_share(const MultiplyArgs& args) {
  const Int64 tiles = (args.steps() + TileK - 1) / TileK;
  return Split ? (tiles + args.parts() - 1) / args.parts() : tiles;  //@ schedule-split-share
}

// Persistent clusters of `Blocks` blocks: there may be fewer than work items. Cluster i takes items i, i + step,
// i + 2 step, ... below `items`. An item's number is tile + tiles x (split + splits x batch); a tile, TileM x TileN, is
// that of a whole cluster. Sizes are below 2^31: numbers of 32 bits take fewer instructions before the first copy.
template <int TileM, int TileN, int Blocks, bool Split>
struct WorkQueue {
  unsigned tiles_m, tiles_n, group_m;
  unsigned first, step, items;
  unsigned of_product;  // items

  // batch: the number of products.
  DEVICE_MEMBER WorkQueue(const MultiplyArgs& args, int batch)
      : tiles_m((static_cast<unsigned>(args.rows()) + TileM - 1) / TileM),
        tiles_n((static_cast<unsigned>(args.columns()) + TileN - 1) / TileN),
        group_m(static_cast<unsigned>(args.tile_rows_together())),
        first(blockIdx.x / Blocks),
        step(gridDim.x / Blocks),
        items(tiles_m * tiles_n * (Split ? unsigned(args.parts()) : 1)),
        of_product(items) {
    if (BATCHED) items *= static_cast<unsigned>(batch);
  }
  DEVICE_MEMBER Tile tile(unsigned index) const {
    const unsigned product = BATCHED ? index / of_product : 0;
    index -= product * of_product;
    const unsigned tiles = tiles_m * tiles_n, split = Split ? index / tiles : 0;
    const TilePlace place = tile_place(tiles_m, tiles_n, group_m, index - split * tiles);
    return {static_cast<Int64>(place.row) * TileM, static_cast<Int64>(place.column) * TileN,
            static_cast<int>(split), static_cast<int>(product)};
  }
};

// stream-K. Each of the first `whole_tiles` tiles of C has a block of its own. The other tiles are shared: their tiles of
// k, `depth` for each tile of C, are numbered through, and each block has a range of `share` of them. A range is the end
// of one tile's k, and may include the beginning of the next one's.
struct StreamKPart {
  Int64 index, first, last;  // of a tile of C; its tiles of k: first to last - 1
};
struct StreamKRange {
  int shared_block;  // number among the blocks that share tiles; negative: the block has a tile of its own
  Int64 from, to;    // tiles of k, numbered through all tiles of C
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
