// mma's main loop: the pipeline of tiles through shared memory, and the multiplication of their fragments. See mma.cu.
#pragma once
#include "families/mma/operand.cuh"
#include "parts/pipeline.cuh"
#if TMA && (BYTES_A < 16 || BYTES_B < 16)
#include "families/mma/row_classes.cuh"
#endif

#if TMA && BYTES_A < 16
typedef RowClasses<TILE_M, !A_TRANSPOSED> OperandA;
#else
typedef Operand<TILE_M, !A_TRANSPOSED, BYTES_A, A_ASYNC> OperandA;
#endif
#if TMA && BYTES_B < 16
typedef RowClasses<TILE_N, B_TRANSPOSED> OperandB;
#else
typedef Operand<TILE_N, B_TRANSPOSED, BYTES_B, B_ASYNC> OperandB;
#endif
typedef Reader<OperandA, WARP_M / 8, true> ReaderA;
typedef Reader<OperandB, WARP_N / 8, false> ReaderB;

constexpr int kRows = WARP_M / 16, kColumns = WARP_N / 8;  // 16 x 8 tiles of a warp
constexpr int kStageBytes = OperandA::STAGED_BYTES + OperandB::STAGED_BYTES;
static_assert(OperandA::STAGED_BYTES % 128 == 0 && OperandB::STAGED_BYTES % 128 == 0, "stages are whole lines");

constexpr tilewise::mma::BlockLayout kLayout = {
    kStageBytes, STAGES, TILE_M, TILE_N, WARP_N, SLICE_K, kGroupThreads / 32, int(sizeof(Sum)), EPILOGUE != 0, TMA != 0};
constexpr int kRowStride = kLayout.row_stride();

struct MmaArgs : MultiplyArgs {
#if TMA
  TensorMap a_maps[OperandA::MAPS], b_maps[OperandB::MAPS];
#endif
};

typedef Sum Sums[kRows][kColumns][4];
typedef Word FragmentsA[kRows][Op::A];
typedef Word FragmentsB[kColumns][Op::B];

struct Fragments {
  FragmentsA a;
  FragmentsB b;

  DEVICE_MEMBER void read(const ReaderA& reader_a, const ReaderB& reader_b, const char* stage, int step) {
    reader_a.read(stage, step, [this](int u, int c, Word word) { a[u / 2][2 * c + u % 2] = word; });  //@ mma-words-a
    reader_b.read(stage + OperandA::STAGED_BYTES, step, [this](int u, int c, Word word) { b[u][c] = word; });  //@ mma-words-b
  }
};

#if MATH == 1
template <int COUNT, int WORDS>
DEVICE void round_words(Word (&words)[COUNT][WORDS]) {
  UNROLL_ALL
  for (int i = 0; i < COUNT; ++i) {
    UNROLL_ALL
    for (int w = 0; w < WORDS; ++w) words[i][w] = tf32_of_float(float_of(words[i][w]));  //@ mma-round
  }
}
#elif MATH == 2
// Splits each f32 into its big part, which stays in `words`, and its small part. An infinite big part has a small part
// that is infinite or NaN.
template <int COUNT, int WORDS>
DEVICE void split_words(Word (&words)[COUNT][WORDS], Word (&small)[COUNT][WORDS]) {
  UNROLL_ALL
  for (int i = 0; i < COUNT; ++i) {
    UNROLL_ALL
    for (int w = 0; w < WORDS; ++w) {
      const float value = float_of(words[i][w]);
      words[i][w] = tf32_of_float(value);
      small[i][w] = bits_of(value - float_of(words[i][w]));
    }
  }
}
#endif

// Multiplies one step of k. PROMOTE and f32x3 take one row of 16 x 8 tiles at a time, so that few partial sums are
// live.
DEVICE void multiply_step(Sums& sums, Fragments& now, [[maybe_unused]] Sums& partial, [[maybe_unused]] int step) {
#if MATH == 1
  if (!ROUNDED_A) round_words(now.a);
  if (!ROUNDED_B) round_words(now.b);
#elif MATH == 2
  Fragments small;
  split_words(now.a, small.a);
  split_words(now.b, small.b);
#endif
#if PROMOTE == 0 && MATH != 2
  multiply_blocks<Op>(sums, now.a, now.b);
#else
  UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    auto& row = reinterpret_cast<Sum(&)[1][kColumns][4]>(PROMOTE > 0 ? partial[r] : sums[r]);
    const auto& row_a = reinterpret_cast<const Word(&)[1][Op::A]>(now.a[r]);
#if PROMOTE > 0
    if (step % PROMOTE == 0) {  //@ mma-clear-partial-sums
      UNROLL_ALL
      for (int i = 0; i < kColumns * 4; ++i) row[0][i / 4][i % 4] = Sum(0);
    }
#endif
#if MATH == 2
    multiply_blocks<Op>(row, row_a, small.b);
    multiply_blocks<Op>(row, reinterpret_cast<const Word(&)[1][Op::A]>(small.a[r]), now.b);
#endif
    multiply_blocks<Op>(row, row_a, now.b);
#if PROMOTE > 0
    if (step % PROMOTE == PROMOTE - 1) {
      UNROLL_ALL
      for (int i = 0; i < kColumns * 4; ++i) sums[r][i / 4][i % 4] += row[0][i / 4][i % 4];
    }
#endif
  }
#endif
}
static_assert(FRAGMENTS == 1 || kSteps % 2 == 0, "with two sets of fragments a tile has an even number of steps");
static_assert(PROMOTE == 0 || kSteps % (PROMOTE ? PROMOTE : 1) == 0, "a tile is whole promotions");

// A block's work: the tile of C from (row, column) on, and a part of k.
struct WorkUnit {
  Int64 row, column, k_begin, k_end;
  DEVICE_MEMBER int tiles() const { return static_cast<int>((k_end - k_begin + TILE_K - 1) / TILE_K); }
};

// A thread's position: its lane, warp and group of warps, and the warp's first row and column of the block's tile.
struct ThreadPosition {
  int lane, warp, group, warp_m, warp_n;
  DEVICE_MEMBER ThreadPosition() {
    lane = int(threadIdx.x) % 32;
    warp = int(threadIdx.x) % kGroupThreads / 32;
    group = int(threadIdx.x) / kGroupThreads;
    warp_m = warp / kWarpsN * WARP_M;
    warp_n = warp % kWarpsN * WARP_N;
  }
};

#if TMA
static_assert(OperandA::STAGED_BYTES % 1024 == 0 && OperandB::STAGED_BYTES % 1024 == 0,
              "TMA lays swizzled tiles down at multiples of 1024 bytes");

// One thread fills the stages by TMA.
struct TileLoader {
  const MmaArgs& args;
  const WorkUnit& work;
  int tiles;
  bool issues;  // this is the warp that issues the copies
  Pipeline<STAGES, kStageBytes> pipeline;

  DEVICE_MEMBER TileLoader(const MmaArgs& arguments, const WorkTile&, const WorkUnit& of, char* shared)
      : args(arguments),
        work(of),
        tiles(of.tiles()),
        issues(warp_number() == 0),
        pipeline(shared, shared + kLayout.barriers_at(), 1, kThreads / 32) {
    // Unrolled, the first stages' addresses are constants and stay in uniform registers: worth the code only where the
    // sizes are constants, too.
    UNROLL_BY(SPECIALIZE_SIZE ? STAGES - 1 : 1)
    for (int t = 0; t < STAGES - 1; ++t) issue_loads(t);
  }
  DEVICE_MEMBER void issue_loads(int t) {
    if (issues && t < tiles) {
      char* stage = pipeline.producer_stage();
      Mbarrier* full = pipeline.producer_barrier();
      pipeline.wait_empty();
      if (elect_one()) {
        mbarrier_expect_tx(full, OperandA::LOADED_BYTES + OperandB::LOADED_BYTES);
        const int k = static_cast<int>(work.k_begin) + t * TILE_K;
        OperandA::issue_load(stage, args.a_maps, static_cast<int>(work.row), k, full);
        OperandB::issue_load(stage + OperandA::STAGED_BYTES, args.b_maps, static_cast<int>(work.column), k, full);
      }
      warp_barrier();
    }
    pipeline.producer.advance();
  }
  DEVICE_MEMBER const char* stage() const { return pipeline.consumer_stage(); }

  DEVICE_MEMBER void wait_first_tile() const {
    if (tiles > 0) pipeline.wait_full();
  }
  // Refills the stage of tile t - 1 half way through tile t, when the other warps have most likely freed it.
  template <int PARTS>
  DEVICE_MEMBER void issue(int t, int nth) {
    if (nth == PARTS / 2) issue_loads(t + STAGES - 1);  //@ mma-issue-loads
  }
  // Called after the warp's last read of the stage.
  DEVICE_MEMBER void free_stage() const {
    pipeline.release();  //@ mma-empty-arrive
  }
  // Waits for tile t + 1, if there is one.
  DEVICE_MEMBER void wait_next_tile(int t) {
    pipeline.consumer.advance();
    if (t + 1 < tiles) pipeline.wait_full();
  }
};
#else
// All threads fill the stages. A stage is refilled after the barrier that follows its last use.
struct TileLoader {
  OperandA a;
  OperandB b;
  char* shared;
  int tiles, inner_tiles, k_rest;  // k_rest: of the last tile
  StageOffset<STAGES, kStageBytes> filling, used;

  DEVICE_MEMBER TileLoader(const MmaArgs& args, const WorkTile& work_tile, const WorkUnit& work, char* shared_memory)
      : a(work_tile.a, args.lda, work.row, row_end_of(args, work_tile.tile), work.k_begin),
        b(work_tile.b, args.ldb, work.column, args.columns(), work.k_begin),
        shared(shared_memory),
        tiles(work.tiles()),
        k_rest(kWholeK ? TILE_K : static_cast<int>(work.k_end - work.k_begin - Int64(TILE_K) * (tiles - 1))) {
    inner_tiles = !(kWholeM || a.inside()) || !(kWholeN || b.inside()) ? 0 : (k_rest == TILE_K ? tiles : tiles - 1);  //@ mma-inner-tiles
    UNROLL_BY(1)
    for (int t = 0; t < STAGES - 1; ++t) {
      start<1>(t, 0);
      finish(t);
    }
  }
  // Issues the nth of PARTS shares of tile t's copies.
  template <int PARTS>
  DEVICE_MEMBER void start(int t, int nth) {
    char* stage = shared + filling.at;
    if (t < inner_tiles) {
      a.template start<true, PARTS>(stage, TILE_K, nth);
      b.template start<true, PARTS>(stage + OperandA::STAGED_BYTES, TILE_K, nth);
    } else if (t < tiles) {
      const int k_left = t + 1 < tiles ? TILE_K : k_rest;
      a.template start<false, PARTS>(stage, k_left, nth);
      b.template start<false, PARTS>(stage + OperandA::STAGED_BYTES, k_left, nth);
    }
    if (nth < PARTS - 1) return;
    a.advance();
    b.advance();
#if A_ASYNC || B_ASYNC
    copies_commit();  // also an empty group: the waits count groups
#endif
  }
  DEVICE_MEMBER void finish(int t) {  // t: the tile started last
    if (t < tiles) {
      a.finish(shared + filling.at);
      b.finish(shared + filling.at + OperandA::STAGED_BYTES);
    }
    filling.advance();
  }
  DEVICE_MEMBER const char* stage() const { return shared + used.at; }

  // Waits for this thread's copies of tile t, while those of PENDING later tiles may be in flight; then realigns the
  // rows that this warp copied.
  template <int PENDING>
  DEVICE_MEMBER void wait_loaded(int t, int where) const {
#if A_ASYNC || B_ASYNC
    copies_done<PENDING>();
#endif
    if (t >= tiles) return;
    a.realign(shared + where);
    b.realign(shared + where + OperandA::STAGED_BYTES);
  }
  DEVICE_MEMBER void wait_first_tile() const {
    wait_loaded<STAGES - 2>(0, 0);
    barrier();
  }
  // With more than two stages, the next tile's rows are realigned in the middle of the current tile's multiplications.
  static constexpr bool EARLY = STAGES > 2 && (OperandA::REALIGNS || OperandB::REALIGNS);
  template <int PARTS>
  DEVICE_MEMBER void issue(int t, int nth) {
    if constexpr (EARLY) {
      if (nth == (PARTS - 1) / 2) wait_loaded<STAGES - 3>(t + 1, used.after(used.at));  //@ mma-copy-wait-early
    }
    start<PARTS>(t + STAGES - 1, nth);
  }
  DEVICE_MEMBER void free_stage() const {}  // done by the barrier in wait_next_tile()
  // After it tile t + 1 is complete for all threads, and no thread reads tile t.
  DEVICE_MEMBER void wait_next_tile(int t) {
    finish(t + STAGES - 1);
    used.advance();
    if constexpr (!EARLY) wait_loaded<STAGES - 2>(t + 1, used.at);  //@ mma-copy-wait
    barrier();
  }
};
#endif

DEVICE void multiply(Sums& sums, const MmaArgs& args, const WorkTile& work_tile, const WorkUnit& work, char* shared,
                     const ThreadPosition& thread) {
  TileLoader loader(args, work_tile, work, shared);
  const ReaderA reader_a(thread.warp_m, thread.lane, args.a, args.lda);
  const ReaderB reader_b(thread.warp_n, thread.lane, args.b, args.ldb);
  const bool multiplies = !SKIP_EDGE_WARPS || ((kWholeM || work.row + thread.warp_m < row_end_of(args, work_tile.tile)) &&
                                    (kWholeN || work.column + thread.warp_n < args.columns()));
  const int first = thread.group * kSteps;
  Fragments fragments[FRAGMENTS];
  Sums partial;
  loader.wait_first_tile();
#if FRAGMENTS == 1
  for (int t = 0; t < loader.tiles; ++t) {
    UNROLL_ALL
    for (int step = 0; step < kSteps; ++step) {
      loader.template issue<kSteps>(t, step);
      if (!multiplies) continue;
      fragments[0].read(reader_a, reader_b, loader.stage(), first + step);
      multiply_step(sums, fragments[0], partial, step);
    }
    loader.free_stage();
    loader.wait_next_tile(t);
  }
#else
  // A step's fragments are read while the step before is multiplied, also across tiles. Copies are issued between
  // multiplications.
  if (multiplies && loader.tiles > 0) fragments[0].read(reader_a, reader_b, loader.stage(), first);
  for (int t = 0; t < loader.tiles; ++t) {
    UNROLL_ALL
    for (int step = 0; step < kSteps; ++step) {
      loader.template issue<kSteps>(t, step);
      if (step == kSteps - 1) {
        loader.free_stage();
        loader.wait_next_tile(t);
      }
      if (!multiplies) continue;
      // After the last tile this reads stale values, which are not used.
      fragments[(step + 1) % 2].read(reader_a, reader_b, loader.stage(), first + (step + 1) % kSteps);  //@ mma-read-next
      multiply_step(sums, fragments[step % 2], partial, step);
    }
  }
#endif
}
