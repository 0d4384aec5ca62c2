// narrow's tiles: their sizes, and the copies into shared memory. See narrow.cu.
#pragma once
#include "families/narrow/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#include "words/narrow.cuh"

static_assert(!A_TRANSPOSED && B_TRANSPOSED, "k is contiguous");

typedef Narrow<ELEMENT_B, ELEMENT, ZERO_POINTS != 0> Weights;
constexpr int kBitsB = 16 / Weights::PAIRS;
#if SCALES
constexpr int kBytesOfScale = int(sizeof(ScaleOfB::Stored)), kStepsOfScale = kScaledSteps;
#else
constexpr int kBytesOfScale = 0, kStepsOfScale = TILE_K;
#endif
#if ZERO_POINTS
typedef ZeroOfB::Stored Zero;
constexpr int kBytesOfZero = int(sizeof(Zero));
#else
constexpr int kBytesOfZero = 0;
#endif
constexpr int kTileN = 16 * BLOCKS * WARPS_N;
constexpr tilewise::narrow::BlockLayout kLayout = {TILE_M, kTileN, TILE_K, WARPS_N, WARPS_K, STAGES, kBitsB, kBytesOfScale,
                                                   kStepsOfScale, kBytesOfZero};
constexpr int kUnit = tilewise::narrow::kUnit;
constexpr int kThreads = kLayout.threads();
constexpr int kColumns = TILE_M / 8;  // instructions side by side along m
constexpr int kSlice = TILE_K / WARPS_K;  // of a tile's k, of a warp
static_assert(TILE_M % 8 == 0, "an instruction has 8 rows of C");
static_assert(kSlice % kUnit == 0, "a warp's part of a tile is whole units");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
#if SCALES
// Steps of a warp's part of a tile that have one scale.
constexpr int kBlock = kScaledSteps < kSlice ? kScaledSteps : kSlice;
static_assert(kSlice % kBlock == 0 && kBlock % kUnit == 0, "a warp's part of a tile is whole blocks of k");
static_assert(kScaledSteps % kBlock == 0, "a warp's part of a tile is in one block of k, or has whole ones");
#endif

// Copies tiles of an operand: ROWS rows of ROW_BYTES each, STRIDE bytes apart. Rows that do not exist are not copied: their
// sums are not stored. Bytes behind the last step of k become zeros.
template <int ROWS, int ROW_BYTES, int STRIDE, int BYTES>
struct Copies {
  static constexpr int ACROSS = ROW_BYTES / BYTES, ALL = ROWS * ACROSS;
  const char* from;  // the thread's first copy of the part's first tile
  Int64 ld;          // bytes
  int to_row, to_byte;  // of the copy, in a tile
  int rows;             // that exist, from the thread's first one on
  bool all_rows;

  DEVICE_MEMBER Copies(const char* first, Int64 row_bytes, int of_tile) : ld(row_bytes), all_rows(of_tile == ROWS) {
    const int row = int(threadIdx.x) / ACROSS, at = int(threadIdx.x) % ACROSS * BYTES;
    from = first + row * ld + at;
    to_row = row, to_byte = at;
    rows = of_tile - row;
  }
  // left: bytes of a row that exist, from the tile's first one on.
  DEVICE_MEMBER void copy(char* stage, Int64 tile, int left) const {
    if (all_rows && left >= ROW_BYTES)
      copy_all<true>(stage, tile, left);
    else
      copy_all<false>(stage, tile, left);
  }
  template <bool WHOLE>
  DEVICE_MEMBER void copy_all(char* stage, Int64 tile, int left) const {
    const char* here = from + tile * ROW_BYTES;
    UNROLL_ALL
    for (int first = 0; first < ALL; first += kThreads) {
      const int row = first / ACROSS, at = first % ACROSS * BYTES;
      if (ALL % kThreads != 0 && first + int(threadIdx.x) >= ALL) break;
      if (!WHOLE && row >= rows) break;
      const int valid = WHOLE ? BYTES : left - at - int(threadIdx.x) % ACROSS * BYTES;
      copy_bytes_async<BYTES>(stage + (to_row + row) * STRIDE + to_byte + at, valid > 0 ? here + row * ld + at : from, valid);  //@ narrow-copy
    }
  }
};

#if SCALES
typedef ScaleOfB::Stored Scale;
constexpr int kBlocksOfTile = kLayout.blocks_of_tile();

// The scales or zero points of B that belong to a tile: [kBlocksOfTile][kTileN] in shared memory. Those outside become 0.
template <class Operand>
struct BlockTiles {
  typedef typename Operand::Stored Stored;
  const Stored* first;  // of the block's first column
  Int64 per_column, per_block;  // elements
  int columns;
  Int64 at, blocks;  // the part's first step of k; blocks of k up to the part's end
  bool in_runs;  // copied 16 bytes at a time

  static constexpr int RUN = 16 / int(sizeof(Stored));

  DEVICE_MEMBER BlockTiles(const MultiplyArgs& args, const Tile& tile, Int64 begin, Int64 steps)
      : at(begin), blocks((begin + steps + kScaledSteps - 1) / kScaledSteps) {
    const Int64 left = args.n - tile.column;
    const auto address = [&](Int64 column, Int64 nth) { return Operand::address(args.pointwise, tile.batch, column, nth); };
    first = address(tile.column, 0);
    per_column = address(1, 0) - address(0, 0);
    per_block = Operand::step(args.pointwise);
    columns = left < kTileN ? int(left) : kTileN;
    in_runs = per_column == 1 && (reinterpret_cast<UInt64>(first) | UInt64(per_block) * sizeof(Stored)) % 16 == 0;
  }
  DEVICE_MEMBER void copy(Stored* to, Int64 tile) const {
    const Int64 of_tile = (at + tile * TILE_K) / kScaledSteps;
    if (in_runs) {
      for (int nth = threadIdx.x; nth < kBlocksOfTile * kTileN / RUN; nth += kThreads) {
        const Int64 block = of_tile + nth / (kTileN / RUN);
        const int column = nth % (kTileN / RUN) * RUN, valid = block < blocks ? (columns - column) * int(sizeof(Stored)) : 0;
        copy_bytes_async<16>(to + nth * RUN, first + (valid > 0 ? block * per_block + column : 0), valid);  //@ narrow-scales
      }
    } else {
      for (int nth = threadIdx.x; nth < kBlocksOfTile * kTileN; nth += kThreads) {
        const Int64 block = of_tile + nth / kTileN;
        const int column = nth % kTileN;
        const bool inside = block < blocks && column < columns;
        to[nth] = inside ? first[block * per_block + column * per_column] : Stored(0);  //@ narrow-scale
      }
    }
  }
};
#endif

typedef Copies<TILE_M, kLayout.row_bytes_a(), kLayout.stride_a(), BYTES_A> CopiesOfA;
typedef Copies<kTileN, kLayout.row_bytes_b(), kLayout.stride_b(), BYTES_B> CopiesOfB;
