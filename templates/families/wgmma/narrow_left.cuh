// NARROW_LEFT 1: the main loop of the warpgroups that multiply, where the left operand has elements of 4 or 8 bits. A thread
// widens its elements in registers, from where the instruction takes them.
//
// Four lanes have a row. Lane l of these has steps 2 l and 2 l + 1 of each eight steps of k: the order is the instruction's.
// All four read the same 16 bytes.
#pragma once
#include "families/wgmma/scales.cuh"

#if NARROW_LEFT
// The lane's elements of a unit, of its two rows of a block of 64.
struct NarrowRows {
  static constexpr int UNIT = 32;                   // steps of k that are widened at a time
  static constexpr int WORDS = kBitsB * UNIT / 32;  // of a row
  unsigned words[2][WORDS];

  // The place of the thread's first row in a stage; first: the warpgroup's first block. A row's 16 bytes are where the swizzle
  // has them: load() flips bits of the place.
  static DEVICE_MEMBER int first_byte(int first) {
    const int row = int(threadIdx.x) / 32 % 4 * 16 + int(threadIdx.x) % 32 / 4;
    return first * 64 * Left::kTile.width() + swizzled<Left::kTile.width()>(row * Left::kTile.width());  //@ wgmma-narrow-row
  }
  // stages: aligned to 1024 bytes.
  DEVICE_MEMBER void load(const char* stages, int row, int block, int unit) {
    constexpr int WIDTH = Left::kTile.width();
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      UNROLL_ALL
      for (int w = 0; w < WORDS; w += 4) {
        const int byte = (unit * WORDS + w) * 4;
        const int at = (row ^ byte % WIDTH) + (block * 64 + half * 8) * WIDTH + byte / WIDTH * Left::kTile.panel_bytes();  //@ wgmma-narrow-byte
        unsigned some[4];
        load_vector<4>(some, reinterpret_cast<const unsigned*>(stages + at));
        UNROLL_ALL
        for (int i = 0; i < 4; ++i) words[half][w + i] = some[i];
      }
    }
  }
  // As the words of the instruction, of each of its steps of a unit. zeros: of the lane's two rows.
  DEVICE_MEMBER void widen(unsigned (&left)[UNIT / 16][4], const unsigned (&zeros)[2], unsigned (&nans)[2]) const {
    const int pair = int(threadIdx.x) % 4;
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      UNROLL_ALL
      for (int eighth = 0; eighth < UNIT / 8; ++eighth) {
        unsigned& to = left[eighth / 2][eighth % 2 * 2 + half];  //@ wgmma-narrow-word
        if constexpr (Weights::PAIRS == 4) {
          to = Weights::pair(words[half][eighth], pair, nans[half], zeros[half]);
        } else {
          // The lane's two bytes of eight come to the lowest ones.
          const unsigned two = choose_bytes(words[half][2 * eighth], words[half][2 * eighth + 1], 0x10u + 0x22u * unsigned(pair));  //@ wgmma-two-bytes
          to = Weights::pair(two, 0, nans[half], zeros[half]);  //@ wgmma-zero
        }
      }
    }
  }
};

// A NaN of B makes its column of C NaN: widening gives a number. Bits are set where the thread has found one.
struct NarrowNans {
  unsigned of[kBlocks][2] = {};

  DEVICE_MEMBER void mark([[maybe_unused]] Sums& sums) const {
#if ELEMENT_B == TYPE_E4M3
    UNROLL_ALL
    for (int i = 0; i < kInstructions; ++i) {
      UNROLL_ALL
      for (int half = 0; half < 2; ++half) {
        unsigned any = of[i / kAcross][half];
        any |= shuffle_xor(any, 1);
        any |= shuffle_xor(any, 2);  //@ wgmma-nan-lanes
        UNROLL_ALL
        for (int j = 0; j < WGMMA_N / 2; ++j)
          if (j / 2 % 2 == half && any) sums[i][j] = float_of(0x7fc00000);
      }
    }
#endif
  }
};

// The products of a tile of k.
struct NarrowTile {
  static constexpr int STEPS = NarrowRows::UNIT / 16, UNITS = TILE_K / NarrowRows::UNIT;
  // The left operand's words of a unit. An instruction reads them until the wgmma_wait() that covers it.
  typedef unsigned Words[kBlocks][STEPS][4];
  static_assert(UNITS > 1, "the words of a tile's first unit are free when its last unit is issued");

  const char* stages;
  int row;  // the place of the thread's first row
  MatrixDescriptor right;

  // first: the warpgroup's first block of 64 rows.
  DEVICE_MEMBER NarrowTile(const TilePipeline& pipeline, const StagePhase<STAGES>& at, int first)
      : stages(pipeline.stages),
        row(at.stage * kStageBytes + NarrowRows::first_byte(first)),
        right(Right::descriptor(pipeline.stages + at.stage * kStageBytes + Left::BYTES)) {}

  DEVICE_MEMBER void load(NarrowRows (&rows)[kBlocks], int unit) const {
    UNROLL_ALL
    for (int b = 0; b < kBlocks; ++b) rows[b].load(stages, row, b, unit);
  }
  static DEVICE_MEMBER void widen(Words& words, const NarrowRows (&rows)[kBlocks], const ZeroPairs& zeros, NarrowNans& nans) {
    UNROLL_ALL
    for (int b = 0; b < kBlocks; ++b) rows[b].widen(words[b], zeros.of[b], nans.of[b]);
  }
  // words: of the first unit.
  DEVICE_MEMBER void start(Words& words, const ZeroPairs& zeros, NarrowNans& nans) const {
    NarrowRows rows[kBlocks];
    load(rows, 0);
    widen(words, rows, zeros, nans);
  }
  template <bool KEEP>
  DEVICE_MEMBER void issue(Sums& sums, Words& words, int unit) const {
    UNROLL_ALL
    for (int b = 0; b < kBlocks; ++b) {
      UNROLL_ALL
      for (int step = 0; step < STEPS; ++step) wgmma_settle(words[b][step]);
    }
    wgmma_fence();  //@ wgmma-narrow-fence
    UNROLL_ALL
    for (int step = 0; step < STEPS; ++step) {
      UNROLL_ALL
      for (int i = 0; i < kInstructions; ++i) {
        const MatrixDescriptor at = right.after(Right::offset<WGMMA_N>(i % kAcross, unit * STEPS + step));  //@ wgmma-narrow-step
        if (step == 0)
          multiply_async<Right::kAlongK, KEEP>(sums[i], words[i / kAcross][step], at);
        else
          multiply_async<Right::kAlongK>(sums[i], words[i / kAcross][step], at);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();  //@ wgmma-narrow-wait
  }
  // sums += the products, or with KEEP false: =. Those of the last unit are in flight afterwards. earlier(): called when those
  // of earlier tiles are complete.
  template <bool KEEP, class Earlier>
  DEVICE_MEMBER void multiply(Sums& sums, Words& first, const ZeroPairs& zeros, NarrowNans& nans, const Earlier& earlier) const {
    NarrowRows rows[kBlocks];
    load(rows, 1);
    issue<KEEP>(sums, first, 0);
    earlier();
    UNROLL_ALL
    for (int unit = 1; unit < UNITS; ++unit) {
      Words words;
      widen(words, rows, zeros, nans);
      if (unit + 1 < UNITS) load(rows, unit + 1);  // before the fence, behind which no load moves forward
      issue<true>(sums, words, unit);
    }
  }
};

// As in main_loop.cuh. The next tile's first elements are widened, and its scales are on their way, while a tile's last unit
// is multiplied.
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles, int, int first,
                           [[maybe_unused]] ScaleReader reader, const Issued& issued) {
  static_assert(BLOCKS == kBlocks && PROMOTE <= 1, "all columns of C are multiplied");
  if (tiles == 0) return issued();
  NarrowNans nans;
  NarrowTile::Words words;
  TileScales scales;
  ZeroPairs zeros;
  reader.zeros.load();
  reader.load(scales);
  pipeline.wait_full(from);
  NarrowTile tile(pipeline, from, first);
  reader.zeros.widen(zeros, tiles > 1);
  tile.start(words, zeros, nans);
  StagePhase<STAGES> before = from;
  for (int t = 0; t < tiles; ++t) {
    const bool more = t + 1 < tiles;
#if PROMOTE
    Sums of_tile;
    tile.multiply<false>(of_tile, words, zeros, nans, [] {});
#else
    tile.multiply<true>(sums, words, zeros, nans, [&] {
      if (t == 0) return;
      pipeline.release(before);  //@ wgmma-narrow-release
      before.advance();
    });
#endif
    from.advance();
    const TileScales of_scales = scales;
    if (more) {
      reader.load(scales);
      pipeline.wait_full(from);
      tile = NarrowTile(pipeline, from, first);
      reader.zeros.widen(zeros, t + 2 < tiles);
      tile.start(words, zeros, nans);
    } else {
      issued();
    }
#if PROMOTE
    wgmma_wait<0>(of_tile);  //@ wgmma-narrow-promote-wait
    pipeline.release(before);
    before.advance();
    promote<BLOCKS>(sums, of_tile, reader, of_scales);
#endif
  }
#if !PROMOTE
  wgmma_wait<0>(sums);  //@ wgmma-narrow-last-wait
  pipeline.release(before);
#endif
  nans.mark(sums);
}
#endif
