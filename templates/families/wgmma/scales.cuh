// SCALES 1: the scales of blocks of k that a thread of wgmma multiplies its sums by (parts/pointwise.cuh).
#pragma once
#include "families/wgmma/work_item.cuh"

// What is subtracted from a thread's numbers of B in a tile of k, of each of its rows of the instruction.
struct ZeroPairs {
  unsigned of[kBlocks][2];
};
#if !ZERO_POINTS
struct ZeroReader {
  DEVICE_MEMBER ZeroReader() {}
  DEVICE_MEMBER ZeroReader(const WgmmaArgs&, const WorkItem&, int) {}
  DEVICE_MEMBER void load() const {}
  DEVICE_MEMBER void widen([[maybe_unused]] ZeroPairs& zeros, bool) const {
#if NARROW_LEFT
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) zeros.of[i][0] = zeros.of[i][1] = Weights::NOTHING;
#endif
  }
};
#endif

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

// Reads the numbers of an operand that belong to a thread's rows of the instruction, of one tile of k after another. Addresses
// are those of the next tile.
template <class Operand>
struct RowReader {
  typedef typename Operand::Stored Stored;
  const Stored* at[kBlocks];
  Int64 to_next_half[kBlocks];  // from a row to the eighth one below
  Int64 step;
  int tile;  // the next tile, of those of one block of k
  int left;  // blocks of k from the next tile's on
  // Blocks of k whose numbers are fetched into the L2 before they are loaded, of a narrow B, as far as there are registers: a
  // tile takes less time than a load from memory.
  static constexpr int AHEAD = NARROW_LEFT && kBlocks == 1 ? 8 : 0;

  // first_row: of the warp in the tile.
  DEVICE_MEMBER RowReader(const WgmmaArgs& args, const WorkItem& work, int first_row) : step(Operand::step(args.pointwise)) {
    const Int64 block = work.k_begin / kScaledSteps;
    tile = work.k_begin / TILE_K % kTilesOfScale;
    left = int((args.steps() + kScaledSteps - 1) / kScaledSteps - block);
    const Int64 row = (SWAP_AB ? work.column : work.row) + Int64(first_row + int(threadIdx.x) % 32 / 4),
                last_row = (SWAP_AB ? args.columns() : work.end_of_rows(args)) - 1;
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      const auto address = [&](int nth) {
        const Int64 place = row + i * 64 + nth;
        return Operand::address(args.pointwise, work.product, place < last_row ? place : last_row, block);
      };
      at[i] = address(0);
      to_next_half[i] = address(8) - address(0);  //@ wgmma-scale-down
    }
    for (int nth = 1; nth < AHEAD; ++nth) prefetch(nth);
  }
  // Of a block of k, `nth` blocks on.
  DEVICE_MEMBER void prefetch(int nth) const {
    if (nth >= left) return;
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      prefetch_l2(at[i] + nth * step);
      prefetch_l2(at[i] + to_next_half[i] + nth * step);
    }
  }
  // Those of the next tile. Returns whether it is the last one of its block of k.
  DEVICE_MEMBER bool load(Stored (&to)[kBlocks][2]) {
    const bool last = kTilesOfScale == 1 || ++tile == kTilesOfScale;  //@ wgmma-last-of-scale
    if (AHEAD > 0 && last) prefetch(AHEAD);
    if (last) tile = 0, --left;
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      to[i][0] = Operand::load(at[i]);
      to[i][1] = Operand::load(at[i] + to_next_half[i]);
      if (last) at[i] += step;
    }
    return last;
  }
};

#if ZERO_POINTS
static_assert(NARROW_LEFT, "B is the left operand");
// Reads a thread's zero points of one tile of k after another, and holds those of the next tile as they are stored.
struct ZeroReader {
  RowReader<ZeroOfB> rows;
  ZeroOfB::Stored next[kBlocks][2];

  DEVICE_MEMBER ZeroReader(const WgmmaArgs& args, const WorkItem& work, int first_row) : rows(args, work, first_row) {}
  // Those of the first tile.
  DEVICE_MEMBER void load() { rows.load(next); }
  // Those of the next tile; more: there is one behind it, whose zero points are on their way afterwards.
  DEVICE_MEMBER void widen(ZeroPairs& zeros, bool more) {
    UNROLL_ALL
    for (int i = 0; i < kBlocks; ++i) {
      UNROLL_ALL
      for (int half = 0; half < 2; ++half) zeros.of[i][half] = Weights::taken_of(ZeroOfB::widen(next[i][half]));  //@ wgmma-zero-pair
    }
    if (more) rows.load(next);  //@ wgmma-next-zeros
  }
};
#endif

// Reads a thread's scales of one tile of k after another. Addresses are those of the next tile.
struct ScaleReader {
  RowReader<ScaleDown> down;
  ZeroReader zeros;
  const ScaleAcross::Stored* across[TileScales::HELD];
  Int64 across_step;
  int last_column;   // inside, from the thread's first one on
  Int64 per_column;  // from a column's scale to the next one's

  // first_row: of the warp in the tile.
  DEVICE_MEMBER ScaleReader(const WgmmaArgs& args, const WorkItem& work, int first_row)
      : down(args, work, first_row), zeros(args, work, first_row), across_step(ScaleAcross::step(args.pointwise)) {
    const int lane = int(threadIdx.x) % 32;
    const Int64 block = work.k_begin / kScaledSteps;
    const Int64 column = SWAP_AB ? work.row : work.column,
                last = (SWAP_AB ? work.end_of_rows(args) : args.columns()) - 1;
    UNROLL_ALL
    for (int h = 0; h < TileScales::HELD; ++h) {
      const Int64 first = column + (TileScales::BY_COLUMN ? lane % 4 * 2 : h * TileScales::SPAN);
      across[h] = ScaleAcross::address(args.pointwise, work.product, first < last ? first : last, block);
    }
    const Int64 left = last - column - lane % 4 * 2;
    last_column = left < 0 ? 0 : (left < kRightSpan ? int(left) : kRightSpan);
    per_column = ScaleAcross::address(args.pointwise, 0, 1, 0) - ScaleAcross::address(args.pointwise, 0, 0, 0);
  }
  // Those of the next tile.
  DEVICE_MEMBER void load(TileScales& to) {
    const bool last = down.load(to.down);
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
  ZeroReader zeros;
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
