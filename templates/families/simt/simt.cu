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
// Loads: the threads of a block load a tile in runs of VECTOR_A (VECTOR_B) elements along memory, so a warp reads
// whole lines. A tile is staged with its m (n) contiguous, and a thread reads its values as vectors; or with k
// contiguous, as row-major A lies. TRANSPOSE_A (TRANSPOSE_B) transposes the tile between memory and stage. Padding and
// the order of lanes (lane_m, lane_n) avoid most bank conflicts of both kinds of access.
//
// Sliced-K: SLICE_K groups of warps share the k of every tile. Each group has a full set of sums; the epilogue adds
// them. So a small tile of C fills a multiprocessor with threads.
//
// Fragments: a thread reads FRAGMENT_K steps of k at a time, one vector a row where k is contiguous in the stage.
// FRAGMENTS 2 reads the next fragments, those of the next tile included, while the current ones are multiplied.
//
// PREFETCH: how the next tile is copied while the current one is multiplied.
//   0        not at all
//   1        into registers
//   2        into registers, then into a second buffer: one barrier a tile
//   3, 4, 5  by cp.async through 2, 3, 4 stages
//   6, 7, 8  by TMA through a pipeline of 3, 4, 6 stages. One thread issues the loads of whole tiles, swizzled where k is
//            contiguous. An operand that is transposed or not aligned to 16 bytes goes through registers. Each warp
//            waits for full stages and arrives at their empty barriers; the block has no common barrier.
//
// Edges: elements of a tile outside the matrix are zero along k. Along m and n they may have any value, since their
// sums are not stored: another row replaces a row outside, a single word outside is not copied, and only vectors test
// their elements. Warps wholly outside C do not multiply.
//
// From the problem: A_TRANSPOSED, B_TRANSPOSED (of the operands this kernel reads; a pack step may have transposed
// them). SPLIT 1 stores partial sums to c as [split][m][n], for the reduce step.
//
// STREAM_K 1: the tiles of a partial last wave are shared evenly (StreamKRange). Their sums go to `partial`, and the
// stream_k step adds them.
//
// SPECIALIZE_SIZE 1: m, n, k, the number of splits and GROUP_M are constants (SIZE_M, SIZE_N, SIZE_K, SPLITS,
// TILE_ROWS_TOGETHER). The compiler resolves edges, divisions and counts. An image serves one size.
#include "families/simt/main_loop.cuh"

// Where a block stores its tile: in C, blended with C's values, or as partial sums in the workspace.
struct Destination : Place {  // of the tile's first element in C
  float* c;  // of the tile's first element
  Int64 ld, rows, columns;  // from that element to the end of the matrix
  Scalars scalars;
};

// Stores rows first, first + EVERY, ... of the thread's rows: values[r] is of row first + r EVERY. A loop of two passes
// stores half of the rows each, which halves the code to compile. Registers have no index, so a pass first selects its
// half of the sums.
template <int ROWS, int EVERY>
DEVICE void write_rows(const Destination& to, const float (&values)[ROWS][THREAD_N], int first,
                       const ThreadPosition& thread) {
  constexpr int RUN = VECTOR_C, HALVES = ROWS % 2 == 0 && ROWS * THREAD_N >= 32 ? 2 : 1, HALF = ROWS / HALVES;
  static_assert(OperandB::CHUNK % RUN == 0, "stores are no wider than a run of columns");
  const int columns = to.columns < TILE_N ? static_cast<int>(to.columns) : TILE_N;
  UNROLL_BY(1)
  for (int half = 0; half < HALVES; ++half) {
    float now[HALF][THREAD_N];
    UNROLL_ALL
    for (int i = 0; i < HALF * THREAD_N; ++i) {
      const int r = i / THREAD_N, j = i % THREAD_N;
      now[r][j] = half == 0 ? values[r][j] : values[ROWS - HALF + r][j];
    }
    UNROLL_ALL
    for (int r = 0; r < HALF; ++r) {
      const int nth = first + (half * HALF + r) * EVERY;
      const int row = thread.warp_m + OperandA::position(lane_m(thread.lane), nth);
      if (!kWholeM && row >= to.rows) continue;
      float* in_row = opaque_pointer(to.c + row * to.ld);
      UNROLL_ALL
      for (int j = 0; j < THREAD_N; j += RUN) {
        float run[RUN];
        UNROLL_ALL
        for (int e = 0; e < RUN; ++e) run[e] = now[r][j + e];
        const int column = thread.warp_n + OperandB::position(lane_n(thread.lane), j);
        blend_part<RUN>(to.scalars, run, in_row + column, 0, kWholeN ? RUN : columns - column,
                        to.below(row).beside(column));
      }
    }
  }
}

#if SLICE_K > 1
static_assert(THREAD_M % SLICE_K == 0, "each group writes its share of a thread's rows");
static_assert(THREAD_M * THREAD_N % 4 == 0, "sums are exchanged four at a time");

// Adds the groups' sums, in the order of the groups, for every SLICE_K-th row of the thread. The threads at the same
// place of each group exchange sums through shared memory, four at a time.
DEVICE void add_groups(float (&total)[THREAD_M / SLICE_K][THREAD_N],
                       const float (&sums)[THREAD_M][THREAD_N], float* shared, int group) {
  constexpr int RUN = THREAD_N % 4 == 0 ? 4 : (THREAD_N % 2 == 0 ? 2 : 1);
  constexpr int RUNS = THREAD_N / RUN;
  const int place = int(threadIdx.x) % kGroupThreads;
  const auto slot = [&](int g, int i, int q) {
    return shared + (((g * THREAD_M + i) * RUNS + q) * kGroupThreads + place) * RUN;
  };
  barrier();  // the tiles are no longer read
  UNROLL_ALL
  for (int i = 0; i < THREAD_M; ++i) {
    UNROLL_ALL
    for (int q = 0; q < RUNS; ++q) {
      float run[RUN];
      UNROLL_ALL
      for (int e = 0; e < RUN; ++e) run[e] = sums[i][q * RUN + e];
      store_vector<RUN>(slot(group, i, q), run);
    }
  }
  barrier();
  UNROLL_ALL
  for (int r = 0; r < THREAD_M / SLICE_K; ++r) {
    UNROLL_ALL
    for (int q = 0; q < RUNS; ++q) {
      float run[RUN];
      load_vector<RUN>(run, slot(0, r * SLICE_K + group, q));
      UNROLL_ALL
      for (int g = 1; g < SLICE_K; ++g) {
        float more[RUN];
        load_vector<RUN>(more, slot(g, r * SLICE_K + group, q));
        UNROLL_ALL
        for (int e = 0; e < RUN; ++e) run[e] += more[e];
      }
      UNROLL_ALL
      for (int e = 0; e < RUN; ++e) total[r][q * RUN + e] = run[e];
    }
  }
}
#endif

DEVICE void write_result(const Destination& to, const Sums& sums, float* shared, const ThreadPosition& thread) {
#if SLICE_K > 1
  float total[THREAD_M / SLICE_K][THREAD_N];
  add_groups(total, sums, shared, thread.group);
  write_rows<THREAD_M / SLICE_K, SLICE_K>(to, total, thread.group, thread);
#else
  write_rows<THREAD_M, 1>(to, sums, 0, thread);
#endif
}

#if STREAM_K
// Between two work units: all reads of shared memory and all copies into it have ended.
DEVICE void shared_free() {
#if PREFETCH >= 6
  fence_proxy_async();  //@ simt-fence-between-tiles
#elif PREFETCH >= 3
  copies_done<0>();
#endif
  barrier();
}
#endif

KERNEL(kThreads, BLOCKS_PER_SM) simt(ARGUMENTS SimtArgs args) {
  float* shared = shared_floats();  // kStages x [A tile, B tile]
  const ThreadPosition thread;
  Stages stages(shared);
  grid_dependency_wait();
#if CONDITIONAL
  if (!args.moduli.native()) return;
#endif
  if (SPLIT || STREAM_K) launch_dependents();
#if STREAM_K
  StreamKRange range(args.whole_tiles, args.depth, args.share, tile_count(args, TILE_M, TILE_N));
  for (int nth = 0; range.any(); ++nth) {
    const StreamKPart part = range.part();
    const Tile tile = tile_of_product(args, static_cast<unsigned>(part.index), TILE_M, TILE_N);
    const Int64 k_end = part.last * TILE_K < args.steps() ? part.last * TILE_K : args.steps();
    const Int64 k_size = k_end - part.first * TILE_K;
    const WorkUnit work = {tile.row, tile.column, part.first * TILE_K, k_size > 0 ? k_size : 0, args.a, args.b};
    if (nth > 0) shared_free();  //@ simt-barrier-between-tiles
    Sums sums = {};
    if (args.has_product()) multiply(sums, stages, args, work, thread);
    const Destination whole = {{tile.row, tile.column, 0}, args.c + tile.row * args.ldc + tile.column, args.ldc,
                               args.rows() - tile.row, args.columns() - tile.column, scalars_of(args)};
    const Destination partial = {{0, 0, 0}, args.partial + (2 * Int64(range.shared_block) + nth) * TILE_M * TILE_N, TILE_N,
                                 TILE_M, TILE_N, {1.0f, 0.0f}};
    write_result(range.shared_block < 0 ? whole : partial, sums, shared, thread);
    range.advance(part);
  }
#else
  const Tile tile = tile_of_block(args, TILE_M, TILE_N);
  if constexpr (GROUPED != 0) {
    if (!tile.any()) return;
  }
  const Int64 batch = tile.batch;
#if GROUPED_DEPTH
  const DepthRange steps = depth_of_product(args, tile.batch);
  const Int64 begin = steps.begin, end = steps.end;
#else
  const Int64 share = k_share<SPLIT != 0, TILE_K>(args);
  const Int64 begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 end = begin + share * TILE_K < args.steps() ? begin + share * TILE_K : args.steps();
#endif
  const WorkUnit work = {tile.row,
                     tile.column,
                     begin,
                     end > begin ? end - begin : 0,
                     operand_of<POINTERS_A != 0>(args, args.a, args.stride_a, batch),
                     operand_of<POINTERS_B != 0>(args, args.b, args.stride_b, batch)
#if GROUPED
                         ,
                     tile.row_end
#endif
  };
  Sums sums = {};
  if (args.has_product()) multiply(sums, stages, args, work, thread);
  const Int64 ldc = SPLIT ? args.columns() : args.ldc;
  float* c = SPLIT ? args.c + (batch * args.parts() + tile.split) * args.rows() * args.columns()
                   : matrix_of<POINTERS_C != 0>(args.c, args.stride_c, batch);
  write_result({place_of(tile, tile.row, tile.column), c + tile.row * ldc + tile.column, ldc, row_end_of(args, tile) - tile.row,
                args.columns() - tile.column,
                SPLIT ? Scalars{1.0f, 0.0f} : scalars_of(args)},
               sums, shared, thread);
#endif
}
