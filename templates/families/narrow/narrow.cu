// narrow: products of an A of f16 or bf16 and a B of fewer bits (weights), on tensor cores.
//
// A is m x k, B is stored as n x k. The instruction's left operand is B: 16 columns of C by 8 rows. A block computes TILE_M
// rows and TILE_N columns of C. Tiles of A and B, TILE_K deep, pass through STAGES stages of shared memory, B as it is
// stored: memory is read once, and each weight becomes a 16-bit float in a register (words/narrow.cuh).
//
//     WARPS_N warps lie side by side along n, each with BLOCKS x 16 columns of C and all TILE_M rows.
//     WARPS_K warps share the k of a tile. Their sums are added at the end, in the order of the warps.
//
// A warp multiplies 32 steps of k at a time (a unit). The fragments of an instruction may have the steps of k in any
// order, as long as it is the same in both: lane l of the four of a row has the steps 8 l to 8 l + 7, which are neighbours
// in memory. Two instructions take four of them each. The pairs of 4-bit weights that masks find in a word are four steps
// apart.
//
// BYTES_A, BYTES_B: bytes of a copy (cp.async), at most the operand's alignment.
//
// SCALES (parts/pointwise.cuh): sums of kScaledSteps steps are multiplied by their scales and added in f32. ZERO_POINTS: B's
// numbers less their zero points are, which a pair of 16-bit floats holds exactly.
//
// From the problem: ELEMENT, ELEMENT_B, RESULT, SUM, BATCHED, GROUPED. SPLIT 1: writes partial sums, for the reduce step.
#include "families/narrow/main_loop.cuh"

KERNEL(kThreads, BLOCKS_PER_SM) narrow(ARGUMENTS MultiplyArgs args) {
  grid_dependency_wait();
  if (SPLIT) launch_dependents();
  char* shared = reinterpret_cast<char*>(shared_floats());
  const WorkTile work_tile = work_tile_of_block(args, TILE_M, kTileN);
  const Tile tile = work_tile.tile;
  if constexpr (GROUPED != 0) {
    if (!tile.any()) return;
  }
  const Int64 row_end = row_end_of(args, tile);
  const auto at_most = [](Int64 value, int most) { return value < most ? int(value) : most; };

  const Int64 share = k_share<SPLIT != 0, TILE_K>(args);
  const Int64 begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 part = begin + share * TILE_K < args.steps() ? share * TILE_K : args.steps() - begin;
  const int rows = at_most(row_end - tile.row, TILE_M), columns = at_most(args.n - tile.column, kTileN);
  const CopiesOfA copies_of_a(reinterpret_cast<const char*>(work_tile.a) + (tile.row * args.lda + begin) * 2, args.lda * 2, rows);
  const CopiesOfB copies_of_b(reinterpret_cast<const char*>(work_tile.b) + (tile.column * args.ldb + begin) * kBitsB / 8,
                              args.ldb * kBitsB / 8, columns);
  const int count = part > 0 ? int((part + TILE_K - 1) / TILE_K) : 0;

  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int warp_n = warp % WARPS_N, warp_k = warp / WARPS_N;
  const int first_column = warp_n * BLOCKS * 16 + lane / 4;
  const LanePlaces places(first_column, warp_k);
#if SCALES
  const BlockTiles<ScaleOfB> scales(args, tile, begin, part);
#endif
#if ZERO_POINTS
  const BlockTiles<ZeroOfB> zeros(args, tile, begin, part);
#endif
  // Starts the copies of a tile.
  const auto copy = [&](int stage, int nth) {
    char* to = shared + stage * kLayout.stage_bytes();
    const int left = at_most(part - Int64(nth) * TILE_K, TILE_K);
    copies_of_a.copy(to, nth, left * 2);
    copies_of_b.copy(to + kLayout.bytes_a(), nth, (left * kBitsB + 7) / 8);  //@ narrow-left
#if SCALES
    scales.copy(reinterpret_cast<Scale*>(to + kLayout.scales_at()), nth);
#endif
#if ZERO_POINTS
    zeros.copy(reinterpret_cast<Zero*>(to + kLayout.zeros_at()), nth);
#endif
  };

  Sums sums = {};
  unsigned not_a_number[BLOCKS][2] = {};
  UNROLL_ALL
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < count) copy(stage, stage);
    copies_commit();
  }
  int stage = 0;
  for (int t = 0; t < count; ++t) {
    copies_done<STAGES - 2>();
    barrier();  //@ narrow-full
    const int next = t + STAGES - 1;
    if (next < count) copy(stage == 0 ? STAGES - 1 : stage - 1, next);
    copies_commit();
    const char* here = shared + stage * kLayout.stage_bytes();
#if SCALES
    const Scale* of_tile = reinterpret_cast<const Scale*>(here + kLayout.scales_at());
    UNROLL_ALL
    for (int block = 0; block < kSlice / kBlock; ++block) {
      const int in_tile = (warp_k * kSlice + block * kBlock) / kScaledSteps * kTileN + first_column;  //@ narrow-block
#if ZERO_POINTS
      const ZeroPairs of_zeros(reinterpret_cast<const Zero*>(here + kLayout.zeros_at()) + in_tile);
#else
      const ZeroPairs of_zeros;
#endif
      Sums of_block = {};
      multiply_steps<kBlock>(of_block, here, places, block * kBlock, of_zeros, not_a_number);
      UNROLL_ALL
      for (int i = 0; i < BLOCKS * 2; ++i) {
        const Sum read = ScaleOfB::widen(of_tile[in_tile + i * 8]);
        // What lies behind k is 0, also where the scale is infinite.
        const bool any = Int64(t) * TILE_K + warp_k * kSlice + block * kBlock < part;
        const Sum scale = any ? read : Sum(0);
        UNROLL_ALL
        for (int j = 0; j < kColumns; ++j) {
          UNROLL_ALL
          for (int e = i % 2 * 2; e < i % 2 * 2 + 2; ++e)
            sum_at(sums, i / 2, j, e) = multiply_add(sum_at(of_block, i / 2, j, e), scale, sum_at(sums, i / 2, j, e));  //@ narrow-scaled
        }
      }
    }
#else
    multiply_steps<kSlice>(sums, here, places, 0, ZeroPairs(), not_a_number);
#endif
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }

  // A NaN of B makes its column of C NaN.
#if ELEMENT_B == TYPE_E4M3
  UNROLL_ALL
  for (int i = 0; i < 2 * BLOCKS; ++i) {
    unsigned any = not_a_number[i / 2][i % 2];
    any |= shuffle_xor(any, 1);
    any |= shuffle_xor(any, 2);  //@ narrow-nan-lanes
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int e = 0; e < 2; ++e)
        if (any) sum_at(sums, i / 2, j, i % 2 * 2 + e) = float_of(0x7fc00000);
    }
  }
#endif

  copies_done<0>();
  barrier();  // the stages are read
  Sum* exchanged = reinterpret_cast<Sum*>(shared);  // [WARPS_K][TILE_M][kLayout.sum_stride()]
  UNROLL_ALL
  for (int i = 0; i < BLOCKS; ++i) {
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int e = 0; e < 4; ++e) {  // e / 2: eight columns of C on; e % 2: the next row
        const int row = j * 8 + lane % 4 * 2 + e % 2, column = first_column + i * 16 + e / 2 * 8;
        exchanged[warp_k * kLayout.sums() + row * kLayout.sum_stride() + column] = sum_at(sums, i, j, e);
      }
    }
  }
  barrier();
  [[maybe_unused]] const Scalars scalars = scalars_of(args);
  constexpr int ACROSS = kTileN / VECTOR_C;
  for (int nth = threadIdx.x; nth < TILE_M * ACROSS; nth += kThreads) {
    const int row = nth / ACROSS, column = nth % ACROSS * VECTOR_C;
    if (row >= rows || column >= columns) continue;
    Sum values[VECTOR_C];
    load_sums(values, exchanged + row * kLayout.sum_stride() + column);
    UNROLL_ALL
    for (int w = 1; w < WARPS_K; ++w) {
      Sum more[VECTOR_C];
      load_sums(more, exchanged + w * kLayout.sums() + row * kLayout.sum_stride() + column);
      UNROLL_ALL
      for (int e = 0; e < VECTOR_C; ++e) values[e] = add(values[e], more[e]);  //@ narrow-warps
    }
    const Int64 c_row = tile.row + row, c_column = tile.column + column;
#if SPLIT
    store_part<VECTOR_C>(work_tile.partial + c_row * args.n + c_column, values, 0, columns - column);
#else
    blend_part<VECTOR_C>(scalars, values, work_tile.c + c_row * args.ldc + c_column, 0, columns - column,
                         place_of(tile, c_row, c_column));
#endif
  }
}
