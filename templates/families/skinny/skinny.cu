// skinny: products with a few rows or a few columns of C: a matrix times a vector or a few vectors.
//
// SMALL_OPERAND 0: A is the small operand (few rows of C); 1: B is (few columns). The large operand is read once, which
// takes most of the time. A block computes ROWS rows of the small operand (columns of B) times the outputs of its
// warps. An output is a column of the large operand (a row, where A is large), and so a column (row) of C. Operands are
// not staged: the large one is loaded to registers, the small one is served by L1.
//
//   LARGE_ALONG_K (k contiguous)  the lanes of a warp share k       a warp has OUTPUTS outputs; its lanes' sums
//     large: o ->  ............                                     are added at the end
//                  ............
//   otherwise                     the lanes lie along the outputs   a lane has OUTPUTS outputs, in vectors
//     large: k ->  ............
//                  ............
//
// WARPS_K warps take the passes of k in turn; WARPS_N warps lie side by side along the outputs. UNROLL: loads of the
// large operand in flight in a lane, a vector along k or a step of k each. The sums of the WARPS_K warps are added in
// the order of the warps, through shared memory.
//
// From the problem: ELEMENT, RESULT, SUM, A_TRANSPOSED, B_TRANSPOSED, SPLIT (see simt.cu). Elements are widened to the
// accumulator's type as they are multiplied.
#include "families/skinny/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#include "words/warp.cuh"

constexpr bool SMALL_ALONG_K = SMALL_OPERAND ? B_TRANSPOSED : !A_TRANSPOSED;
constexpr bool LARGE_ALONG_K = SMALL_OPERAND ? !A_TRANSPOSED : B_TRANSPOSED;
constexpr tilewise::skinny::BlockLayout kLayout = {LARGE_ALONG_K, ROWS, OUTPUTS, WARPS_N, WARPS_K, VECTOR, UNROLL,
                                                  int(sizeof(Sum))};
constexpr int kThreads = kLayout.threads();
constexpr int kSums = ROWS * OUTPUTS;  // of one thread
constexpr int kWarpOutputs = kLayout.warp_outputs(), kBlockOutputs = kLayout.block_outputs();
constexpr int kPass = kLayout.pass();
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
static_assert((kSums & (kSums - 1)) == 0, "a thread's sums are a power of two, since lanes halve them");
static_assert(LARGE_ALONG_K || OUTPUTS % VECTOR == 0, "a lane's outputs are whole vectors");
static_assert((LARGE_ALONG_K ? VECTOR : UNROLL) % VECTOR_SMALL == 0,
              "the small operand's part of a load is whole vectors");

struct Small {
  const Element* at;  // the block's first row, at k = 0
  Int64 ld;
  int rows;  // inside the matrix, at most ROWS

  // Loads COUNT steps of k from `k` on, for every row; `left` steps are inside, the others are zeros. Rows past the
  // last repeat it; their sums are not written.
  template <int COUNT, bool FULL>
  DEVICE_MEMBER void load(Sum (&to)[ROWS][COUNT], Int64 k, Int64 left) const {
    UNROLL_ALL
    for (int r = 0; r < ROWS; ++r) {
      const Int64 row = r < rows ? r : rows - 1;
      if constexpr (SMALL_ALONG_K) {
        UNROLL_ALL
        for (int e = 0; e < COUNT; e += VECTOR_SMALL) {
          Element run[VECTOR_SMALL];
          const Int64 valid = FULL || left - e > VECTOR_SMALL ? VECTOR_SMALL : left - e;
          load_part<VECTOR_SMALL>(run, at + row * ld + k + e, 0, static_cast<int>(valid));
          UNROLL_ALL
          for (int i = 0; i < VECTOR_SMALL; ++i) to[r][e + i] = widen(run[i]);
        }
      } else {
        UNROLL_ALL
        for (int e = 0; e < COUNT; ++e) to[r][e] = FULL || e < left ? widen(at[(k + e) * ld + row]) : Sum(0);
      }
    }
  }
};

// Loads VECTOR neighbouring elements, `valid` of them inside; each is read once.
DEVICE void load_large(Element (&to)[VECTOR], const Element* from, int valid) {
  if (EVICT_FIRST && valid >= VECTOR) {
    load_vector_evict_first<VECTOR>(to, from);
  } else {
    load_part<VECTOR>(to, from, 0, valid);
  }
}

// Lanes share k: one pass from step k0 on; `left` steps are inside.
template <bool FULL>
DEVICE void pass_along_k(Sum (&sums)[kSums], const Small& small, const Element* large, Int64 ld,
                         int outputs, Int64 k0, Int64 left) {
  const int lane = threadIdx.x % 32;
  Element from_large[UNROLL][OUTPUTS][VECTOR];
  UNROLL_ALL
  for (int u = 0; u < UNROLL; ++u) {
    const int k = (u * 32 + lane) * VECTOR;
    UNROLL_ALL
    for (int o = 0; o < OUTPUTS; ++o) {
      // Outputs past the last repeat it; their sums are not written.
      const Int64 output = o < outputs ? o : outputs - 1;
      const Int64 valid = FULL ? VECTOR : left - k;
      load_large(from_large[u][o], large + output * ld + k0 + k, valid < VECTOR ? int(valid) : VECTOR);
    }
  }
  UNROLL_ALL
  for (int u = 0; u < UNROLL; ++u) {
    const int k = (u * 32 + lane) * VECTOR;
    Sum from_small[ROWS][VECTOR];
    small.load<VECTOR, FULL>(from_small, k0 + k, left - k);
    UNROLL_ALL
    for (int e = 0; e < VECTOR; ++e) {
      UNROLL_ALL
      for (int i = 0; i < kSums; ++i)
        sums[i] = multiply_add(from_small[i / OUTPUTS][e], widen(from_large[u][i % OUTPUTS][e]), sums[i]);
    }
  }
}

// Lanes lie along the outputs: one pass of UNROLL steps from k0 on; `left` steps are inside.
template <bool FULL>
DEVICE void pass_across(Sum (&sums)[kSums], const Small& small, const Element* large, Int64 ld,
                        int outputs, Int64 k0, Int64 left) {
  const int lane = threadIdx.x % 32;
  Element from_large[UNROLL][OUTPUTS];
  UNROLL_ALL
  for (int u = 0; u < UNROLL; ++u) {
    UNROLL_ALL
    for (int o = 0; o < OUTPUTS; o += VECTOR) {
      const int output = (o * 32) + lane * VECTOR;
      Element run[VECTOR];
      load_large(run, large + (k0 + u) * ld + output, FULL || u < left ? outputs - output : 0);
      UNROLL_ALL
      for (int e = 0; e < VECTOR; ++e) from_large[u][o + e] = run[e];
    }
  }
  Sum from_small[ROWS][UNROLL];
  small.load<UNROLL, FULL>(from_small, k0, left);
  UNROLL_ALL
  for (int u = 0; u < UNROLL; ++u) {
    UNROLL_ALL
    for (int i = 0; i < kSums; ++i)
      sums[i] = multiply_add(from_small[i / OUTPUTS][u], widen(from_large[u][i % OUTPUTS]), sums[i]);
  }
}

// Adds the sums of LANES neighbouring lanes by recursive halving: in each round two lanes exchange half of their sums.
// Lane l ends with the totals from index l x COUNT / 32 on.
template <int COUNT, int LANES>
DEVICE void add_lanes(Sum (&sums)[COUNT], Sum* totals) {
  if constexpr (LANES == 1) {
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) totals[i] = sums[i];
  } else if constexpr (COUNT == 1) {
    Sum total[1] = {add(sums[0], shuffle_xor(sums[0], LANES / 2))};
    add_lanes<1, LANES / 2>(total, totals);
  } else {
    const bool upper = (threadIdx.x & (LANES / 2)) != 0;
    Sum kept[COUNT / 2];
    UNROLL_ALL
    for (int i = 0; i < COUNT / 2; ++i) {
      const Sum mine = upper ? sums[i + COUNT / 2] : sums[i];
      const Sum other = upper ? sums[i] : sums[i + COUNT / 2];
      kept[i] = add(mine, shuffle_xor(other, LANES / 2));
    }
    add_lanes<COUNT / 2, LANES / 2>(kept, totals);
  }
}

// Writes the warp's sums to shared[row][output of the block].
DEVICE void deposit(Sum (&sums)[kSums], Sum* shared) {
  const int lane = threadIdx.x % 32;
  if constexpr (LARGE_ALONG_K) {
    constexpr int KEPT = kSums > 32 ? kSums / 32 : 1;
    constexpr int SHARING = kSums < 32 ? 32 / kSums : 1;  // lanes with the same total
    Sum totals[KEPT];
    add_lanes<kSums, 32>(sums, totals);
    if (lane % SHARING == 0) {
      UNROLL_ALL
      for (int h = 0; h < KEPT; ++h) {
        const int i = lane / SHARING * KEPT + h;
        shared[i / OUTPUTS * kBlockOutputs + i % OUTPUTS] = totals[h];
      }
    }
  } else {
    UNROLL_ALL
    for (int i = 0; i < kSums; ++i) {
      const int o = i % OUTPUTS;
      shared[i / OUTPUTS * kBlockOutputs + (o / VECTOR * 32 + lane) * VECTOR + o % VECTOR] = sums[i];
    }
  }
}

KERNEL(kThreads, BLOCKS_PER_SM) skinny(ARGUMENTS MultiplyArgs args) {
  grid_dependency_wait();
  if (SPLIT) launch_dependents();
  Sum* shared = reinterpret_cast<Sum*>(shared_floats());  // [WARPS_K][ROWS][kBlockOutputs]
  const WorkTile work_tile = work_tile_of_block(args, SMALL_OPERAND ? kBlockOutputs : ROWS, SMALL_OPERAND ? ROWS : kBlockOutputs);
  const Tile tile = work_tile.tile;
  const Int64 row0 = SMALL_OPERAND ? tile.column : tile.row, all_rows = SMALL_OPERAND ? args.n : args.m;
  const Int64 block_output = SMALL_OPERAND ? tile.row : tile.column, all_outputs = SMALL_OPERAND ? args.m : args.n;
  const int warp = threadIdx.x / 32, warp_n = warp % WARPS_N, warp_k = warp / WARPS_N;
  const Int64 output0 = block_output + warp_n * kWarpOutputs;

  const Element* small_matrix = SMALL_OPERAND ? work_tile.b : work_tile.a;
  const Element* large_matrix = SMALL_OPERAND ? work_tile.a : work_tile.b;
  const Int64 small_ld = SMALL_OPERAND ? args.ldb : args.lda, large_ld = SMALL_OPERAND ? args.lda : args.ldb;
  const Int64 rows_left = all_rows - row0, outputs_left = all_outputs - output0;
  const Small small = {small_matrix + (SMALL_ALONG_K ? row0 * small_ld : row0), small_ld,
                       rows_left < ROWS ? static_cast<int>(rows_left) : ROWS};
  const Element* large = large_matrix + (LARGE_ALONG_K ? output0 * large_ld : output0);
  const int outputs = outputs_left < kWarpOutputs ? static_cast<int>(outputs_left) : kWarpOutputs;

  // The block's part of k; its WARPS_K warps take passes in turn.
  constexpr int kDepth = kPass * WARPS_K;
  const Int64 share = k_share<SPLIT != 0, kDepth>(args);
  const Int64 begin = SPLIT ? share * tile.split * kDepth : 0;
  const Int64 end = begin + share * kDepth < args.steps() ? begin + share * kDepth : args.steps();

  Sum sums[kSums] = {};
  if (outputs > 0) {
    for (Int64 k = begin + warp_k * kPass; k < end; k += kDepth) {
      const Int64 left = end - k;
      if constexpr (LARGE_ALONG_K) {
        if (left >= kPass)
          pass_along_k<true>(sums, small, large, large_ld, outputs, k, left);
        else
          pass_along_k<false>(sums, small, large, large_ld, outputs, k, left);
      } else {
        if (left >= kPass)
          pass_across<true>(sums, small, large, large_ld, outputs, k, left);
        else
          pass_across<false>(sums, small, large, large_ld, outputs, k, left);
      }
    }
  }
  deposit(sums, shared + warp_k * ROWS * kBlockOutputs + warp_n * kWarpOutputs);
  barrier();

  [[maybe_unused]] const Scalars scalars = scalars_of(args);
  for (int i = threadIdx.x; i < ROWS * kBlockOutputs; i += kThreads) {
    // Neighbouring threads write neighbouring elements of C.
    const int row = SMALL_OPERAND ? i % ROWS : i / kBlockOutputs;
    const int output = SMALL_OPERAND ? i / ROWS : i % kBlockOutputs;
    Sum sum = Sum(0);
    UNROLL_ALL
    for (int w = 0; w < WARPS_K; ++w) sum = add(sum, shared[(w * ROWS + row) * kBlockOutputs + output]);
    if (row >= rows_left || output >= all_outputs - block_output) continue;
    const Int64 c_row = SMALL_OPERAND ? block_output + output : row0 + row;
    const Int64 c_column = SMALL_OPERAND ? row0 + row : block_output + output;
#if SPLIT
    work_tile.partial[c_row * args.n + c_column] = sum;
#else
    Result* to = work_tile.c + c_row * args.ldc + c_column;
    blend(scalars, sum, to, {c_row, c_column, work_tile.tile.batch});
#endif
  }
}
