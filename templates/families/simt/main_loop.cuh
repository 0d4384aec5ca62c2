// simt's main loop, and its stages for each PREFETCH (see simt.cu).
#pragma once
#include "families/simt/operand.cuh"
#include "parts/pipeline.cuh"
#if PREFETCH >= 6
#include "words/tma.cuh"
#include "words/warp.cuh"
#endif
#define A_BY_TMA (PREFETCH >= 6 && !TRANSPOSE_A && VECTOR_A == 4)
#define B_BY_TMA (PREFETCH >= 6 && !TRANSPOSE_B && VECTOR_B == 4)

// MultiplyArgs, followed by the arguments that add_stream_k() and the plan append in some configurations.
struct SimtArgs : MultiplyArgs {
#if STREAM_K
  float* partial;          // [stream-K block][2][TILE_M][TILE_N]
  Int64 depth;             // tiles of k
  int whole_tiles, share;  // see StreamKRange
#endif
#if A_BY_TMA
  TensorMap a_map;
#endif
#if B_BY_TMA
  TensorMap b_map;
#endif
};
static_assert(bool(A_BY_TMA) == OperandA::BY_TMA && bool(B_BY_TMA) == OperandB::BY_TMA,
              "the arguments have the maps that the tiles need");
// load_tile's columns are rows of A^T and columns of B, both from a whole tile on.
static_assert(!A_BY_TMA || TILE_M % 4 == 0, "tiles of A by TMA begin at multiples of 16 bytes");
static_assert(!B_BY_TMA || TILE_N % 4 == 0, "tiles of B by TMA begin at multiples of 16 bytes");

// A tile of C that begins at (row, column), and a range of its k, of one product: what a block multiplies at a time.
struct WorkUnit {
  Int64 row, column;
  Int64 k_begin, k_size;
  const float* a;
  const float* b;
#if GROUPED
  Int64 row_end;  // of the product's rows
#endif

  DEVICE_MEMBER Int64 end_of_rows([[maybe_unused]] const SimtArgs& args) const {
#if GROUPED
    return row_end;
#else
    return args.rows();
#endif
  }
  DEVICE_MEMBER int tiles() const { return static_cast<int>((k_size + TILE_K - 1) / TILE_K); }
};

// A thread's place in the block's tile.
struct ThreadPosition {
  int lane, group, warp_m, warp_n;  // first row and column of the warp
  int k0;                           // of each tile's k, the group's first

  DEVICE_MEMBER ThreadPosition() {
    constexpr int WARPS_N = TILE_N / (THREAD_N * kWarpN);
    const int warp = int(threadIdx.x) % kGroupThreads / 32;
    lane = threadIdx.x % 32;
    group = int(threadIdx.x) / kGroupThreads;
    warp_m = warp / WARPS_N * (THREAD_M * WARP_M);
    warp_n = warp % WARPS_N * (THREAD_N * kWarpN);
    k0 = group * kGroupDepth;
  }
  // Whether any of the warp's part of C is inside the matrix.
  DEVICE_MEMBER bool multiplies(const SimtArgs& args, const WorkUnit& work) const {
    return (kWholeM || work.row + warp_m < work.end_of_rows(args)) &&
           (kWholeN || work.column + warp_n < args.columns());
  }
};

typedef float Sums[THREAD_M][THREAD_N];

// Loads of both operands by all threads. The first inner_a (inner_b) tiles lie wholly inside the operand and are loaded
// without tests.
struct Source {
  OperandA a;
  OperandB b;
  int tiles, inner_a, inner_b, k_rest;  // k_rest: steps of k in the last tile

  DEVICE_MEMBER Source(const SimtArgs& args, const WorkUnit& work)
      : a(work.a, args.lda, work.row, work.end_of_rows(args), work.k_begin),
        b(work.b, args.ldb, work.column, args.columns(), work.k_begin),
        tiles(work.tiles()),
        k_rest(kWholeK ? TILE_K : static_cast<int>(work.k_size - Int64(TILE_K) * (tiles - 1))) {
    const int whole = k_rest == TILE_K ? tiles : tiles - 1;
    inner_a = a.inside() ? whole : 0;
    inner_b = b.inside() ? whole : 0;
  }
  DEVICE_MEMBER int depth(int t) const { return t + 1 < tiles ? TILE_K : k_rest; }
  DEVICE_MEMBER void advance() {
    a.advance();
    b.advance();
  }
};

#if PREFETCH < 3
// A thread's elements of a tile, loaded and not yet stored.
struct TilesInFlight {
  float a[OperandA::COUNT][VECTOR_A], b[OperandB::COUNT][VECTOR_B];

  DEVICE_MEMBER void load(Source& source, int t) {
    if (t < source.inner_a)
      source.a.template load<true>(a, TILE_K);
    else
      source.a.template load<false>(a, source.depth(t));
    if (t < source.inner_b)
      source.b.template load<true>(b, TILE_K);
    else
      source.b.template load<false>(b, source.depth(t));
    source.advance();
  }
  DEVICE_MEMBER void store(const Source& source, float* stage) const {
    source.a.store(stage, a);
    source.b.store(stage + OperandA::ELEMENTS, b);
  }
};
#else
// Both operands' copies of a tile in flight.
struct TilesInFlight {
  InFlight<OperandA> a;
  InFlight<OperandB> b;

  DEVICE_MEMBER void start(const Source& source, int t, float* stage) {
    if (t < source.inner_a)
      a.template start<true>(source.a, stage, TILE_K);
    else if (t < source.tiles)
      a.template start<false>(source.a, stage, source.depth(t));
    if (t < source.inner_b)
      b.template start<true>(source.b, stage + OperandA::ELEMENTS, TILE_K);
    else if (t < source.tiles)
      b.template start<false>(source.b, stage + OperandA::ELEMENTS, source.depth(t));
  }
  DEVICE_MEMBER void finish(const Source& source, float* stage) const {
    a.finish(source.a, stage);
    b.finish(source.b, stage + OperandA::ELEMENTS);
  }
};
#endif

#if PREFETCH >= 6
// Issues the TMA load of the operand's tile that begins at row or column `at` and step k.
template <typename Of>
DEVICE void issue_tile_load(float* to, const TensorMap& map, Int64 at, int k, Mbarrier* full) {
  if constexpr (Of::SWIZZLED) {
    UNROLL_ALL
    for (int panel = 0; panel < TILE_K / Of::PANEL; ++panel)
      load_tile(to + panel * Of::PANEL_ELEMENTS, map, k + panel * Of::PANEL, static_cast<int>(at), full);  //@ simt-tma-panel
  } else {
    load_tile(to, map, static_cast<int>(at), k, full);  //@ simt-tma-load
  }
}
#endif

// The stages of a block. Each PREFETCH gives the same functions to multiply(), in the order in which it calls them;
// t counts the tiles of a work unit.
//   first_loads()   issues the copies of the first tiles
//   wait(t)         waits until tile t is in stage(t)
//   issue(t)        issues the copies that overlap with the multiplication of tile t
//   release()       frees tile t's stage for this warp, after its last read
//   finish(t)       completes the copies that issue(t) began, where they go through registers
#if PREFETCH >= 6
// One lane of warp 0 issues TMA loads into the stages. All threads store the operands that TMA cannot copy.
struct Stages {
  static constexpr int TMA_BYTES = (OperandA::BY_TMA ? TILE_M * TILE_K * 4 : 0) +
                                   (OperandB::BY_TMA ? TILE_N * TILE_K * 4 : 0);  // of a tile
  static constexpr bool BY_REGISTERS = OperandA::BY_REGISTERS || OperandB::BY_REGISTERS;
  // Two tiles fewer than stages are in flight beside the current one: the issuing thread then waits for warps that are
  // a tile behind, not for those of the current tile.
  static constexpr int AHEAD = kStages - 2;  //@ simt-tiles-ahead
  static constexpr bool WAITS_FIRST = false, READS_PAST_END = false;

  bool issues;  // this warp issues the block's TMA loads
  Pipeline<kStages, kStageElements, float, true> pipeline;

  DEVICE_MEMBER explicit Stages(float* shared)
      : issues(TMA_BYTES > 0 && warp_number() == 0),
        pipeline(shared, reinterpret_cast<char*>(shared + kLayout.barriers_at()),
                 (TMA_BYTES > 0) + (BY_REGISTERS ? kThreads / 32 : 0),  //@ simt-full-arrivals
                 kThreads / 32) {}

  DEVICE_MEMBER void first_loads(const SimtArgs& args, const WorkUnit& work, Source& source, TilesInFlight& in_flight) {
    UNROLL_ALL  //@ simt-first-loads
    for (int t = 0; t < AHEAD; ++t) {
      start(args, work, source, in_flight, t);
      store(source, in_flight, t);
    }
  }
  DEVICE_MEMBER void wait(int) const { pipeline.wait_full(); }
  DEVICE_MEMBER void issue(const SimtArgs& args, const WorkUnit& work, Source& source, TilesInFlight& in_flight,
                           int t) const {
    start(args, work, source, in_flight, t + AHEAD);
  }
  DEVICE_MEMBER const float* stage(int) const { return pipeline.consumer_stage(); }
  DEVICE_MEMBER void release() {
    pipeline.release();  //@ simt-empty-arrive
    pipeline.consumer.advance();
  }
  DEVICE_MEMBER void finish(const Source& source, const TilesInFlight& in_flight, int t) {
    store(source, in_flight, t + AHEAD);
  }

 private:
  DEVICE_MEMBER float* next_stage() const { return pipeline.producer_stage(); }
  DEVICE_MEMBER void start(const SimtArgs& args, const WorkUnit& work, Source& source, TilesInFlight& in_flight,
                           int t) const {
    if (BY_REGISTERS) {
      in_flight.start(source, t, nullptr);
      source.advance();
    }
    if (issues && t < source.tiles) {
      pipeline.wait_empty();  //@ simt-empty-wait-before-tma
      if (elect_one()) {  //@ simt-elect-one
        Mbarrier* full = pipeline.producer_barrier();
        mbarrier_expect_tx(full, TMA_BYTES);  //@ simt-expect-bytes
        [[maybe_unused]] const int k = static_cast<int>(work.k_begin) + t * TILE_K;  //@ simt-tile-k
#if A_BY_TMA
        issue_tile_load<OperandA>(next_stage(), args.a_map, work.row, k, full);
#endif
#if B_BY_TMA
        issue_tile_load<OperandB>(next_stage() + OperandA::ELEMENTS, args.b_map, work.column, k, full);
#endif
      }
      warp_barrier();
    }
  }
  DEVICE_MEMBER void store(const Source& source, const TilesInFlight& in_flight, int t) {
    if (t >= source.tiles) return;
    if (BY_REGISTERS) {
      pipeline.wait_empty();  //@ simt-empty-wait-before-stores
      in_flight.finish(source, next_stage());  //@ simt-store-stage
      mbarrier_arrive_warp(pipeline.producer_barrier());  //@ simt-full-arrive
    }
    pipeline.producer.advance();
  }
};

#elif PREFETCH >= 3
// All threads copy into the stages. A stage is filled again after the barrier that follows its last use.
struct Stages {
  static constexpr bool WAITS_FIRST = true;  // before the barrier other warps may still read the stage to be filled
  static constexpr bool READS_PAST_END = true;  // fragments after the last tile: old values, not multiplied

  float* shared;
  StageOffset<kStages, kStageElements> filling, used;

  DEVICE_MEMBER explicit Stages(float* shared_memory) : shared(shared_memory) {}

  DEVICE_MEMBER void first_loads(const SimtArgs&, const WorkUnit&, Source& source, TilesInFlight& in_flight) {
    filling = used = {};
    UNROLL_ALL
    for (int t = 0; t < kStages - 1; ++t) {
      start(source, in_flight, t);
      store(source, in_flight, t);
    }
  }
  DEVICE_MEMBER void wait(int) const {
    copies_done<kStages - 2>();
    barrier();
  }
  DEVICE_MEMBER void issue(const SimtArgs&, const WorkUnit&, Source& source, TilesInFlight& in_flight, int t) const {
    start(source, in_flight, t + kStages - 1);
  }
  DEVICE_MEMBER const float* stage(int) const { return shared + used.at; }
  DEVICE_MEMBER void release() { used.advance(); }
  DEVICE_MEMBER void finish(const Source& source, const TilesInFlight& in_flight, int t) {
    store(source, in_flight, t + kStages - 1);
  }

 private:
  DEVICE_MEMBER void start(Source& source, TilesInFlight& in_flight, int t) const {
    in_flight.start(source, t, shared + filling.at);
    source.advance();
    copies_commit();  // also without a copy: the waits count groups
  }
  DEVICE_MEMBER void store(const Source& source, const TilesInFlight& in_flight, int t) {
    if (t < source.tiles) in_flight.finish(source, shared + filling.at);
    filling.advance();
  }
};

#else
// All threads load a tile into registers and store it; PREFETCH 1 and 2 load it while the tile before is multiplied.
struct Stages {
  static constexpr bool WAITS_FIRST = false, READS_PAST_END = false;

  float* shared;

  DEVICE_MEMBER explicit Stages(float* shared_memory) : shared(shared_memory) {}

  DEVICE_MEMBER void first_loads(const SimtArgs&, const WorkUnit&, Source& source, TilesInFlight& in_flight) const {
    if (PREFETCH > 0 && source.tiles > 0) {
      in_flight.load(source, 0);
      in_flight.store(source, stage(0));
      barrier();
    }
  }
  DEVICE_MEMBER void issue(const SimtArgs&, const WorkUnit&, Source& source, TilesInFlight& in_flight, int t) const {
    if (PREFETCH == 0) {
      in_flight.load(source, t);
      in_flight.store(source, stage(t));
    } else if (t + 1 < source.tiles) {
      in_flight.load(source, t + 1);
    }
  }
  DEVICE_MEMBER void wait(int) const {
    if (PREFETCH == 0) barrier();
  }
  DEVICE_MEMBER float* stage(int t) const { return shared + t % kStages * kStageElements; }
  DEVICE_MEMBER void release() const {
    if (PREFETCH > 0 && kStages == 1) barrier();  // the one buffer is stored to next
  }
  DEVICE_MEMBER void finish(const Source& source, const TilesInFlight& in_flight, int t) const {
    if (PREFETCH > 0 && t + 1 < source.tiles) in_flight.store(source, stage(t + 1));
    barrier();
  }
};
#endif

// Adds the products of a work unit to the thread's sums.
DEVICE void multiply(Sums& sums, Stages& stages, const SimtArgs& args, const WorkUnit& work,
                     const ThreadPosition& thread) {
  Source source(args, work);
  TilesInFlight in_flight;
  const int tiles = source.tiles;
  const bool multiplies = thread.multiplies(args, work);
  stages.first_loads(args, work, source, in_flight);
#if FRAGMENTS == 1
  for (int t = 0; t < tiles; ++t) {
    if (Stages::WAITS_FIRST) stages.wait(t);
    stages.issue(args, work, source, in_flight, t);
    if (!Stages::WAITS_FIRST) stages.wait(t);
    if (multiplies) multiply_tile(sums, stages.stage(t), thread.warp_m, thread.warp_n, thread.lane, thread.k0);  //@ simt-multiply
    stages.release();
    stages.finish(source, in_flight, t);
  }
#else
  // The first fragments of a tile are read while the last of the tile before are multiplied.
  Fragments sets[2];
  if (Stages::READS_PAST_END || tiles > 0) {
    stages.wait(0);
    if (multiplies) sets[0].read(stages.stage(0), thread.warp_m, thread.warp_n, thread.lane, thread.k0);
  }
  for (int t = 0; t < tiles; ++t) {
    stages.issue(args, work, source, in_flight, t);
    if (multiplies) multiply_ahead(sums, sets, stages.stage(t), thread.warp_m, thread.warp_n, thread.lane, thread.k0);  //@ simt-multiply-ahead
    stages.release();
    stages.finish(source, in_flight, t);
    if (Stages::READS_PAST_END || t + 1 < tiles) {
      stages.wait(t + 1);
      if (multiplies) sets[0].read(stages.stage(t + 1), thread.warp_m, thread.warp_n, thread.lane, thread.k0);
    }
    if (multiplies) outer_product(sums, sets[1]);
  }
#endif
}
