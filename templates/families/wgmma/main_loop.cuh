// wgmma's main loops: the warp that copies tiles, and the warpgroups that multiply them. See wgmma.cu.
#pragma once
#include "families/wgmma/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/pipeline.cuh"
#include "parts/schedule.cuh"
#include "words/cluster.cuh"
#include "words/wgmma.cuh"

#ifndef STAGED_OPERAND
#define STAGED_OPERAND -1
#endif

constexpr int kCluster = CLUSTER_M * CLUSTER_N;

// One operand's tile. SPAN: of m or n. SHARERS: blocks of the cluster that use the tile.
template <int SPAN, bool ALONG_K, int SHARERS>
struct Operand {
  typedef tilewise::wgmma::TileLayout Layout;
  static constexpr Layout kTile = {SPAN, TILE_K, ALONG_K, SHARERS, int(sizeof(Element)), false};
  static constexpr Layout kSkipping = {SPAN, TILE_K, ALONG_K, SHARERS, int(sizeof(Element)), true};
  static constexpr bool kAlongK = ALONG_K;
  static constexpr int BYTES = kTile.bytes();
  static_assert(BYTES % 1024 == 0 && kTile.placed(), "TMA lays boxes down at multiples of 128 bytes");

  // Copies the share `nth` of the tile from (at, k) on into each of the blocks `to_blocks`. SKIP: `inside` elements of
  // m or n are in the matrix, and boxes and panels outside of it are not copied. product: of the batch.
  template <bool SKIP>
  static DEVICE_MEMBER void issue_load(char* tile, const TensorMap& map, int at, int k, [[maybe_unused]] int inside,
                                       int nth, unsigned to_blocks, Mbarrier* full, int product, CachePolicy policy = 0) {
    constexpr Layout LAYOUT = SKIP ? kSkipping : kTile;
    const int first = nth * kTile.share_rows();
    UNROLL_ALL
    for (int p = 0; p < kTile.panels(); ++p) {
      const int column = p * (kTile.width() / int(sizeof(Element)));  //@ wgmma-panel-column
      UNROLL_ALL
      for (int row = 0; row < kTile.share_rows(); row += LAYOUT.box_rows()) {
        const int y = first + row;
        if (SKIP && (ALONG_K ? y : column) >= inside) break;  //@ wgmma-skip
        char* to = tile + p * kTile.panel_bytes() + y * kTile.width();
        if constexpr (ALONG_K)
          copy(to, map, k + column, at + y, to_blocks, full, product, policy);
        else
          copy(to, map, at + column, k + y, to_blocks, full, product, policy);
      }
    }
  }
  static DEVICE_MEMBER void copy(char* to, const TensorMap& map, int x, int y, [[maybe_unused]] unsigned to_blocks,
                                 Mbarrier* full, [[maybe_unused]] int product, [[maybe_unused]] CachePolicy policy) {
#if GROUPED
    if constexpr (SHARERS > 1)
      load_tile_to(to_blocks, to, map, x, y, product, full, policy);
    else
      load_tile(to, map, x, y, product, full, policy);
#elif BATCHED
    if constexpr (SHARERS > 1)
      load_tile_to(to_blocks, to, map, x, y, product, full);
    else
      load_tile(to, map, x, y, product, full);
#else
    if constexpr (SHARERS > 1)
      load_tile_to(to_blocks, to, map, x, y, full);  //@ wgmma-tma-load-to
    else
      load_tile(to, map, x, y, full);  //@ wgmma-tma-load
#endif
  }
  static DEVICE_MEMBER MatrixDescriptor descriptor(const char* tile) {
    return matrix_descriptor(tile, {kTile.width(), kTile.panel_bytes()});
  }
  // Bytes from the tile's first element to that of the nth UNIT rows of m (n) and of a step of k. Across k elements have 2
  // bytes.
  template <int UNIT>
  static constexpr int offset(int nth, int step) {
    if (!ALONG_K) return nth * UNIT / (kTile.width() / 2) * kTile.panel_bytes() + step * 16 * kTile.width();
    const int byte = step * tilewise::wgmma::kStepBytes;  //@ wgmma-step-offset
    return nth * UNIT * kTile.width() + byte / kTile.width() * kTile.panel_bytes() + byte % kTile.width();
  }
};

// The left operand has m of the instruction (64), the right one n. SWAP_AB 0: A is left; 1: B is, and the sums are those
// of C transposed.
#if SWAP_AB
typedef Operand<TILE_N, B_TRANSPOSED, CLUSTER_M> Left;
typedef Operand<TILE_M, !A_TRANSPOSED, CLUSTER_N> Right;
#else
typedef Operand<TILE_M, !A_TRANSPOSED, CLUSTER_N> Left;
typedef Operand<TILE_N, B_TRANSPOSED, CLUSTER_M> Right;
#endif
constexpr int kLeftSpan = SWAP_AB ? TILE_N : TILE_M, kRightSpan = SWAP_AB ? TILE_M : TILE_N;
// Of a warpgroup: blocks of 64 rows, instructions side by side, and both together. The nth instruction computes rows from
// nth / kAcross x 64 on, and columns from nth % kAcross x WGMMA_N on.
constexpr int kBlocks = kLeftSpan / 64 / (PING_PONG ? 1 : CONSUMERS), kAcross = kRightSpan / WGMMA_N;
constexpr int kInstructions = kBlocks * kAcross;
constexpr int kSteps = TILE_K * int(sizeof(Element)) / tilewise::wgmma::kStepBytes;
// ELEMENT_PARTS 2: a stage has the large parts of both operands, then the small ones.
constexpr int kPartBytes = Left::BYTES + Right::BYTES, kStageBytes = ELEMENT_PARTS * kPartBytes;
constexpr int kThreads = (1 + CONSUMERS) * kWarpgroup;
constexpr int kReaders = PING_PONG ? 1 : CONSUMERS;  // warpgroups that multiply a tile
static_assert(kLeftSpan % (64 * kReaders) == 0, "each warpgroup has whole blocks of 64 rows");
static_assert(kRightSpan == kAcross * WGMMA_N, "instructions side by side are alike");

typedef OutputTile<SPLIT != 0> Output;
constexpr tilewise::wgmma::EpilogueLayout kEpilogue = {EPILOGUE, WGMMA_N, int(sizeof(Result)), SWAP_AB != 0, SHIFT_C != 0};
constexpr tilewise::wgmma::ScratchLayout kScratch = kEpilogue.scratch();
constexpr tilewise::wgmma::StoredLayout kStored = kEpilogue.stored();
constexpr int kStagedColumns = kEpilogue.staged();
typedef StagedRow<kScratch.columns, VECTOR_C, SHIFT_C != 0> StagedSums;
constexpr tilewise::wgmma::ConsumerBarriers kBarriers = {CONSUMERS, PING_PONG != 0, EPILOGUE == 2, SWAP_AB != 0};
constexpr tilewise::wgmma::BlockLayout kLayout = {kStageBytes, STAGES, kEpilogue.bytes(), CONSUMERS * 4, kBarriers.all() + GROUPED_DEPTH};
constexpr tilewise::wgmma::RegisterLayout kRegisters = {CONSUMERS, BLOCKS_PER_SM,
                                                        (1 + tilewise::wgmma::promoted_at_once(PROMOTE)) * kInstructions * WGMMA_N / 2};

// Mbarriers behind those of the stages: whose turn it is (PING_PONG), where a warpgroup's warps meet, and loads of C.
[[maybe_unused]] DEVICE Mbarrier* turns_of(char* shared) {
  return reinterpret_cast<Mbarrier*>(shared + kLayout.barriers_at()) + 2 * STAGES;
}
[[maybe_unused]] DEVICE Mbarrier* meetings(char* shared) { return turns_of(shared) + kBarriers.turns(); }
#if GROUPED_DEPTH
// The arrival of a tile that has steps of the next product.
DEVICE Mbarrier* cut_tile_of(char* shared) { return turns_of(shared) + kBarriers.all(); }
#endif
[[maybe_unused]] DEVICE Mbarrier* loads_of(char* shared) { return meetings(shared) + kBarriers.meetings(); }

struct WgmmaArgs : MultiplyArgs {
#if BATCHED
  int batch;  // products
#endif
#if GROUPED
  int interleave;  // 1: tiles come from both halves of the list of products in turn
#endif
#if STREAM_K
  Sum* partial;     // [cluster][2][the cluster's rows][its columns]
  Int64 depth;      // tiles of k of a tile of C, at least 1
  int whole_tiles;  // of C, of clusters: the first ones, which no others share
  int share;        // a cluster's tiles of k of those that are shared
#endif
  int skip;  // 1: copies of tiles skip what is outside of A and B
  TensorMap a_map, b_map;
#if EPILOGUE == 2
  TensorMap c_maps[kStored.maps()];
#endif
#if EPILOGUE == 2 && STAGED_OPERAND >= 0
  TensorMap operand_maps[kStored.maps()];  // zeros where TMA cannot read the operand
#endif

  DEVICE_MEMBER int products() const {
#if RESIDUES
    return moduli.count() * int(moduli.parts);
#elif OF_HALVES
    return moduli.native() ? 0 : 1;  //@ halves-native
#elif BATCHED
    return batch;
#else
    return 1;
#endif
  }
};
typedef Sum Sums[kInstructions][WGMMA_N / 2];
typedef ClusterPipeline<STAGES, kStageBytes, kCluster> TilePipeline;

typedef WorkQueue<TILE_M * CLUSTER_M, TILE_N * CLUSTER_N, kCluster> Queue;
#if GROUPED
static_assert(!SPLIT && !STREAM_K, "a tile's k is whole");
DEVICE GroupTable groups_of(const WgmmaArgs& args, char* shared) {
  return GroupTable(args, shared + kLayout.shared_bytes());
}
DEVICE Queue queue_of(const WgmmaArgs& args, char* shared) {
  return Queue(args, groups_of(args, shared), args.interleave != 0);
}
#else
DEVICE Queue queue_of(const WgmmaArgs& args, char*) { return Queue(args, args.products()); }
#endif

// A cluster's work: a tile of C of all its blocks together, and a part of k.
//
// STREAM_K: the cluster's whole tiles come first. The tiles of k of the other tiles of C are numbered through; the
// cluster has a range of `share` of them. That is the end of one tile's k, and may include the beginning of the next one's.
struct WorkItem {
  unsigned index;  // in the queue
  int row, column;  // of this block's tile of C
  int split, product;
  int k_begin, tiles;
#if GROUPED
  int row_end;  // of the product's rows
  bool only_row;  // of tiles, of the product
#endif
#if GROUPED_DEPTH
  int k_end;  // of the product's steps
#endif
#if STREAM_K
  int nth;        // of the range's tiles of C; negative: a whole tile
  unsigned from;  // the range's first tile of k that is not taken
#endif

  DEVICE_MEMBER WorkItem(const WgmmaArgs& args, const Queue& queue, unsigned number, int block) {
#if STREAM_K
    nth = -1;
    from = queue.first * unsigned(args.share);
    if (number < unsigned(args.whole_tiles))
      take(queue, number, 0, tiles_of_k(args), block);
    else
      take_part(args, queue, block);
#else
    const unsigned all = tiles_of_k(args);
    const unsigned share = PROMOTE == 3 ? all : static_cast<unsigned>(k_share<SPLIT != 0, TILE_K>(args));
    const Tile place = queue.tile(number);
    const unsigned begin = SPLIT ? share * unsigned(place.split) : 0;  //@ wgmma-split-begin
    take(queue, number, begin, begin + share < all ? begin + share : all, block);
#endif
#if GROUPED_DEPTH
    const DepthRange steps = depth_of_product(args, product);
    k_begin = static_cast<int>(steps.begin);
    k_end = static_cast<int>(steps.end);
    tiles = (k_end - k_begin + TILE_K - 1) / TILE_K;
#endif
  }
  static DEVICE_MEMBER unsigned tiles_of_k(const WgmmaArgs& args) {
    return (static_cast<unsigned>(args.steps()) + TILE_K - 1) / TILE_K;
  }
  DEVICE_MEMBER void take(const Queue& queue, unsigned number, unsigned begin, unsigned end, int block) {
    index = number;
    const Tile tile = queue.tile(number);  // of the cluster
    row = static_cast<int>(tile.row) + block % CLUSTER_M * TILE_M;
    column = static_cast<int>(tile.column) + block / CLUSTER_M * TILE_N;
    split = tile.split;
    product = tile.batch;
#if GROUPED
    row_end = static_cast<int>(tile.row_end);
    only_row = tile.only_row;
#endif
    k_begin = static_cast<int>(begin) * TILE_K;
    tiles = end > begin ? static_cast<int>(end - begin) : 0;
  }
  // Becomes the cluster's next item; false where there is none.
  DEVICE_MEMBER bool next(const WgmmaArgs& args, const Queue& queue, int block) {
    const unsigned number = index + queue.step;
#if STREAM_K
    if (nth < 0 && number < unsigned(args.whole_tiles)) {
      take(queue, number, 0, tiles_of_k(args), block);
      return true;
    }
    if (from >= end_of_range(args, queue)) return false;
    take_part(args, queue, block);
#else
    if (number >= queue.items) return false;
    *this = WorkItem(args, queue, number, block);
#endif
    return true;
  }
  DEVICE_MEMBER Int64 end_of_rows([[maybe_unused]] const WgmmaArgs& args) const {
#if GROUPED
    return row_end;  //@ wgmma-row-end
#else
    return args.rows();
#endif
  }
  // Of the matrices of rows: of A, C, and the epilogue's. GROUPED 1: there is one.
  DEVICE_MEMBER int matrix() const { return GROUPED == 1 ? 0 : product; }
  DEVICE_MEMBER Place place(Int64 of_row, Int64 of_column) const {
#if GROUPED && POINTWISE
    return {of_row, of_column, product, row_end};
#else
    return {of_row, of_column, product};
#endif
  }
  // Whether other clusters share the tile of C: its sums are stored apart.
#if STREAM_K
  DEVICE_MEMBER bool shared() const { return nth >= 0; }
#else
  DEVICE_MEMBER bool shared() const { return false; }
#endif
#if STREAM_K
  // Where the block's sums of a shared tile go.
  DEVICE_MEMBER Sum* partial(const WgmmaArgs& args, int block) const {
    constexpr int ROWS = TILE_M * CLUSTER_M, COLUMNS = TILE_N * CLUSTER_N;
    return args.partial + Int64(2 * (blockIdx.x / kCluster) + nth) * (ROWS * COLUMNS) +  //@ wgmma-partial
           block % CLUSTER_M * TILE_M * COLUMNS + block / CLUSTER_M * TILE_N;
  }
  static DEVICE_MEMBER unsigned end_of_range(const WgmmaArgs& args, const Queue& queue) {
    const unsigned end = (queue.first + 1) * unsigned(args.share);
    const unsigned last = (queue.items - unsigned(args.whole_tiles)) * unsigned(args.depth);
    return end < last ? end : last;
  }
  DEVICE_MEMBER void take_part(const WgmmaArgs& args, const Queue& queue, int block) {
    const unsigned depth = static_cast<unsigned>(args.depth), all = tiles_of_k(args);  // all is 0 where alpha is 0
    const unsigned of_rest = from / depth, begin = from - of_rest * depth;
    const unsigned in_range = begin + (end_of_range(args, queue) - from);
    const unsigned end = in_range < depth ? in_range : depth;  //@ wgmma-range-end
    from += end - begin;
    ++nth;
    take(queue, unsigned(args.whole_tiles) + of_rest, begin, end < all ? end : all, block);
  }
#endif
};

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
// SKIP: what lies outside of A and B is not copied, as far as that is whole boxes or panels; the sums of its rows and
// columns are not stored. TMA takes longer for a row outside than for one inside (bench/results/h200_rows_outside.txt).
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
    const int bytes = SKIP ? ELEMENT_PARTS * (Left::kSkipping.copied_bytes(SWAP_AB ? columns : rows) +
                                              Right::kSkipping.copied_bytes(SWAP_AB ? rows : columns))
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
        Left::issue_load<SKIP>(left, args.b_map, column, k, columns, in_column, same_column, full, of_b, of_policy);
        Right::issue_load<SKIP>(right, args.a_map, row, k, rows, in_row, same_row, full, of_a, usual);
#else
        Left::issue_load<SKIP>(left, args.a_map, row, k, rows, in_row, same_row, full, of_a, usual);
        Right::issue_load<SKIP>(right, args.b_map, column, k, columns, in_column, same_column, full, of_b, of_policy);
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
#if PROMOTE
template <int BLOCKS>
DEVICE void promote(Sums& sums, const Sums& of_tile) {
  UNROLL_ALL
  for (int i = 0; i < BLOCKS * kAcross; ++i) {
    UNROLL_ALL
    for (int j = 0; j < WGMMA_N / 2; ++j) sums[i][j] = add(sums[i][j], of_tile[i][j]);
  }
}
#endif
#if PROMOTE == 2
// Two tiles' sums take turns: one is added while the next tile is multiplied.
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles,
                           [[maybe_unused]] int part, int first, const Issued& issued) {
  const StageTiles first_stage(pipeline.stages, first);
  StagePhase<STAGES> before = from;
  Sums even, odd;
  const auto start = [&](Sums& of_tile) {
    pipeline.wait_full(from);
    wgmma_fence();
    first_stage.after(from.stage * kStageBytes).template multiply<false, BLOCKS>(of_tile);
    wgmma_commit();
    from.advance();
  };
  const auto finish = [&](const Sums& of_tile) {
    pipeline.arrive_empty(before);
    before.advance();
    promote<BLOCKS>(sums, of_tile);
  };
  if (tiles == 0) return issued();
  start(even);
  int t = 1;
  for (; t + 1 < tiles; t += 2) {
    start(odd);
    wgmma_wait<1>(even);  //@ wgmma-overlap-wait
    finish(even);
    start(even);
    wgmma_wait<1>(odd);
    finish(odd);
  }
  // ptxas serialises the instructions where it cannot follow which sums are in flight: each branch waits by itself.
  if (t < tiles) {
    start(odd);
    issued();
    wgmma_wait<1>(even);
    finish(even);
    wgmma_wait<0>(odd);
    finish(odd);
  } else {
    issued();
    wgmma_wait<0>(even);
    finish(even);
  }
}
#elif PROMOTE == 1
template <int BLOCKS, class Issued>
DEVICE void multiply_tiles(Sums& sums, const TilePipeline& pipeline, StagePhase<STAGES>& from, int tiles,
                           [[maybe_unused]] int part, int first, const Issued& issued) {
  const StageTiles first_stage(pipeline.stages, first);
  for (int t = 0; t < tiles; ++t) {
    Sums of_tile;
    pipeline.wait_full(from);
    wgmma_fence();
    first_stage.after(from.stage * kStageBytes).template multiply<false, BLOCKS>(of_tile);  //@ wgmma-promote-multiply
    wgmma_commit();
    if (t == tiles - 1) issued();
    wgmma_wait<0>(of_tile);  //@ wgmma-promote-wait
    pipeline.arrive_empty(from);
    from.advance();
    promote<BLOCKS>(sums, of_tile);  //@ wgmma-promote
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
                           [[maybe_unused]] int part, int first, const Issued& issued) {
#if PROMOTE == 3
  for (int rest = tiles; rest > 0; rest -= part) {
    Sums of_part;
    clear(of_part);
    multiply_chain<BLOCKS>(of_part, pipeline, from, rest < part ? rest : part, first, [&] {  //@ wgmma-part
      if (rest <= part) issued();
    });
    promote<BLOCKS>(sums, of_part);  //@ wgmma-promote-part
  }
  if (tiles == 0) issued();
#else
  multiply_chain<BLOCKS>(sums, pipeline, from, tiles, first, issued);
#endif
}
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
