// simt: the register-tiled product on the ordinary (non-tensor) units, as an outer product.
//
//                    TILE_N                   A block computes TILE_M x TILE_N of C. Tiles of A and B,
//             +-----------------+             TILE_K deep, go through shared memory. Each thread keeps
//      TILE_K |        B        |             THREAD_M x THREAD_N sums in registers: per step of k it
//             +-----------------+             reads THREAD_M + THREAD_N values and does
//   +------+  +--------+--------+             THREAD_M x THREAD_N multiply-adds.
//   |      |  | warp   |        | TILE_M
//   |  A   |  +--------+--------+             A warp covers WARP_M x (32 / WARP_M) threads, so
//   |      |  |        |        |             THREAD_M WARP_M x THREAD_N 32 / WARP_M elements.
//   +------+  +--------+--------+
//    TILE_K
//
// Who loads what: the threads of the block walk a tile in runs of VECTOR_A (VECTOR_B) elements along
// memory, so a warp reads whole lines. A tile is held either with its m (n) contiguous, so that a thread
// reads its values as vectors, or with k contiguous as row-major A lies; TRANSPOSE_A (TRANSPOSE_B)
// turns it on the way in. Padding and the zigzag of lanes (lane_m, lane_n) keep both kinds of access
// free of most bank conflicts.
//
// PREFETCH, what the next tile does while this one is used:
//   0 nothing  1 waits in registers  2 registers, then a second buffer (one barrier a tile)
//   3, 4, 5 flows by cp.async through 2, 3, 4 stages
// Edges: outside the matrices tiles hold zeros; only the last tile of k pays for testing k.
//
// From the problem: A_TRANSPOSED, B_TRANSPOSED (of what this kernel reads: a pack step may have turned
// it). SPLIT: 1 writes partial sums to c as [split][m][n] for the reduce step.
#include "multiply_args.cuh"

static_assert(TILE_M % (THREAD_M * WARP_M) == 0, "warps tile the block along m");
static_assert(TILE_N % (THREAD_N * (32 / WARP_M)) == 0, "warps tile the block along n");
static_assert(TILE_K % UNROLL == 0, "UNROLL divides TILE_K");

constexpr int kWarpN = 32 / WARP_M;
constexpr int kThreads = (TILE_M / THREAD_M) * (TILE_N / THREAD_N);
constexpr int kStages = PREFETCH >= 3 ? PREFETCH - 1 : (PREFETCH == 2 ? 2 : 1);
static_assert(kThreads <= 1024, "a block has at most 1024 threads");

// One operand's tile: SPAN (of m or n) x TILE_K. `along_k`: k is contiguous in memory. `held_k`: k is
// contiguous in shared memory.
template <int SPAN, int THREAD, int WARP, int VECTOR, bool ALONG_K, bool TRANSPOSE>
struct Operand {
  static constexpr bool HELD_K = ALONG_K != TRANSPOSE;
  static constexpr int INNER = ALONG_K ? TILE_K : SPAN;  // contiguous in memory
  static constexpr int RUNS = INNER / VECTOR;            // vectors in a row of memory
  static constexpr int VECTORS = SPAN * TILE_K / VECTOR;
  static constexpr int COUNT = (VECTORS + kThreads - 1) / kThreads;  // vectors a thread loads
  static constexpr bool EVEN = VECTORS % kThreads == 0;
  // A stored column must not fall into one bank; rows stay aligned for vector access.
  static constexpr int PAD = HELD_K ? (TRANSPOSE ? 1 : VECTOR) : (TRANSPOSE ? 4 : 0);
  static constexpr int STRIDE = (HELD_K ? TILE_K : SPAN) + PAD;
  static constexpr int ELEMENTS = ((HELD_K ? SPAN : TILE_K) * STRIDE + 3) / 4 * 4;
  // A thread's values come in runs of CHUNK neighbours; runs of a warp lie side by side.
  static constexpr int CHUNK = HELD_K ? 1 : (THREAD < 4 ? THREAD : 4);
  static_assert(INNER % VECTOR == 0, "vectors tile the rows of an operand tile");
  static_assert(THREAD % CHUNK == 0, "a thread's values come in whole vectors");

  static DEVICE_MEMBER int position(int lane, int i) {  // of value i within the warp's part
    return i / CHUNK * (WARP * CHUNK) + lane * CHUNK + i % CHUNK;
  }
  static DEVICE_MEMBER int held(int s, int k) { return HELD_K ? s * STRIDE + k : k * STRIDE + s; }

  // This thread's place in the tile, and where its first vector comes from.
  const float* from;
  Int64 ld;
  int span_left;  // rows or columns of the matrix from the tile's first on, at most SPAN

  DEVICE_MEMBER Operand(const float* matrix, Int64 leading, Int64 span0, Int64 span, Int64 k0)
      : ld(leading) {
    const Int64 left = span - span0;
    span_left = left < SPAN ? static_cast<int>(left) : SPAN;
    from = matrix + (ALONG_K ? span0 * ld + k0 : k0 * ld + span0);
  }
  DEVICE_MEMBER void advance() { from += ALONG_K ? Int64(TILE_K) : TILE_K * ld; }

  struct Place {
    int inner, outer;
    bool used;
  };
  static DEVICE_MEMBER Place place(int j) {
    if constexpr (kThreads % RUNS == 0) {  // the same column for every j: cheaper addresses
      const int outer = int(threadIdx.x) / RUNS + j * (kThreads / RUNS);
      return {int(threadIdx.x) % RUNS * VECTOR, outer, EVEN || outer < VECTORS / RUNS};
    } else {
      const int id = int(threadIdx.x) + j * kThreads;
      return {id % RUNS * VECTOR, id / RUNS, EVEN || id < VECTORS};
    }
  }
  // How many of the vector's elements are inside the matrix (may be negative). k_left < TILE_K only
  // for the last tile; FULL says that this is not it.
  template <bool FULL>
  DEVICE_MEMBER int valid(const Place& p, int k_left) const {
    const int along = ALONG_K ? (FULL ? VECTOR : k_left - p.inner) : span_left - p.inner;
    const bool row = ALONG_K ? p.outer < span_left : (FULL || p.outer < k_left);
    return row ? along : 0;
  }

  template <bool FULL>
  DEVICE_MEMBER void load(float (&to)[COUNT][VECTOR], int k_left) const {
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      const Place p = place(j);
      if (p.used) load_edge<VECTOR>(to[j], from + p.outer * ld + p.inner, valid<FULL>(p, k_left));
    }
  }
  DEVICE_MEMBER void store(float* tile, const float (&values)[COUNT][VECTOR]) const {
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      const Place p = place(j);
      if (!p.used) continue;
      if constexpr (!TRANSPOSE && PAD % VECTOR == 0) {
        store_vector<VECTOR>(tile + p.outer * STRIDE + p.inner, values[j]);
      } else {
        UNROLL_ALL
        for (int e = 0; e < VECTOR; ++e)
          tile[ALONG_K ? held(p.outer, p.inner + e) : held(p.inner + e, p.outer)] = values[j][e];
      }
    }
  }
#if PREFETCH >= 3
  // A transposed tile is copied word by word, each to its place.
  template <bool FULL>
  DEVICE_MEMBER void copy(float* tile, int k_left) const {
    static_assert(!TRANSPOSE || VECTOR == 1, "cp.async cannot turn a vector");
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      const Place p = place(j);
      if (!p.used) continue;
      const int inside = valid<FULL>(p, k_left);
      const float* source = inside > 0 ? from + p.outer * ld + p.inner : from;
      copy_async<VECTOR>(tile + (ALONG_K ? held(p.outer, p.inner) : held(p.inner, p.outer)), source,
                         inside);
    }
  }
#endif
  // The thread's values at step k.
  static DEVICE_MEMBER void read(float (&to)[THREAD], const float* tile, int warp_at, int lane, int k) {
    UNROLL_ALL
    for (int i = 0; i < THREAD; i += CHUNK) {
      float run[CHUNK];
      load_vector<CHUNK>(run, tile + held(warp_at + position(lane, i), k));
      UNROLL_ALL
      for (int e = 0; e < CHUNK; ++e) to[i + e] = run[e];
    }
  }
};

using OperandA = Operand<TILE_M, THREAD_M, WARP_M, VECTOR_A, !A_TRANSPOSED, TRANSPOSE_A>;
using OperandB = Operand<TILE_N, THREAD_N, kWarpN, VECTOR_B, B_TRANSPOSED, TRANSPOSE_B>;
constexpr int kStageElements = OperandA::ELEMENTS + OperandB::ELEMENTS;

// Lanes zigzag: bit 0 moves along the shorter side, the next bits along the longer one. Threads that
// share a value then sit where the shared memory merges their 16-byte reads (pairs xor 1 and xor 2).
DEVICE int lane_m(int lane) {
  return WARP_M >= kWarpN ? (kWarpN == 1 ? lane : (lane >> 1) % WARP_M)
                          : (WARP_M == 1 ? 0 : (lane & 1) | (lane / (2 * kWarpN) << 1));
}
DEVICE int lane_n(int lane) {
  return WARP_M >= kWarpN ? (kWarpN == 1 ? 0 : (lane & 1) | (lane / (2 * WARP_M) << 1))
                          : (WARP_M == 1 ? lane : (lane >> 1) % kWarpN);
}

// sums += a b^T. FMA_ORDER is the order of the multiply-adds, which decides how often a register is
// read from the operand cache instead of its bank: 0 row by row, 1 rows in serpentine, 2 serpentine
// over pairs of rows.
DEVICE void outer_product(float (&sums)[THREAD_M][THREAD_N], const float (&a)[THREAD_M],
                          const float (&b)[THREAD_N]) {
  constexpr int ROWS = FMA_ORDER == 2 && THREAD_M % 2 == 0 ? 2 : 1;
  UNROLL_ALL
  for (int i = 0; i < THREAD_M; i += ROWS) {
    UNROLL_ALL
    for (int step = 0; step < THREAD_N; ++step) {
      const int j = FMA_ORDER != 0 && (i / ROWS) % 2 ? THREAD_N - 1 - step : step;
      UNROLL_ALL
      for (int r = 0; r < ROWS; ++r) sums[i + r][j] = multiply_add(a[i + r], b[j], sums[i + r][j]);
    }
  }
}

DEVICE void multiply_tile(float (&sums)[THREAD_M][THREAD_N], const float* stage, int warp_m,
                          int warp_n, int lane) {
  UNROLL_BY(UNROLL)
  for (int k = 0; k < TILE_K; ++k) {
    float a[THREAD_M], b[THREAD_N];
    OperandA::read(a, stage, warp_m, lane_m(lane), k);
    OperandB::read(b, stage + OperandA::ELEMENTS, warp_n, lane_n(lane), k);
    outer_product(sums, a, b);
  }
}

// Writes the thread's sums: blended into C, or as they are when another step will add them up.
DEVICE void write_result(const MultiplyArgs& args, const float (&sums)[THREAD_M][THREAD_N], Int64 row0,
                         Int64 column0, int lane, float* c, Int64 ldc) {
  constexpr int RUN = VECTOR_C;
  static_assert(OperandB::CHUNK % RUN == 0, "stores are no wider than a run of columns");
  const Scalars scalars = SPLIT ? Scalars{1.0f, 0.0f} : scalars_of(args);
  UNROLL_ALL
  for (int i = 0; i < THREAD_M; ++i) {
    const Int64 row = row0 + OperandA::position(lane_m(lane), i);
    if (row >= args.m) continue;
    UNROLL_ALL
    for (int j = 0; j < THREAD_N; j += RUN) {
      const Int64 column = column0 + OperandB::position(lane_n(lane), j);
      float* to = c + row * ldc + column;
      if (column + RUN <= args.n) {
        float out[RUN];
        if (scalars.beta != 0.0f) load_vector<RUN>(out, to);
        UNROLL_ALL
        for (int e = 0; e < RUN; ++e) out[e] = blend(scalars, sums[i][j + e], &out[e]);
        store_vector<RUN>(to, out);
      } else {
        UNROLL_ALL
        for (int e = 0; e < RUN; ++e)
          if (column + e < args.n) to[e] = blend(scalars, sums[i][j + e], to + e);
      }
    }
  }
}

KERNEL(kThreads, BLOCKS_PER_SM) simt(ARGUMENTS MultiplyArgs args) {
  float* shared = shared_floats();  // kStages x [A tile, B tile]
  const Tile tile = tile_of_block(args, TILE_M, TILE_N);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int WARPS_N = TILE_N / (THREAD_N * kWarpN);
  const int warp_m = warp / WARPS_N * (THREAD_M * WARP_M);
  const int warp_n = warp % WARPS_N * (THREAD_N * kWarpN);

  // This block's part of k: whole tiles, the last part may be short or empty.
  const Int64 all_tiles = (args.k + TILE_K - 1) / TILE_K;
  const Int64 share = SPLIT ? (all_tiles + args.splits - 1) / args.splits : all_tiles;
  const Int64 k_begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 k_end = k_begin + share * TILE_K < args.k ? k_begin + share * TILE_K : args.k;
  const Int64 k_size = k_end > k_begin ? k_end - k_begin : 0;
  const int tiles = static_cast<int>((k_size + TILE_K - 1) / TILE_K);
  const int full_tiles = static_cast<int>(k_size / TILE_K);
  const int k_rest = static_cast<int>(k_size % TILE_K);  // of the last tile, when it is not full

  OperandA a(args.a, args.lda, tile.row, args.m, k_begin);
  OperandB b(args.b, args.ldb, tile.column, args.n, k_begin);
  float sums[THREAD_M][THREAD_N] = {};

#if PREFETCH >= 3
  // Stage t % kStages holds tile t. A stage is refilled after the barrier that follows its last use.
  const auto start = [&](int t) {
    if (t < tiles) {
      float* stage = shared + t % kStages * kStageElements;
      if (t < full_tiles) {
        a.template copy<true>(stage, TILE_K);
        b.template copy<true>(stage + OperandA::ELEMENTS, TILE_K);
      } else {
        a.template copy<false>(stage, k_rest);
        b.template copy<false>(stage + OperandA::ELEMENTS, k_rest);
      }
      a.advance();
      b.advance();
    }
    copies_commit();  // also when there was nothing: the wait below counts groups
  };
  UNROLL_ALL
  for (int t = 0; t < kStages - 1; ++t) start(t);
  for (int t = 0; t < tiles; ++t) {
    copies_done<kStages - 2>();
    barrier();
    start(t + kStages - 1);
    multiply_tile(sums, shared + t % kStages * kStageElements, warp_m, warp_n, lane);
  }
#else
  float next_a[OperandA::COUNT][VECTOR_A], next_b[OperandB::COUNT][VECTOR_B];
  const auto fetch = [&](int t) {
    if (t < full_tiles) {
      a.template load<true>(next_a, TILE_K);
      b.template load<true>(next_b, TILE_K);
    } else {
      a.template load<false>(next_a, k_rest);
      b.template load<false>(next_b, k_rest);
    }
    a.advance();
    b.advance();
  };
  const auto hold = [&](int t) {
    float* stage = shared + t % kStages * kStageElements;
    a.store(stage, next_a);
    b.store(stage + OperandA::ELEMENTS, next_b);
  };
#if PREFETCH == 0
  for (int t = 0; t < tiles; ++t) {
    fetch(t);
    hold(t);
    barrier();
    multiply_tile(sums, shared, warp_m, warp_n, lane);
    barrier();
  }
#else
  if (tiles > 0) {
    fetch(0);
    hold(0);
    barrier();
  }
  for (int t = 0; t < tiles; ++t) {
    const bool more = t + 1 < tiles;
    if (more) fetch(t + 1);
    multiply_tile(sums, shared + t % kStages * kStageElements, warp_m, warp_n, lane);
    if (kStages == 1) barrier();  // one buffer: everybody must be done with it
    if (more) hold(t + 1);
    barrier();
  }
#endif
#endif

  float* c = SPLIT ? args.c + tile.split * args.m * args.n : args.c;
  write_result(args, sums, tile.row + warp_m, tile.column + warp_n, lane, c,
               SPLIT ? args.n : args.ldc);
}
