// From a block's number to its work: a tile of C, a part of k, a product of the batch.
#pragma once
#include "parts/arguments.cuh"
#include "parts/groups.cuh"

// SPLIT 1: the blocks of one tile of C share its k.
#ifndef SPLIT
#define SPLIT 0
#endif

// The tile of C with number `index`. The tile order has groups of GROUP_M tile rows, and goes down each column of a group
// before the next column: blocks that run at the same time share operand tiles in L2. The grid is one-dimensional, since
// its x alone may exceed 65535.
struct Tile {
  Int64 row, column;  // of the tile's first element
  int split;
  int batch = 0;  // the product's number
#if GROUPED
  Int64 row_end = 0;  // of the product's rows
  bool only_row = false;  // of tiles, of the product: its B is read once
#endif

  // Whether there is a tile: with GROUPED the number of blocks is that of the most tiles.
  DEVICE_MEMBER bool any() const {
#if GROUPED
    return row < row_end;
#else
    return true;
#endif
  }
};

// Where the rows of a tile's product end, in A and C.
DEVICE Int64 row_end_of([[maybe_unused]] const MultiplyArgs& args, [[maybe_unused]] const Tile& tile) {
#if GROUPED
  return tile.row_end;  //@ schedule-row-end
#else
  return args.rows();
#endif
}
// The place of an element of a tile.
DEVICE Place place_of(const Tile& tile, Int64 row, Int64 column) {
#if GROUPED && POINTWISE
  return {row, column, tile.batch, tile.row_end};
#else
  return {row, column, tile.batch};
#endif
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
DEVICE TilePlace tile_place(const TileOrder& order, unsigned index) {
  const unsigned first = order.by_tiles_of_group.quotient(index) * order.group_m;
  const bool last = order.tiles_m - first < order.group_m;
  const unsigned rows = last ? order.tiles_m - first : order.group_m;
  const unsigned inside = index - first * order.tiles_n;
  const unsigned column = (last ? order.by_last_group_m : order.by_group_m).quotient(inside);
  return {first + inside - column * rows, column};
}

// The same without a TileOrder.
DEVICE Tile tile_at(Int64 m, Int64 n, int group_m, unsigned index, int tile_m, int tile_n) {
  const unsigned tiles_m = static_cast<unsigned>((m + tile_m - 1) / tile_m);
  const unsigned tiles_n = static_cast<unsigned>((n + tile_n - 1) / tile_n);
  const unsigned split = index / (tiles_m * tiles_n);
  index -= split * tiles_m * tiles_n;
  const TilePlace place = tile_place(tiles_m, tiles_n, static_cast<unsigned>(group_m), index);
  return {static_cast<Int64>(place.row) * tile_m, static_cast<Int64>(place.column) * tile_n,
          static_cast<int>(split)};
}

// Tiles of C of one product.
DEVICE unsigned tile_count(const MultiplyArgs& args, [[maybe_unused]] int tile_m, [[maybe_unused]] int tile_n) {
#if SPECIALIZE_SIZE
  return unsigned((SIZE_M + tile_m - 1) / tile_m) * unsigned((SIZE_N + tile_n - 1) / tile_n);
#else
  return args.order.tiles_m * args.order.tiles_n;
#endif
}

// A tile of one product, by tile + tiles x split.
DEVICE Tile tile_of_product(const MultiplyArgs& args, unsigned index, int tile_m, int tile_n) {
#if SPECIALIZE_SIZE
  return tile_at(SIZE_M, SIZE_N, TILE_ROWS_TOGETHER, index, tile_m, tile_n);
#else
  const unsigned split = SPLIT ? args.order.by_tiles.quotient(index) : 0;
  if (SPLIT) index -= split * tile_count(args, tile_m, tile_n);
  const TilePlace place = tile_place(args.order, index);
  return {static_cast<Int64>(place.row) * tile_m, static_cast<Int64>(place.column) * tile_n,
          static_cast<int>(split)};
#endif
}

#if GROUPED
// The nth tile of a product. The products' tile rows are numbered through, and so are their tiles: those of a product have
// the numbers from tiles_before x tiles_n on.
DEVICE Tile tile_of_group(const MultiplyArgs& args, const GroupRows& rows, unsigned index, int tile_m, int tile_n) {
  const unsigned tiles_m = (static_cast<unsigned>(rows.end - rows.begin) + tile_m - 1) / tile_m;
  const TilePlace place =
      tile_place(tiles_m, args.order.tiles_n, args.order.group_m, index - rows.tiles_before * args.order.tiles_n);
  return {rows.begin + static_cast<Int64>(place.row) * tile_m, static_cast<Int64>(place.column) * tile_n, 0, rows.group, rows.end,
          tiles_m == 1};
}
#endif

// The block's tile, by its number: tile + tiles x (split + splits x product).
DEVICE Tile tile_of_block(const MultiplyArgs& args, int tile_m, int tile_n) {
#if GROUPED
  const GroupRows rows = group_of_tile_row(args, tile_m, args.order.by_tiles_of_product.quotient(blockIdx.x));
  if (rows.begin == rows.end) return {0, 0, 0};
  return tile_of_group(args, rows, blockIdx.x, tile_m, tile_n);
#else
  unsigned index = blockIdx.x, product = 0;
#if BATCHED
  const unsigned tiles = tile_count(args, tile_m, tile_n) * unsigned(args.parts());
#if SPECIALIZE_SIZE
  product = index / tiles;
#else
  product = args.order.by_tiles_of_product.quotient(index);
#endif
  index -= product * tiles;
#endif
  Tile tile = tile_of_product(args, index, tile_m, tile_n);
  tile.batch = static_cast<int>(product);
  return tile;
#endif
}

// A block's work: a tile of C of one product, for all of k or for one part of it (split).
struct WorkTile {
  Tile tile;
  const Element* a;  // the product's operands
  const ElementB* b;
  Result* c;
  Sum* partial;  // [m][n], the split's sums; used instead of c when SPLIT
};

// An operand of a product. Where k is 0 the array of pointers is not read: it may be null.
template <bool BY_POINTERS, class T>
DEVICE const T* operand_of(const MultiplyArgs& args, const T* base, Int64 stride, Int64 product) {
  if (BY_POINTERS && args.k == 0) return nullptr;
  return matrix_of<BY_POINTERS>(base, stride, product);
}

DEVICE WorkTile work_tile_of_block(const MultiplyArgs& args, int tile_m, int tile_n) {
  const Tile tile = tile_of_block(args, tile_m, tile_n);
  const Int64 product = tile.batch;
  return {tile, operand_of<POINTERS_A != 0>(args, args.a, args.stride_a, product),
          operand_of<POINTERS_B != 0>(args, args.b, args.stride_b / kPerElementB, product),  //@ schedule-b
          matrix_of<POINTERS_C != 0>(args.c, args.stride_c, product),
          reinterpret_cast<Sum*>(args.c) + (product * args.parts() + tile.split) * args.rows() * args.columns()};
}

// Tiles of k, TileK steps each (MultiplyShape::tile_k), of one of args.parts() parts (Split), else of all of k. The last
// part may be short or empty. Kernels compute the ends of a part themselves: a function that returns both uses other registers.
template <bool Split, int TileK>
DEVICE Int64 k_share(const MultiplyArgs& args) {
#if SPECIALIZE_SIZE
  constexpr Int64 TILES = (SIZE_K + TileK - 1) / TileK;
  return Split ? (TILES + SPLITS - 1) / SPLITS : TILES;
#else
  return args.part_tiles;  //@ schedule-part-tiles
#endif
}

// Persistent clusters of `Blocks` blocks: there may be fewer than work items. Cluster i takes items i, i + step,
// i + 2 step, ... below `items`. An item's number is tile + tiles x (split + splits x product); a tile, TileM x TileN, is
// that of a whole cluster.
template <int TileM, int TileN, int Blocks>
struct WorkQueue {
  const MultiplyArgs& args;
  unsigned first, step, items;

#if GROUPED
  GroupTable table;
  bool interleave;
  DEVICE_MEMBER WorkQueue(const MultiplyArgs& of, const GroupTable& of_groups, bool interleave)
      : args(of),
        first(blockIdx.x / Blocks),
        step(gridDim.x / Blocks),
        items(of_groups.all() * of.order.tiles_n),
        table(of_groups),
        interleave(interleave) {}
  DEVICE_MEMBER Tile tile(unsigned index) const {
    if (interleave) index = interleaved(index);
    const GroupRows rows = table.group_of(args.order.by_tiles_of_product.quotient(index));  //@ schedule-group
    return tile_of_group(args, rows, index, TileM, TileN);
  }
  // The items as two halves, one of each in turn: items of products of few rows wait for memory while items of others
  // multiply. Each cluster takes items from both halves in turn, too.
  DEVICE_MEMBER unsigned interleaved(unsigned index) const {
    if (items % 2 == 1 && index == items - 1) return index;
    const unsigned turn = step % 2 == 0 ? index + index / step : index;
    return (turn % 2 == 0 ? 0 : items / 2) + index / 2;  //@ schedule-interleaved
  }
#else
  // batch: the number of products.
  DEVICE_MEMBER WorkQueue(const MultiplyArgs& of, int batch)
      : args(of), first(blockIdx.x / Blocks), step(gridDim.x / Blocks), items(of_product()) {
    if (BATCHED || OF_HALVES) items *= static_cast<unsigned>(batch);
  }
  DEVICE_MEMBER Tile tile(unsigned index) const {
    const unsigned product = BATCHED ? args.order.by_tiles_of_product.quotient(index) : 0;
    Tile tile = tile_of_product(args, BATCHED ? index - product * of_product() : index, TileM, TileN);
    tile.batch = static_cast<int>(product);
    return tile;
  }

 private:
  DEVICE_MEMBER unsigned of_product() const {  // items
    return tile_count(args, TileM, TileN) * (SPLIT ? unsigned(args.parts()) : 1);
  }
#endif
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
