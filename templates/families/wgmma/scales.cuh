// SCALES 1: the scales of blocks of k that a thread of wgmma multiplies its sums by (parts/pointwise.cuh).
#pragma once
#include "families/wgmma/work_item.cuh"

#if SCALES
static_assert(NARROW_LEFT ? kScaledSteps % TILE_K == 0 : kScaledSteps == TILE_K, "a tile of k has one scale");
constexpr int kTilesOfScale = kScaledSteps / TILE_K;
#if SWAP_AB
typedef ScaleOfB ScaleDown;
typedef ScaleOfA ScaleAcross;
#else
typedef ScaleOfA ScaleDown;
typedef ScaleOfB ScaleAcross;
#endif

// The scales of a tile of k, of what a thread's sums belong to: rows and columns of the instruction. As they are stored: a
// conversion would wait for the loads.
struct TileScales {
  // Columns of an instruction that share a scale, and the scales that are held: those of single columns are read where
  // they are used, from `columns` on.
  static constexpr int LOWEST = WGMMA_N & -WGMMA_N, SPAN = LOWEST < ScaleAcross::ALONG ? LOWEST : ScaleAcross::ALONG;
  static constexpr bool BY_COLUMN = ScaleAcross::ALONG == 1;
  static constexpr int HELD = BY_COLUMN ? 1 : kAcross * WGMMA_N / SPAN;
  ScaleDown::Stored down[kBlocks][2];
  ScaleAcross::Stored across[HELD];
  const ScaleAcross::Stored* columns;
};

// Reads a thread's scales of one tile of k after another. Addresses are those of the next tile.
struct ScaleReader {
  const ScaleDown::Stored* down[kBlocks];
  Int64 to_next_half[kBlocks];  // from a row to the eighth one below
  const ScaleAcross::Stored* across[TileScales::HELD];
  Int64 down_step, across_step;
  int last_column;   // inside, from the thread's first one on
  Int64 per_column;  // from a column's scale to the next one's
  int tile;          // the next tile, of those with one scale
  int left;          // blocks of k from the next tile's on
  // Blocks of k whose scales are fetched into the L2 before they are loaded, of a narrow B, as far as there are registers: a
  // tile takes less time than a load from memory.
  static constexpr int AHEAD = NARROW_LEFT && kBlocks == 1 ? 8 : 0;

  // first_row: of the warp in the tile.
  DEVICE_MEMBER ScaleReader(const WgmmaArgs& args, const WorkItem& work, int first_row)
      : down_step(ScaleDown::step(args.pointwise)), across_step(ScaleAcross::step(args.pointwise)) {
    const int lane = int(threadIdx.x) % 32;
    const Int64 block = work.k_begin / kScaledSteps;
    tile = work.k_begin / TILE_K % kTilesOfScale;
    left = int((args.steps() + kScaledSteps - 1) / kScaledSteps - block);
    const Int64 row = (SWAP_AB ? work.column : work.row) + Int64(first_row + lane / 4),
                last_row = (SWAP_AB ? args.columns() : work.end_of_rows(args)) - 1;
    const Int64 column = SWAP_AB ? work.row : work.column,
                last = (SWAP_AB ? work.end_of_rows(args) : args.columns()) - 1;
    const auto inside = [](Int64 place, Int64 most) { return place < most ? place : most; };
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      const auto at = [&](int nth) {
        return ScaleDown::address(args.pointwise, work.product, inside(row + i * 64 + nth, last_row), block);
      };
      down[i] = at(0);
      to_next_half[i] = at(8) - at(0);  //@ wgmma-scale-down
    }
    UNROLL_ALL
    for (int h = 0; h < TileScales::HELD; ++h) {
      const int first = TileScales::BY_COLUMN ? lane % 4 * 2 : h * TileScales::SPAN;
      across[h] = ScaleAcross::address(args.pointwise, work.product, inside(column + first, last), block);
    }
    const Int64 left = last - column - lane % 4 * 2;
    last_column = left < 0 ? 0 : (left < kRightSpan ? int(left) : kRightSpan);
    per_column = ScaleAcross::address(args.pointwise, 0, 1, 0) - ScaleAcross::address(args.pointwise, 0, 0, 0);
    for (int nth = 1; nth < AHEAD; ++nth) prefetch(nth);
  }
  // Of a block of k, `nth` blocks on.
  DEVICE_MEMBER void prefetch(int nth) const {
    if (nth >= left) return;
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      prefetch_l2(down[i] + nth * down_step);
      prefetch_l2(down[i] + to_next_half[i] + nth * down_step);
    }
  }
  // Those of the next tile.
  DEVICE_MEMBER void load(TileScales& to) {
    const bool last = kTilesOfScale == 1 || ++tile == kTilesOfScale;  //@ wgmma-last-of-scale
    if (AHEAD > 0 && last) prefetch(AHEAD);
    if (last) tile = 0, --left;
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      to.down[i][0] = ScaleDown::load(down[i]);
      to.down[i][1] = ScaleDown::load(down[i] + to_next_half[i]);
      if (last) down[i] += down_step;
    }
    to.columns = across[0];
    UNROLL_ALL
    for (int h = 0; h < TileScales::HELD; ++h) {
      if (!TileScales::BY_COLUMN) to.across[h] = ScaleAcross::load(across[h]);
      if (last) across[h] += across_step;
    }
  }
  // Of register j of the instruction `nth` of those side by side.
  DEVICE_MEMBER Sum across_of(const TileScales& scales, int nth, int j) const {
    const int column = nth * WGMMA_N + j / 4 * 8;
    if constexpr (TileScales::BY_COLUMN) {
      const int at = column + j % 2;
      return ScaleAcross::widen(ScaleAcross::load(scales.columns + (at < last_column ? at : last_column) * per_column));
    } else {
      return ScaleAcross::widen(scales.across[column / TileScales::SPAN]);  //@ wgmma-scale-across
    }
  }
};
#else
struct TileScales {};
struct ScaleReader {
  DEVICE_MEMBER ScaleReader(const WgmmaArgs&, const WorkItem&, int) {}
  DEVICE_MEMBER void load(TileScales&) const {}
};
#endif

// Adds the sums of a tile of k, or of a part of k, each times its scale.
#if PROMOTE
template <int BLOCKS>
DEVICE void promote(Sums& sums, const Sums& of_tile, [[maybe_unused]] const ScaleReader& reader,
                    [[maybe_unused]] const TileScales& scales) {
  UNROLL_ALL
  for (int i = 0; i < BLOCKS * kAcross; ++i) {
    UNROLL_ALL
    for (int j = 0; j < WGMMA_N / 2; ++j) {
#if SCALES
      const Sum scale = ScaleDown::widen(scales.down[i / kAcross][j / 2 % 2]) * reader.across_of(scales, i % kAcross, j);
      sums[i][j] = multiply_add(of_tile[i][j], scale, sums[i][j]);  //@ wgmma-scale
#else
      sums[i][j] = add(sums[i][j], of_tile[i][j]);
#endif
    }
  }
}
#endif
