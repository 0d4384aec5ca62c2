// wgmma's main loops: the warp that copies tiles, and the warpgroups that multiply them. See wgmma.cu.
#pragma once
#include "families/wgmma/narrow_left.cuh"

#if GROUPED_DEPTH
static_assert(kCluster == 1 && !SPLIT && !STREAM_K && !Left::kAlongK && !Right::kAlongK, "tiles are cut between rows of k");

// Clears the rows of k from `rest` on of an operand's tile. Called by a whole warp.
template <class Of>
DEVICE void clear_rows(char* tile, int rest) {
  constexpr int WIDTH = Of::kTile.width();
  const float zeros[4] = {0, 0, 0, 0};
  for (int p = 0; p < Of::kTile.panels(); ++p)
    for (int byte = rest * WIDTH + int(threadIdx.x) % 32 * 16; byte < TILE_K * WIDTH; byte += 32 * 16)
      store_vector<4>(reinterpret_cast<float*>(tile + p * Of::kTile.panel_bytes() + byte), zeros);  //@ wgmma-clear-rows
}
#endif

// Called by one thread of the block: fills the stages for all work items in turn. work: the first one. GROUPED_DEPTH: by a
// whole warp. The last tile of k of a product has steps of the next one: when it has arrived, the warp clears these.
//
// SKIP: rows outside of A and B are not copied, nor are panels that are outside; the sums of these rows and columns are not
// stored. Where many blocks copy rows outside at a time, TMA takes up to four times as long as for rows inside
// (bench/results/h200_edge_boxes.txt).
template <bool SKIP>
DEVICE void copy_tiles(const WgmmaArgs& args, TilePipeline& pipeline, const Queue& queue, int block, WorkItem work,
                       [[maybe_unused]] char* shared) {
  StagePhase<STAGES> to(1);  //@ wgmma-producer-phase
#if GROUPED_DEPTH
  int arrived = 0;  // the phase of the next cut tile
#endif
  do {
    // A stride of 0: all products have the same operand.
    [[maybe_unused]] const int of_a = args.stride_a == 0 ? 0 : work.product;
    [[maybe_unused]] const int of_b = args.stride_b == 0 ? 0 : work.product;  //@ wgmma-product
    const int in_row = block / CLUSTER_M, in_column = block % CLUSTER_M;  // of the cluster
    const unsigned same_row = ((1u << kCluster) - 1) / ((1u << CLUSTER_M) - 1) << in_column;
    const unsigned same_column = ((1u << CLUSTER_M) - 1) << in_row * CLUSTER_M;  //@ wgmma-blocks-of-column
    // Rows of A and columns of B from the tile's first on.
    const int rows = static_cast<int>(work.end_of_rows(args)) - work.row;  //@ wgmma-rows-inside
    const int columns = static_cast<int>(args.columns()) - work.column;
    // Of the operands as the instruction has them.
    const OperandMaps left_maps = SWAP_AB ? args.maps_b() : args.maps_a();
    const OperandMaps right_maps = SWAP_AB ? args.maps_a() : args.maps_b();
    const int left_inside = SWAP_AB ? columns : rows, right_inside = SWAP_AB ? rows : columns;
    const int bytes =
        SKIP ? ELEMENT_PARTS * (Left::copied_bytes(left_maps, left_inside) + Right::copied_bytes(right_maps, right_inside))
             : kStageBytes;
#if GROUPED
    const CachePolicy of_policy = cache_policy(queue.interleave && work.only_row), usual = cache_policy(false);
#else
    constexpr CachePolicy of_policy = 0, usual = 0;
#endif
    for (int t = 0; t < work.tiles; ++t) {
      Mbarrier* full = pipeline.full + to.stage;
      char* stage = pipeline.stages + to.stage * kStageBytes;
      pipeline.wait_empty(to);
#if GROUPED_DEPTH
      const bool cut = work.k_begin + (t + 1) * TILE_K > work.k_end, issues = elect_one();
      if (cut) full = cut_tile_of(shared);
#else
      constexpr bool issues = true;
#endif
      if (issues) mbarrier_expect_tx(full, bytes);  //@ wgmma-expect-tx
      const int k = work.k_begin + t * TILE_K;
      UNROLL_ALL
      for (int part = 0; issues && part < ELEMENT_PARTS; ++part) {
        char* left = stage + part * kPartBytes;
        char* right = left + Left::BYTES;
        // An operand's small parts are rows of their own, behind those of the large parts.
        const int row = work.row + (part ? static_cast<int>(args.rows()) : 0);
        const int column = work.column + (part ? static_cast<int>(args.columns()) : 0);  //@ wgmma-small-part
#if SWAP_AB
        Left::issue_load<SKIP>(left, left_maps, column, k, columns, in_column, same_column, full, of_b, of_policy);
        Right::issue_load<SKIP>(right, right_maps, row, k, rows, in_row, same_row, full, of_a, usual);
#else
        Left::issue_load<SKIP>(left, left_maps, row, k, rows, in_row, same_row, full, of_a, usual);
        Right::issue_load<SKIP>(right, right_maps, column, k, columns, in_column, same_column, full, of_b, of_policy);
#endif
      }
#if GROUPED_DEPTH
      if (cut) {
        mbarrier_wait(full, arrived);  //@ wgmma-cut-wait
        arrived ^= 1;
        clear_rows<Left>(stage, work.k_end - k);
        clear_rows<Right>(stage + Left::BYTES, work.k_end - k);
        fence_proxy_async();  //@ wgmma-cut-fence
        warp_barrier();
        if (issues) mbarrier_arrive(pipeline.full + to.stage);
      }
#endif
      to.advance();
    }
  } while (work.next(args, queue, block));
  if (kCluster > 1) pipeline.wait_all_empty(to);  //@ wgmma-end
}

DEVICE void clear(Sums& sums) {
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int j = 0; j < WGMMA_N / 2; ++j) sums[i][j] = 0;
  }
}

#if !NARROW_LEFT
// The operands' tiles in a stage, of a warpgroup.
struct StageTiles {
  MatrixDescriptor left, right;

  // first: the warpgroup's first block of 64 rows.
  DEVICE_MEMBER StageTiles(const char* stages, int first)
      : left(Left::descriptor(stages + Left::offset<64>(first, 0))), right(Right::descriptor(stages + Left::BYTES)) {}
  DEVICE_MEMBER StageTiles(const MatrixDescriptor& of_left, const MatrixDescriptor& of_right)
      : left(of_left), right(of_right) {}
  DEVICE_MEMBER StageTiles after(int bytes) const { return {left.after(bytes), right.after(bytes)}; }

  // sums[i] += the product of a part of the left and a part of the right operand, in one step of k; KEEP false: =. Of the
  // warpgroup's first BLOCKS blocks of 64 rows.
  template <bool KEEP, int BLOCKS>
  DEVICE_MEMBER void multiply_parts(Sums& sums, int step, int left_part, int right_part) const {
    UNROLL_ALL
    for (int i = 0; i < BLOCKS * kAcross; ++i)
      multiply_async<Left::kAlongK, Right::kAlongK, KEEP>(  //@ wgmma-multiply
          sums[i], left.after(Left::offset<64>(i / kAcross, step) + left_part * kPartBytes),
          right.after(Right::offset<WGMMA_N>(i % kAcross, step) + right_part * kPartBytes));  //@ wgmma-right-offset
  }
  // sums += the products of all steps, or with KEEP false: =. Of operands in two parts, the product of the small parts is
  // left out; small products come first.
  template <bool KEEP, int BLOCKS>
  DEVICE_MEMBER void multiply(Sums& sums) const {
    UNROLL_ALL
    for (int step = 0; step < kSteps; ++step) {
      constexpr int SMALL = ELEMENT_PARTS - 1;
      if (step == 0)
        multiply_parts<KEEP, BLOCKS>(sums, step, 0, SMALL);
      else
        multiply_parts<true, BLOCKS>(sums, step, 0, SMALL);
      if (ELEMENT_PARTS == 2) {
        multiply_parts<true, BLOCKS>(sums, step, SMALL, 0);
        if (!OF_HALVES) multiply_parts<true, BLOCKS>(sums, step, 0, 0);
      }
    }
    UNROLL_ALL
    for (int step = 0; OF_HALVES && step < kSteps; ++step) multiply_parts<true, BLOCKS>(sums, step, 0, 0);
  }
};

// Adds the products of one work item's tiles to the sums. first: this warpgroup's first block of 64 rows. issued():
// called when all instructions are issued, before they have finished. BLOCKS: of the warpgroup's blocks of 64 rows those that
// have rows, at least one.
//
// PROMOTE: the instructions sum the products of one tile of k, and ordinary additions the tiles' sums. The instruction's
// sums of 8-bit floats keep few bits, and all its sums of floats are truncated. 3: they sum a part of k, and ordinary
// additions the parts' sums, as the reduce step adds those of a split k. part: tiles of a part.
#if PROMOTE == 2
// Two tiles' sums take turns: one is added while the next tile is multiplied.
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles,
                           [[maybe_unused]] int part, int first,
                           [[maybe_unused]] ScaleReader reader, const Issued& issued) {
  const StageTiles first_stage(pipeline.stages, first);
  StagePhase<STAGES> before = from;
  Sums even, odd;
  TileScales scales_even, scales_odd;
  const auto start = [&](Sums& of_tile, TileScales& scales) {
    reader.load(scales);
    pipeline.wait_full(from);
    wgmma_fence();
    first_stage.after(from.stage * kStageBytes).template multiply<false, BLOCKS>(of_tile);
    wgmma_commit();
    from.advance();
  };
  const auto finish = [&](const Sums& of_tile, const TileScales& scales) {
    pipeline.arrive_empty(before);
    before.advance();
    promote<BLOCKS>(sums, of_tile, reader, scales);
  };
  if (tiles == 0) return issued();
  start(even, scales_even);
  int t = 1;
  for (; t + 1 < tiles; t += 2) {
    start(odd, scales_odd);
    wgmma_wait<1>(even);  //@ wgmma-overlap-wait
    finish(even, scales_even);
    start(even, scales_even);
    wgmma_wait<1>(odd);
    finish(odd, scales_odd);
  }
  // ptxas serialises the instructions where it cannot follow which sums are in flight: each branch waits by itself.
  if (t < tiles) {
    start(odd, scales_odd);
    issued();
    wgmma_wait<1>(even);
    finish(even, scales_even);
    wgmma_wait<0>(odd);
    finish(odd, scales_odd);
  } else {
    issued();
    wgmma_wait<0>(even);
    finish(even, scales_even);
  }
}
#elif PROMOTE == 1
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles,
                           [[maybe_unused]] int part, int first,
                           [[maybe_unused]] ScaleReader reader, const Issued& issued) {
  const StageTiles first_stage(pipeline.stages, first);
  for (int t = 0; t < tiles; ++t) {
    Sums of_tile;
    TileScales scales;
    reader.load(scales);
    pipeline.wait_full(from);
    wgmma_fence();
    first_stage.after(from.stage * kStageBytes).template multiply<false, BLOCKS>(of_tile);  //@ wgmma-promote-multiply
    wgmma_commit();
    if (t == tiles - 1) issued();
    wgmma_wait<0>(of_tile);  //@ wgmma-promote-wait
    pipeline.arrive_empty(from);
    from.advance();
    promote<BLOCKS>(sums, of_tile, reader, scales);  //@ wgmma-promote
  }
  if (tiles == 0) issued();
}
#else
template <int BLOCKS, class Issued>
DEVICE void multiply_chain(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles, int first,
                           const Issued& issued) {
  StagePhase<STAGES> before = from;
  const StageTiles first_stage(pipeline.stages, first);
  for (int t = 0; t < tiles; ++t) {
    pipeline.wait_full(from);
    const StageTiles stage = first_stage.after(from.stage * kStageBytes);
    wgmma_fence();  //@ wgmma-fence
    stage.multiply<true, BLOCKS>(sums);
    wgmma_commit();
    wgmma_wait<1>();  //@ wgmma-wait
    if (t > 0) {
      pipeline.arrive_empty(before);
      before.advance();
    }
    from.advance();
  }
  issued();
  wgmma_wait<0>(sums);  //@ wgmma-last-wait
  if (tiles > 0) pipeline.arrive_empty(before);
}
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles,
                           [[maybe_unused]] int part, int first,
                           [[maybe_unused]] ScaleReader reader, const Issued& issued) {
#if PROMOTE == 3
  for (int rest = tiles; rest > 0; rest -= part) {
    Sums of_part;
    clear(of_part);
    multiply_chain<BLOCKS>(of_part, pipeline, from, rest < part ? rest : part, first, [&] {  //@ wgmma-part
      if (rest <= part) issued();
    });
    promote<BLOCKS>(sums, of_part, reader, TileScales());  //@ wgmma-promote-part
  }
  if (tiles == 0) issued();
#else
  multiply_chain<BLOCKS>(sums, pipeline, from, tiles, first, issued);
#endif
}
#endif
#endif

#if GROUPED && !SWAP_AB
// Hands the stages of one work item back, by a warpgroup none of whose rows the product has.
DEVICE void pass_tiles(const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles) {
  for (int t = 0; t < tiles; ++t) {
    pipeline.wait_full(from);
    pipeline.arrive_empty(from);
    from.advance();
  }
}
#endif

// Calls each(BlockCount<count>()), for the number of blocks of 64 rows of the warpgroup that have rows: `count`, 1 to kBlocks.
template <int COUNT_>
struct BlockCount {
  static constexpr int COUNT = COUNT_;
};
template <int COUNT = kBlocks, class Each>
DEVICE void with_block_count([[maybe_unused]] int count, const Each& each) {
#if GROUPED && !SWAP_AB
  if constexpr (COUNT > 1)
    if (count < COUNT) return with_block_count<COUNT - 1>(count, each);
#endif
  each(BlockCount<COUNT>());
}
