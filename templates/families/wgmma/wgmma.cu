// wgmma: the product of 16-bit floats on Hopper's tensor cores, fed by TMA.
//
// A block has a producer warpgroup and CONSUMERS warpgroups that multiply. One thread of the producer copies tiles of A
// and B, TILE_K deep, into a pipeline of STAGES stages in shared memory. The consumers multiply them there; their sums
// stay in registers. The producer hands registers over to the consumers (setmaxnreg).
//
// Blocks are persistent: a cluster takes one work item after another, a tile of C for all of k or for one part of it.
// While the consumers store a tile, the producer copies the first tiles of the next one.
//
// PING_PONG: 0 the consumers share each tile of C by rows ("cooperative"). 1 they take whole tiles in turn: one
// multiplies while another stores.
//
// CLUSTER_M, CLUSTER_N: a cluster's blocks compute neighbouring tiles of C. Blocks of the same tile row use the same
// tile of A, those of the same tile column the same one of B: each copies its share of the tile to all (multicast).
//
// SWAP_AB: the instruction computes 64 rows x 8 to 256 columns. 1 computes C transposed (B is the left operand), so that
// TILE_M can be as small as 8.
//
// Operands are staged as they lie in memory, k contiguous or not. EPILOGUE 0: each thread stores the sums in its
// registers. 1: a warp passes them through shared memory and stores VECTOR_C neighbours at a time. SHIFT_C 1: C's rows
// may not be aligned to VECTOR_C elements. 2: a warp lays results down in shared memory, and TMA stores them while the
// warp goes on. 3: the warp stores them itself, row by row in words of 4 bytes, at any alignment.
//
// SPLIT 1: writes partial sums to c as [split][m][n], for the reduce step. From the problem: ELEMENT, RESULT,
// A_TRANSPOSED, B_TRANSPOSED (as this kernel reads them). Sources: PTX ISA ("Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions"); the cooperative and ping-pong schedules are CUTLASS's.
#include "families/wgmma/main_loop.cuh"

// The output tile of a warp's 16 rows, in block i of 64 rows, of the left operand.
struct WarpTile {
  const WgmmaArgs& args;
  const Scalars& scalars;
  const Tile& tile;
  int first_left;  // of the block's tile: the warp's first row of the left operand

  // `width` of the right operand, from `right` on.
  DEVICE_MEMBER Output part(int i, int right, int width) const {
    const Int64 left = first_left + i * 64;
    const Int64 row = tile.row + (SWAP_AB ? right : left), column = tile.column + (SWAP_AB ? left : right);
    const auto inside = [](Int64 rest, int all) { return rest < all ? static_cast<int>(rest) : all; };
    const int rows = inside(args.rows() - row, SWAP_AB ? width : 16);
    const int columns = inside(args.columns() - column, SWAP_AB ? 16 : width);  //@ wgmma-columns
#if SPLIT
    const Int64 part = BATCHED ? Int64(tile.batch) * args.parts() + tile.split : tile.split;
    Sum* partial = reinterpret_cast<Sum*>(args.c) + part * args.rows() * args.columns();
    return {partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
    Result* c = args.c + (BATCHED ? tile.batch * args.stride_c : 0);
    return {c + row * args.ldc + column, args.ldc, rows, columns, scalars};
#endif
  }
};

[[maybe_unused]] DEVICE char* scratch_of_warp(char* shared) {
  return shared + kLayout.scratch_at() + (int(threadIdx.x) / 32 - 4) * kEpilogue.bytes();  //@ wgmma-scratch
}

#if EPILOGUE >= 2
static_assert(!SPLIT && !SWAP_AB, "results are stored row by row");

// `columns` of the right operand, from `first` on, of block i of 64 rows.
DEVICE void lay_down(char* to, const Output& out, const float (&sums)[WGMMA_N / 2], int first) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  const auto each = [&](const auto& blended) {
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int row = half * 8 + group;
      const Result* c = out.row(row);
      UNROLL_ALL
      for (int j = 0; j < kStored.columns / 8; ++j) {
        const int column = 8 * j + 2 * in_group;
        const float* sum = sums + first / 2 + 4 * j + 2 * half;
        Sum pair[2] = {product(out.scalars.alpha, sum[0]), product(out.scalars.alpha, sum[1])};
        blended(pair, c + column, row < out.rows ? out.columns - column : 0);
        const Result results[2] = {Number<RESULT>::narrow(pair[0]), Number<RESULT>::narrow(pair[1])};
        const int at = swizzled<kStored.width()>(row * kStored.width() + column * int(sizeof(Result)));  //@ wgmma-place-result
        store_part<2>(reinterpret_cast<Result*>(to + at), results, 0, 2);
      }
    }
  };
  if (out.scalars.beta == Sum(0)) {
    each([](Sum (&)[2], const Result*, int) {});
  } else {
    each([&](Sum (&pair)[2], const Result* c, int inside) {
      constexpr int TOGETHER = EPILOGUE == 2 ? 2 : 1;  // that C's alignment allows
      UNROLL_ALL
      for (int first = 0; first < 2; first += TOGETHER) {
        Result old[TOGETHER];
        load_part<TOGETHER>(old, c + first, 0, inside - first);
        UNROLL_ALL
        for (int e = 0; e < TOGETHER; ++e)
          pair[first + e] = multiply_add(out.scalars.beta, Number<RESULT>::widen(old[e]), pair[first + e]);
      }
    });
  }
}

#if EPILOGUE == 2
// stored: the number of the warp's stores so far, of all work items; its two buffers take turns.
DEVICE void store_by_tma(const WarpTile& to, Sums& sums, char* shared, int& stored) {
  if (to.scalars.alpha == Sum(0)) clear(sums);  // drops NaN, too; cheaper than scaled() for each sum
  char* scratch = scratch_of_warp(shared);
  UNROLL_ALL
  for (int i = 0; i < kBlocks; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStored.columns) {
      char* buffer = scratch + stored++ % kStored.kBuffers * kStored.bytes();  //@ wgmma-buffer
      if (int(threadIdx.x) % 32 == 0) stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer
      warp_barrier();
      lay_down(buffer, to.part(i, first, kStored.columns), sums[i], first);
      fence_proxy_async();  //@ wgmma-fence-stores
      warp_barrier();
      if (int(threadIdx.x) % 32 == 0) {
        const int row = static_cast<int>(to.tile.row) + to.first_left + i * 64;
        const int column = static_cast<int>(to.tile.column) + first;
#if BATCHED
        store_tile(to.args.c_map, column, row, to.tile.batch, buffer);
#else
        store_tile(to.args.c_map, column, row, buffer);
#endif
        stores_commit();
      }
    }
  }
}
#else
// Stores the rows of a buffer. Each lane stores one word of 4 bytes of a row; where a row of 2-byte elements is not aligned
// to words, the first word has one element of the row, and its last element is stored on its own.
DEVICE void store_rows_of(const Output& out, const char* buffer) {
  constexpr int WORD = 4 / int(sizeof(Result)), WORDS = kStored.columns / WORD;
  const int lane = int(threadIdx.x) % 32;
  const auto result = [&](int row, int column) {
    return *reinterpret_cast<const Result*>(buffer + swizzled<kStored.width()>(row * kStored.width() + column * int(sizeof(Result))));
  };
  const auto shift_of = [](const Result* row) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(Result) % WORD);  //@ wgmma-row-shift
  };
  UNROLL_BY(2)
  for (int row = 0; row < kStored.kRows; ++row) {
    if (row >= out.rows) break;
    if (WORDS < 32 && lane >= WORDS) break;
    Result* to = out.row(row);
    const int first = lane * WORD - shift_of(to);
    Result word[WORD];
    UNROLL_ALL
    for (int e = 0; e < WORD; ++e) word[e] = result(row, first + e < 0 ? 0 : first + e);
    store_part<WORD>(to + first, word, -first, out.columns - first);
  }
  if (lane < kStored.kRows && lane < out.rows && out.columns >= kStored.columns) {
    Result* to = out.row(lane);
    constexpr int last = kStored.columns - 1;
    if (shift_of(to) > 0) to[last] = result(lane, last);  //@ wgmma-row-last
  }
}

DEVICE void store_rows(const WarpTile& to, Sums& sums, char* shared) {
  if (to.scalars.alpha == Sum(0)) clear(sums);
  // Addresses are not computed before the main loop, which has no registers for them.
  char* scratch = reinterpret_cast<char*>(opaque_shared_pointer(reinterpret_cast<float*>(scratch_of_warp(shared))));
  UNROLL_ALL
  for (int i = 0; i < kBlocks; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStored.columns) {
      char* buffer = scratch + (i * (WGMMA_N / kStored.columns) + first / kStored.columns) % 2 * kStored.bytes();
      const Output out = to.part(i, first, kStored.columns);
      lay_down(buffer, out, sums[i], first);
      warp_barrier();  //@ wgmma-rows-barrier
      store_rows_of(out, buffer);
    }
  }
  warp_barrier();  // the next work item begins with the same buffer
}
#endif
#elif EPILOGUE == 1
DEVICE void store_staged(const WarpTile& to, const Sums& sums, char* shared) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  constexpr int ACROSS = StagedSums::STORES, ROW = kScratch.row_stride(), STORES = kScratch.rows * ACROSS;
  Sum* scratch = reinterpret_cast<Sum*>(scratch_of_warp(shared));
  UNROLL_ALL
  for (int i = 0; i < kBlocks; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStagedColumns) {
      warp_barrier();  //@ wgmma-barrier-before-staging
      UNROLL_ALL
      for (int j = 0; j < kStagedColumns / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 4; ++e) {
          const int left = group + e / 2 * 8, right = 8 * j + 2 * in_group + e % 2;
          scratch[SWAP_AB ? right * ROW + StagedSums::slot(left) : left * ROW + StagedSums::slot(right)] =
              sums[i][4 * (first / 8 + j) + e];
        }
      }
      warp_barrier();
      const Output out = to.part(i, first, kStagedColumns);
      UNROLL_BY(1)
      for (int n = 0; n < STORES; n += 32) {
        const int s = n + lane, row = s / ACROSS;
        if (STORES % 32 > 0 && s >= STORES) break;
        if (row < out.rows) StagedSums::write(out, out.row(row), s % ACROSS, scratch + row * ROW);
      }
    }
  }
}
#else
DEVICE void store_registers(const WarpTile& to, const Sums& sums) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  UNROLL_ALL
  for (int i = 0; i < kBlocks; ++i) {
    const Output out = to.part(i, 0, WGMMA_N);
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int left = half * 8 + group;
#if SWAP_AB
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 2; ++e) {
          const int right = 8 * j + 2 * in_group + e;
          if (right < out.rows) out.write<1>(out.row(right), left, {sums[i][4 * j + 2 * half + e]});
        }
      }
#else
      if (left >= out.rows) continue;
      Output::Out* row = out.row(left);
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        const Sum pair[2] = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        const int right = 8 * j + 2 * in_group;
        if constexpr (VECTOR_C > 1) {
          out.write<2>(row, right, pair);
        } else {
          out.write<1>(row, right, {pair[0]});
          out.write<1>(row, right + 1, {pair[1]});
        }
      }
#endif
    }
  }
}
#endif

// Called by a whole warpgroup, the nth that multiplies.
DEVICE void multiply(const WgmmaArgs& args, const TilePipeline& pipeline, const Queue& queue, int block, int nth,
                     char* shared, WorkItem work) {
  const int warp = int(threadIdx.x) / 32 % 4;
  StagePhase<STAGES> from(0);
  const Scalars scalars = scalars_of(args);
  [[maybe_unused]] int stored = 0;
#if PING_PONG
  Mbarrier* turns = reinterpret_cast<Mbarrier*>(shared + kLayout.barriers_at()) + 2 * STAGES;
  int phase = 0, item = 0;
#endif
  do {
#if PING_PONG
    if (item++ % CONSUMERS != nth) {
      from.advance_by(work.tiles);
      continue;
    }
#endif
    Sums sums;
    clear(sums);
#if PING_PONG
    mbarrier_wait(turns + nth, phase);  //@ wgmma-turn
    phase ^= 1;
#endif
    const int first = PING_PONG ? 0 : nth * kBlocks;
    multiply_tiles(sums, pipeline, from, work.tiles, first, [&] {
#if PING_PONG
      mbarrier_arrive_warp(turns + (nth + 1) % CONSUMERS, 0);
#endif
    });
    const WarpTile to = {args, scalars, work.tile, first * 64 + warp * 16};
#if EPILOGUE == 2
    store_by_tma(to, sums, shared, stored);
#elif EPILOGUE == 3
    store_rows(to, sums, shared);
#elif EPILOGUE == 1
    store_staged(to, sums, shared);
#else
    store_registers(to, sums);
#endif
  } while (work.next(args, queue, block));
#if EPILOGUE == 2
  if (int(threadIdx.x) % 32 == 0) stores_read<0>();  //@ wgmma-last-stores
#endif
}

KERNEL(kThreads, BLOCKS_PER_SM) wgmma(ARGUMENTS WgmmaArgs args) {
  char* shared = reinterpret_cast<char*>(shared_floats());
  const int warp = warp_number(), warpgroup = warp / 4;
  const int block = kCluster > 1 ? block_of_cluster() : 0;
  if (threadIdx.x == 32) {
    prefetch_map(args.a_map);
    prefetch_map(args.b_map);
#if EPILOGUE == 2
    prefetch_map(args.c_map);
#endif
  }
#if PING_PONG
  if (threadIdx.x == 0) {
    Mbarrier* turns = reinterpret_cast<Mbarrier*>(shared + kLayout.barriers_at()) + 2 * STAGES;
    UNROLL_BY(1)
    for (int c = 0; c < CONSUMERS; ++c) {
      mbarrier_init(turns + c, 4);
      if (c == 0)
        for (int w = 0; w < 4; ++w) mbarrier_arrive(turns);
    }
  }
#endif
  const Queue queue(args, args.products());
  const WorkItem work(args, queue, queue.first, block);
  TilePipeline pipeline(shared, shared + kLayout.barriers_at(), 4 * kReaders * kCluster);
  if (kCluster > 1)
    cluster_barrier();  //@ wgmma-begin
  else
    barrier();
  grid_dependency_wait();
  if (SPLIT) launch_dependents();
  if (warpgroup == 0) {
    if (kRegisters.moves()) lower_registers<kRegisters.kCopying>();
    if (warp == 0 && elect_one()) copy_tiles(args, pipeline, queue, block, work);
  } else {
    if (kRegisters.moves()) raise_registers<kRegisters.multiplying()>();
    multiply(args, pipeline, queue, block, warpgroup - 1, shared, work);
  }
  if (kCluster > 1) cluster_barrier();  //@ wgmma-end
}
