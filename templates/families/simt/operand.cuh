// simt's tiles of A and B in shared memory: how threads copy them, and how a thread reads and multiplies fragments of
// them. See simt.cu.
#pragma once
#include "families/simt/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

static_assert(TILE_M % (THREAD_M * WARP_M) == 0, "warps tile the block along m");
static_assert(TILE_N % (THREAD_N * (32 / WARP_M)) == 0, "warps tile the block along n");
static_assert(TILE_K % (SLICE_K * UNROLL) == 0,
              "a group's part of TILE_K is whole passes of UNROLL");
static_assert(UNROLL % FRAGMENT_K == 0, "a pass is whole fragments");

constexpr bool kWholeM = known_whole_m(TILE_M), kWholeN = known_whole_n(TILE_N), kWholeK = known_whole_k(TILE_K);
constexpr int kWarpN = 32 / WARP_M;
constexpr int kGroupThreads = (TILE_M / THREAD_M) * (TILE_N / THREAD_N);
constexpr int kThreads = kGroupThreads * SLICE_K;
constexpr int kGroupDepth = TILE_K / SLICE_K;  // of a tile's k, for one group of warps
constexpr int kPassSteps = UNROLL / FRAGMENT_K;
constexpr int kStages = tilewise::simt::stages_of(PREFETCH);
static_assert(kThreads <= 1024, "a block has at most 1024 threads");

// One operand's tile, SPAN (of m or n) x TILE_K. ALONG_K: k is contiguous in memory. STAGED_K: k is contiguous in
// shared memory. INSIDE: no tile reaches past the edge of m or n.
template <int SPAN, int THREAD, int WARP, int VECTOR, bool ALONG_K, bool TRANSPOSE, bool INSIDE>
struct Operand {
  static constexpr tilewise::simt::TileLayout LAYOUT = {SPAN,    TILE_K,    VECTOR,  ALONG_K,
                                                        TRANSPOSE, PREFETCH, FRAGMENT_K};
  static constexpr bool STAGED_K = LAYOUT.staged_k();
  static constexpr int INNER = ALONG_K ? TILE_K : SPAN;  // contiguous in memory
  static constexpr int ROWS = ALONG_K ? SPAN : TILE_K;
  static constexpr int WIDTH = VECTOR;
  static constexpr int RUNS = INNER / WIDTH;  // vectors in a row of memory
  static constexpr int VECTORS = SPAN * TILE_K / WIDTH;
  static constexpr int COUNT = (VECTORS + kThreads - 1) / kThreads;  // vectors a thread loads
  // TMA copies tiles as they lie, aligned to 16 bytes. cp.async transposes single words, not vectors. Other tiles pass
  // through registers. To transpose there (ACROSS), a warp loads 32 bytes, a whole sector, of each of several rows; its
  // stores fall into different banks, since rows of SPAN + 4 words shift four steps of k by half of the banks.
  static constexpr bool BY_TMA = LAYOUT.by_tma();
  // Where k is contiguous, TMA copies panels of at most 128 bytes of k, swizzled at their width: reads of the same k of
  // 8 neighbouring rows fall into different banks.
  static constexpr bool SWIZZLED = LAYOUT.swizzled();
  static constexpr int PANEL = LAYOUT.panel();
  static constexpr int PANEL_ELEMENTS = SPAN * PANEL;
  static constexpr bool BY_REGISTERS = LAYOUT.by_registers();
  static constexpr bool ACROSS = BY_REGISTERS && ALONG_K && TRANSPOSE;
  static constexpr int NEAR = 8 / WIDTH;  // ACROSS: neighbouring threads that load from one row
  static constexpr int PAD = LAYOUT.pad(), STRIDE = LAYOUT.stride(), ELEMENTS = LAYOUT.elements();
  // A thread's values are runs of CHUNK neighbours; the runs of a warp's threads lie side by side.
  static constexpr int CHUNK = STAGED_K ? 1 : (THREAD % 4 == 0 ? 4 : (THREAD % 2 == 0 ? 2 : 1));
  static_assert(INNER % WIDTH == 0, "vectors tile the rows of an operand tile");
  static_assert(THREAD % CHUNK == 0, "a thread's values come in whole vectors");
  static_assert(!SWIZZLED || SPAN % 8 == 0, "a swizzle repeats after 8 rows");

  static DEVICE_MEMBER int position(int lane, int i) {  // of the lane's value i within the warp's part
    return i / CHUNK * (WARP * CHUNK) + lane * CHUNK + i % CHUNK;
  }
  static DEVICE_MEMBER int place_of(int s, int k) { return STAGED_K ? s * STRIDE + k : k * STRIDE + s; }

  // What the index of a 16-byte chunk of row s is XORed with: swizzled() of tma.cuh, for rows of a panel.
  static DEVICE_MEMBER int exchange(int s) { return s * PANEL / 32 % (PANEL / 4); }
  // The place of step k of value i, for a thread whose first value is row s0 of the tile. For STAGED_K.
  static DEVICE_MEMBER int place_along_k(int s0, int i, int k) {
    const int s = s0 + i * WARP;
    if constexpr (!SWIZZLED) return place_of(s, k);
    // Where warps begin at multiples of 8 rows, s0 and i determine different bits: the compiler then computes the part
    // of s0 once for all i.
    constexpr bool APART = THREAD * WARP % 8 == 0;
    const int by = APART ? exchange(s0) ^ exchange(i * WARP) : exchange(s);
    return k / PANEL * PANEL_ELEMENTS + s * PANEL + (k % PANEL ^ by * 4);
  }

  // LANES neighbouring threads share a row of memory, so that they load whole lines of 128 bytes (32 bytes where the
  // tile is transposed: their stores then fall into different banks), unless a thread would have more than COUNT
  // vectors. A thread loads IN_ROW vectors of its row, at constant distances, and the same of rows below: it computes
  // one address a row, not one a vector.
  static constexpr bool shares(int lanes) {
    return lanes > 0 && RUNS % lanes == 0 && kThreads % lanes == 0 &&
           RUNS / lanes * ((ROWS * lanes + kThreads - 1) / kThreads) == COUNT;
  }
  static constexpr int sharing() {
    for (int lanes = (TRANSPOSE ? 8 : 32) / WIDTH; lanes <= RUNS; lanes *= 2)
      if (shares(lanes)) return lanes;
    for (int lanes = 16 / WIDTH; lanes >= 8 / WIDTH; lanes /= 2)
      if (shares(lanes)) return lanes;
    return RUNS;
  }
  static constexpr int LANES = sharing();
  static constexpr bool REGULAR = shares(LANES) && !ACROSS;  // else threads take the tile's vectors in turn
  static constexpr int IN_ROW = REGULAR ? RUNS / LANES : 1;  // vectors of a row for one thread
  static constexpr int ROWS_APART = REGULAR ? kThreads / LANES : 1;
  static constexpr bool EVEN = REGULAR ? ROWS % ROWS_APART == 0 : VECTORS % kThreads == 0;

  struct Place {
    int inner, outer;
    bool used;
  };
  static DEVICE_MEMBER Place place(int j) {
    if constexpr (ACROSS) {
      const int id = int(threadIdx.x) + j * kThreads;
      return {(id / (NEAR * SPAN) * NEAR + id % NEAR) * WIDTH, id / NEAR % SPAN,
              EVEN || id < VECTORS};
    } else if constexpr (REGULAR) {
      const int outer = int(threadIdx.x) / LANES + j / IN_ROW * ROWS_APART;
      return {(int(threadIdx.x) % LANES + j % IN_ROW * LANES) * WIDTH, outer, EVEN || outer < ROWS};
    } else {
      const int id = int(threadIdx.x) + j * kThreads;
      return {id % RUNS * WIDTH, id / RUNS, EVEN || id < VECTORS};
    }
  }

  const float* corner;  // of the next tile
  const float* first;   // this thread's first vector of it
  Int64 ld, rows_apart, tile_apart;
  int span_left;  // rows or columns of the matrix from the tile's first on, at most SPAN

  DEVICE_MEMBER Operand(const float* matrix, Int64 leading, Int64 span0, Int64 span, Int64 k0)
      : corner(matrix + (ALONG_K ? span0 * leading + k0 : k0 * leading + span0)),
        ld(leading),
        rows_apart(ROWS_APART * leading),
        tile_apart(ALONG_K ? TILE_K : TILE_K * leading),
        span_left(span - span0 < SPAN ? static_cast<int>(span - span0) : SPAN) {
    const Place p = place(0);
    first = corner + (is_row(p) ? p.outer : 0) * ld + p.inner;
  }
  DEVICE_MEMBER void advance() {
    corner += tile_apart;
    first += tile_apart;
  }
  // Whether only the edge of k can lie within the tile. Rows of m (n) that are outside need neither tests nor zeros:
  // another row is loaded in their place, and their sums are not written. Single columns that are outside are skipped
  // (SKIPS).
  DEVICE_MEMBER bool inside() const { return ALONG_K || WIDTH == 1 || INSIDE || span_left == SPAN; }
  static constexpr bool SKIPS = WIDTH == 1 && !ALONG_K && !INSIDE;
  DEVICE_MEMBER bool skipped(const Place& p) const { return SKIPS && p.inner >= span_left; }
  DEVICE_MEMBER bool is_row(const Place& p) const {
    return !ALONG_K || INSIDE || p.outer < span_left;
  }
  DEVICE_MEMBER const float* vector(int j) const {
    if constexpr (ACROSS && kThreads % (NEAR * SPAN) == 0) {
      return first + j * (kThreads / SPAN) * WIDTH;
    } else if constexpr (ACROSS && NEAR * SPAN % kThreads == 0 && kThreads % NEAR == 0) {
      // The block's threads go over all rows in PASSES passes, then to the next vectors of the rows.
      constexpr int PASSES = NEAR * SPAN / kThreads;
      return first + j / PASSES * 8 + (is_row(place(j)) ? j % PASSES * (kThreads / NEAR) * ld : 0);
    } else {
      const Place p = place(j);
      return corner + (is_row(p) ? p.outer : 0) * ld + p.inner;
    }
  }
  // The number of the vector's elements that are inside the matrix; may be negative. FULL: the whole tile is inside.
  template <bool FULL>
  DEVICE_MEMBER int valid(const Place& p, int k_left) const {
    if (FULL) return WIDTH;
    const int along = ALONG_K ? k_left - p.inner : span_left - p.inner;
    return ALONG_K || p.outer < k_left ? along : 0;
  }

  // The address of the vector after the j-th, which lies at `at`. A row's address is computed from the row before.
  DEVICE_MEMBER const float* after(const float* at, int j) const {
    if constexpr (!REGULAR) return vector(j + 1);
    if ((j + 1) % IN_ROW != 0) return at + LANES * WIDTH;
    at -= (IN_ROW - 1) * (LANES * WIDTH);
    if (is_row(place(j + 1))) at += rows_apart;
    return opaque_pointer(at);
  }

  template <bool FULL>
  DEVICE_MEMBER void load(float (&to)[COUNT][WIDTH], int k_left) const {
    const float* from = REGULAR ? first : vector(0);
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      const Place p = place(j);
      if (p.used && FULL && skipped(p))
        to[j][0] = 0;
      else if (p.used)
        load_part<WIDTH>(to[j], from, 0, valid<FULL>(p, k_left));
      from = after(from, j);
    }
  }
  DEVICE_MEMBER void store(float* tile, const float (&values)[COUNT][WIDTH]) const {
    UNROLL_ALL
    for (int j = 0; j < COUNT; ++j) {
      const Place p = place(j);
      if (!p.used) continue;
      if constexpr (!TRANSPOSE && PAD % WIDTH == 0) {
        store_vector<WIDTH>(tile + p.outer * STRIDE + p.inner, values[j]);
      } else {
        UNROLL_ALL
        for (int e = 0; e < WIDTH; ++e)
          tile[ALONG_K ? place_of(p.outer, p.inner + e) : place_of(p.inner + e, p.outer)] = values[j][e];
      }
    }
  }
#if PREFETCH >= 3 && PREFETCH < 6
  // Copies by cp.async: vectors, or single words where the tile is transposed.
  template <bool FULL>
  DEVICE_MEMBER void copy(float* tile, int k_left) const {
    const auto at = [](const Place& p) {
      return ALONG_K ? place_of(p.outer, p.inner) : place_of(p.inner, p.outer);
    };
    float* first_of_thread = opaque_shared_pointer(tile + at(place(0)));
    constexpr int ALONG = LANES * WIDTH * (TRANSPOSE ? STRIDE : 1),
                  DOWN = ROWS_APART * (TRANSPOSE ? 1 : STRIDE);
    const float* from = REGULAR ? first : vector(0);
    // Unrolled, the edge tests of many copies would take registers from the main loop.
    UNROLL_BY(FULL || COUNT <= 8 ? COUNT : IN_ROW)
    for (int j = 0; j < COUNT; ++j, from = after(from, j - 1)) {
      const Place p = place(j);
      if (!p.used || (FULL && skipped(p))) continue;
      float* to =
          REGULAR ? first_of_thread + j % IN_ROW * ALONG + j / IN_ROW * DOWN : tile + at(p);
      copy_async<WIDTH>(to, from, valid<FULL>(p, k_left));
    }
  }
#endif
  // The thread's values at steps k .. k + FRAGMENT_K - 1.
  static DEVICE_MEMBER void read(float (&to)[FRAGMENT_K][THREAD], const float* tile, int warp_at,
                                 int lane, int k) {
    if constexpr (STAGED_K) {
      UNROLL_ALL
      for (int i = 0; i < THREAD; ++i) {
        float run[FRAGMENT_K];
        load_vector<FRAGMENT_K>(run, tile + place_along_k(warp_at + lane, i, k));
        UNROLL_ALL
        for (int e = 0; e < FRAGMENT_K; ++e) to[e][i] = run[e];
      }
    } else {
      UNROLL_ALL
      for (int e = 0; e < FRAGMENT_K; ++e) {
        UNROLL_ALL
        for (int i = 0; i < THREAD; i += CHUNK) {
          float run[CHUNK];
          load_vector<CHUNK>(run, tile + place_of(warp_at + position(lane, i), k + e));
          UNROLL_ALL
          for (int c = 0; c < CHUNK; ++c) to[e][i + c] = run[c];
        }
      }
    }
  }
};

#if PREFETCH >= 3
// An operand's tile in flight through this thread's registers or by cp.async. MainLoop issues TMA's copies.
template <typename Of>
struct InFlight {
  float values[Of::BY_REGISTERS ? Of::COUNT : 1][Of::BY_REGISTERS ? Of::WIDTH : 1];

  template <bool FULL>
  DEVICE_MEMBER void start(const Of& operand, float* tile, int k_left) {
    if constexpr (Of::BY_REGISTERS) operand.template load<FULL>(values, k_left);
#if PREFETCH < 6
    if constexpr (!Of::BY_REGISTERS) operand.template copy<FULL>(tile, k_left);
#endif
  }
  DEVICE_MEMBER void finish(const Of& operand, float* tile) const {
    if constexpr (Of::BY_REGISTERS) operand.store(tile, values);
  }
};
#endif

using OperandA = Operand<TILE_M, THREAD_M, WARP_M, VECTOR_A, !A_TRANSPOSED, TRANSPOSE_A, kWholeM>;
using OperandB = Operand<TILE_N, THREAD_N, kWarpN, VECTOR_B, B_TRANSPOSED, TRANSPOSE_B, kWholeN>;
constexpr int kStageElements = OperandA::ELEMENTS + OperandB::ELEMENTS;
constexpr tilewise::simt::BlockLayout kLayout = {kStageElements, PREFETCH, TILE_M, TILE_N, SLICE_K};

// A lane's place in its warp's WARP_M x kWarpN threads, in a zigzag: bit 0 of the lane moves along the shorter side,
// the next bits along the longer one, the last along the shorter one again. Lanes l and l xor 1 then read the same
// values of one operand, l and l xor 2 of the other: shared memory merges such 16-byte reads.
DEVICE int lane_m(int lane) {
  return WARP_M >= kWarpN ? (kWarpN == 1 ? lane : (lane >> 1) % WARP_M)
                          : (WARP_M == 1 ? 0 : (lane & 1) | (lane / (2 * kWarpN) << 1));
}
DEVICE int lane_n(int lane) {
  return WARP_M >= kWarpN ? (kWarpN == 1 ? 0 : (lane & 1) | (lane / (2 * WARP_M) << 1))
                          : (WARP_M == 1 ? lane : (lane >> 1) % kWarpN);
}

struct Fragments {
  float a[FRAGMENT_K][THREAD_M], b[FRAGMENT_K][THREAD_N];

  // stage: A's tile, then B's. k: step of the tile.
  DEVICE_MEMBER void read(const float* stage, int warp_m, int warp_n, int lane, int k) {
    OperandA::read(a, stage, warp_m, lane_m(lane), k);
    OperandB::read(b, stage + OperandA::ELEMENTS, warp_n, lane_n(lane), k);
  }
};

// sums += a b^T for each step of k of the fragments. FMA_ORDER is the order of the multiply-adds: 0 row by row, 1 rows
// in serpentine, 2 pairs of rows in serpentine, 3 each row through all steps of k. The order determines how often an
// operand is read from the register reuse cache instead of its bank.
DEVICE void outer_product(float (&sums)[THREAD_M][THREAD_N], const Fragments& f) {
  constexpr int ROWS = FMA_ORDER == 2 && THREAD_M % 2 == 0 ? 2 : 1;
  constexpr int DEEP = FMA_ORDER == 3 ? FRAGMENT_K : 1;  // steps of k before the next row
  UNROLL_ALL
  for (int k0 = 0; k0 < FRAGMENT_K; k0 += DEEP) {
    UNROLL_ALL
    for (int i = 0; i < THREAD_M; i += ROWS) {
      UNROLL_ALL
      for (int k = k0; k < k0 + DEEP; ++k) {
        UNROLL_ALL
        for (int step = 0; step < THREAD_N; ++step) {
          const int j = FMA_ORDER != 0 && (i / ROWS + k) % 2 ? THREAD_N - 1 - step : step;
          UNROLL_ALL
          for (int r = 0; r < ROWS; ++r)
            sums[i + r][j] = multiply_add(f.a[k][i + r], f.b[k][j], sums[i + r][j]);
        }
      }
    }
  }
}

// Multiplies one group's part of a tile, from step k0 on.
DEVICE void multiply_tile(float (&sums)[THREAD_M][THREAD_N], const float* stage, int warp_m, int warp_n, int lane, int k0) {
  UNROLL_BY(kPassSteps)
  for (int k = 0; k < kGroupDepth; k += FRAGMENT_K) {
    Fragments now;
    now.read(stage, warp_m, warp_n, lane, k0 + k);
    outer_product(sums, now);
  }
}

#if FRAGMENTS == 2
// Multiplies one group's part of a tile except its last step, whose fragments it leaves in sets[1]. On entry sets[0]
// holds those of the first step.
DEVICE void multiply_ahead(float (&sums)[THREAD_M][THREAD_N], Fragments (&sets)[2], const float* stage, int warp_m,
                           int warp_n, int lane, int k0) {
  constexpr int STEPS = kGroupDepth / FRAGMENT_K;
  static_assert(STEPS % 2 == 0, "two sets of fragments take turns within a tile");
  const auto read = [&](Fragments& set, int step) {
    set.read(stage, warp_m, warp_n, lane, k0 + step * FRAGMENT_K);
  };
  UNROLL_ALL
  for (int step = 0; step < STEPS - 2; step += 2) {
    read(sets[1], step + 1);
    outer_product(sums, sets[0]);
    read(sets[0], step + 2);
    outer_product(sums, sets[1]);
  }
  read(sets[1], STEPS - 1);
  outer_product(sums, sets[0]);
}
#endif
