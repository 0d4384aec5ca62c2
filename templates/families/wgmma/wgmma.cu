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
// may not be aligned to VECTOR_C elements. 2: a warp (with SWAP_AB a warpgroup) lays results down in shared memory, and
// TMA stores them while the warp goes on. 3: the warp stores them itself, row by row in words of 4 bytes, at any alignment.
// In 2 and 3 C's old elements come the same way, where beta is not 0: into the buffer, where results replace them.
// STAGED_OPERAND: the elements of this matrix of the caller's epilogue do so too, in 2 by TMA where beta is 0 and TMA can
// read it.
//
// SPLIT 1: writes partial sums to c as [split][m][n], for the reduce step. STREAM_K 1: clusters share the tiles of the
// last wave; their sums go to `partial`, and the stream_k step adds them.
//
// Where B has fewer bits than A (ELEMENT_B), it is the left operand, and the warpgroups widen its elements in registers
// (narrow_left.cuh). SCALES 1: sums of tiles of k are multiplied by scales before they are added (scales.cuh). From the problem:
// ELEMENT, ELEMENT_B, RESULT, A_TRANSPOSED, B_TRANSPOSED (as this kernel reads them). Sources: PTX ISA ("Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions"); the cooperative and ping-pong schedules are CUTLASS's.
#include "families/wgmma/epilogue.cuh"

// Whether the next item is looked up while the last instructions of a tile run. With PING_PONG another warpgroup multiplies
// meanwhile, and there are no registers for both items.
#define LOOKS_AHEAD (GROUPED && !PING_PONG)

// Whether only the device knows the number of items.
#define DEVICE_COUNTS (GROUPED || RESIDUES || OF_HALVES)
#if RESIDUES
CONSTANTS tilewise::residues::Table<tilewise::residues::Modulus, tilewise::residues::kMost> kModuli =
    tilewise::residues::all_moduli();
#endif

// Called by a whole warpgroup that multiplies. warp: warp_number().
DEVICE void multiply(const WgmmaArgs& args, const TilePipeline& pipeline, int block, int warp, char* shared,
                     WorkItem work) {
  const int nth = warp / 4 - 1, first_row = warp % 4 * 16;  // of the warpgroups; of the warp in 64 rows
  StagePhase<STAGES> from(0);
#if EPILOGUE == 2
  StoreBuffers buffers(shared, warp);
#endif
#if OPERANDS_AHEAD
  {  // Those of the first item come from memory.
    Scalars none;
    AheadOperands ahead;
    AheadOperands::prefetch({args, none, work, (PING_PONG ? 0 : nth * kBlocks) * 64 + first_row, ahead});
  }
#endif
#if PING_PONG
  Mbarrier* turns = turns_of(shared);
  int phase = 0, item = 0;
#endif
#if LOOKS_AHEAD
  WorkItem next = work;
  bool more = false;
  const auto look_ahead = [&] { more = next.next(args, queue_of(args, shared), block); };
#endif
  do {
#if PING_PONG
    if (item++ % CONSUMERS != nth) {
      from.advance_by(work.tiles);
      continue;
    }
#endif
    const int first = PING_PONG ? 0 : nth * kBlocks;
#if GROUPED && !SWAP_AB
    const int rows = work.row_end - work.row - first * 64;  //@ wgmma-rows-of-warpgroup
    if (rows <= 0) {
#if LOOKS_AHEAD
      look_ahead();
#endif
#if PING_PONG
      mbarrier_wait(turns + nth, phase);
      phase ^= 1;  //@ wgmma-turn-passed
#endif
      pass_tiles(pipeline, from, work.tiles);  //@ wgmma-pass
#if PING_PONG
      // Not before: the next warpgroup waits for later phases of the stages, which have the parity of earlier ones.
      mbarrier_arrive_warp(turns + (nth + 1) % CONSUMERS);  //@ wgmma-pass-turn
#endif
      continue;
    }
#else
    constexpr int rows = kBlocks * 64;
#endif
    Sums sums;
    clear(sums);
#if PING_PONG
    mbarrier_wait(turns + nth, phase);  //@ wgmma-turn
    phase ^= 1;
#endif
    Scalars scalars;
#if OPERANDS_AHEAD
    AheadOperands ahead;
    const WarpTile to = {args, scalars, work, first * 64 + first_row, ahead};
#else
    const WarpTile to = {args, scalars, work, first * 64 + first_row};
#endif
    const auto issued = [&] {
      scalars = scalars_of(args);  // not before: registers are scarce in the main loop
#if RESIDUES
      scalars.modulus = kModuli.of[work.product / int(args.moduli.parts)];  //@ wgmma-modulus
#endif
#if OPERANDS_AHEAD
      if (!work.shared()) ahead.load(to);
#endif
#if PING_PONG
      mbarrier_arrive_warp(turns + (nth + 1) % CONSUMERS);
#endif
#if EPILOGUE == 2
      if (!work.shared()) load_first(to, buffers);
#endif
#if LOOKS_AHEAD
      look_ahead();
#endif
    };
    with_block_count((rows + 63) / 64, [&](auto blocks) {
      multiply_tiles<decltype(blocks)::COUNT>(sums, pipeline, from, work.tiles, static_cast<int>(args.part_tiles), first,
                                              ScaleReader(args, work, first * 64 + first_row), issued);
    });
#if STREAM_K
    if (work.shared()) {
      store_partial(work.partial(args, block), TILE_N * CLUSTER_N, sums, first * 64 + first_row);
      continue;
    }
#endif
#if EPILOGUE == 2
    store_by_tma(to, sums, buffers);
#elif EPILOGUE == 3
    store_rows(to, sums, shared);
#elif EPILOGUE == 1
    store_staged(to, sums, shared);
#else
    store_registers(to, sums);
#endif
#if LOOKS_AHEAD
  } while (more && (work = next, true));
#else
  } while (work.next(args, queue_of(args, shared), block));
#endif
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
    if (args.skip) {
      prefetch_map(args.edge_a_map);
      prefetch_map(args.edge_b_map);
    }
#if EPILOGUE == 2
    prefetch_map(args.c_maps[0]);
    if (kStored.rest > 0) prefetch_map(args.c_maps[kStored.maps() - 1]);
#if STAGED_OPERAND >= 0
    if (AheadOperands::is_for_tma(args.pointwise)) prefetch_map(args.operand_maps[0]);
#endif
#endif
  }
  constexpr int kOwn = kBarriers.all() + GROUPED_DEPTH;
  if (kOwn > 0 && threadIdx.x == 96) {
    UNROLL_ALL
    for (int nth = 0; nth < kOwn; ++nth)
      mbarrier_init(turns_of(shared) + nth, nth < kBarriers.turns() + kBarriers.meetings() ? 4 : 1);
    mbarriers_ready();  //@ wgmma-ready
#if PING_PONG
    for (int w = 0; w < 4; ++w) mbarrier_arrive(turns_of(shared));
#endif
  }
#if GROUPED
  if (warp == 2) groups_of(args, shared).fill(args, TILE_M * CLUSTER_M);
#elif !DEVICE_COUNTS
  const Queue queue = queue_of(args, shared);
  const WorkItem work(args, queue, queue.first, block);
#endif
  TilePipeline pipeline(shared, shared + kLayout.barriers_at(), 4 * kReaders * kCluster);
#if GROUPED
  if (kCluster > 1) barrier();  //@ wgmma-table
#endif
  if (kCluster > 1)
    cluster_barrier();  //@ wgmma-begin
  else
    barrier();
#if DEVICE_COUNTS
  grid_dependency_wait();  // also where there is no work: the plan's end is that of its steps
  const Queue queue = queue_of(args, shared);
  if (queue.first >= queue.items) return;  // of all blocks of the cluster
  const WorkItem work(args, queue, queue.first, block);
#else
  grid_dependency_wait();
#endif
  if (SPLIT || STREAM_K) launch_dependents();
  if (warpgroup == 0) {
    if (kRegisters.moves()) lower_registers<kRegisters.copying()>();  //@ wgmma-lower-registers
    if (warp == 0 && (GROUPED_DEPTH || elect_one())) {
      if (args.skip)
        copy_tiles<true>(args, pipeline, queue, block, work, shared);
      else
        copy_tiles<false>(args, pipeline, queue, block, work, shared);
    }
  } else {
    if (kRegisters.moves()) raise_registers<kRegisters.multiplying()>();  //@ wgmma-raise-registers
    multiply(args, pipeline, block, warp, shared, work);
  }
}
