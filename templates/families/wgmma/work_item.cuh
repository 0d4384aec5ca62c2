// wgmma's operands, arguments and work items: a tile of C, and a part of k. See wgmma.cu.
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

// B has fewer bits than A, and is the left operand: the warpgroups widen its elements in registers (narrow_left.cuh).
#define NARROW_LEFT (ELEMENT_B != ELEMENT)

constexpr int kCluster = CLUSTER_M * CLUSTER_N;
#if NARROW_LEFT
#include "words/narrow.cuh"
static_assert(SWAP_AB && B_TRANSPOSED && ELEMENT_PARTS == 1, "the instruction takes only its left operand from registers, along k");
typedef Narrow<ELEMENT_B, ELEMENT, ZERO_POINTS != 0> Weights;
constexpr int kBitsB = 16 / Weights::PAIRS;
#else
constexpr int kBitsB = 8 * int(sizeof(Element));
#endif

// How TMA copies an operand. `edge` has boxes of edge_rows rows, for what is inside of the matrix in part.
struct OperandMaps {
  const TensorMap &whole, &edge;
  int edge_rows;
};

// One operand's tile. SPAN: of m or n. SHARERS: blocks of the cluster that use the tile. BITS: of an element; those of less
// than a byte are copied as bytes.
template <int SPAN, bool ALONG_K, int SHARERS, int BITS = 8 * int(sizeof(Element))>
struct Operand {
  typedef tilewise::wgmma::TileLayout Layout;
  static constexpr int COPIED = BITS < 8 ? 1 : BITS / 8;      // bytes of an element of a copy
  static constexpr int PER_COPIED = BITS < 8 ? 8 / BITS : 1;  // elements in one
  static constexpr Layout kTile = {SPAN, TILE_K / PER_COPIED, ALONG_K, SHARERS, COPIED};
  static constexpr bool kAlongK = ALONG_K;
  static constexpr int BYTES = kTile.bytes();
  static_assert(BYTES % 1024 == 0 && kTile.placed(), "TMA lays boxes down at multiples of 128 bytes");

  // Copies the share `nth` of the tile from (at, k) on into each of the blocks `to_blocks`. SKIP: `inside` elements of
  // m or n are in the matrix, and what lies outside of it is not copied. product: of the batch.
  template <bool SKIP>
  static DEVICE_MEMBER void issue_load(char* tile, const OperandMaps& maps, int at, int k, [[maybe_unused]] int inside,
                                       int nth, unsigned to_blocks, Mbarrier* full, int product, CachePolicy policy = 0) {
    const int first = nth * kTile.share_rows();
    UNROLL_ALL
    for (int p = 0; p < kTile.panels(); ++p) {
      const int column = p * (kTile.width() / COPIED);  //@ wgmma-panel-column
      char* to = tile + p * kTile.panel_bytes() + first * kTile.width();
      if constexpr (!ALONG_K) {
        if (SKIP && column >= inside) break;
        copy(to, maps.whole, at + column, k + first, to_blocks, full, product, policy);
      } else if (!SKIP || inside >= first + kTile.share_rows()) {
        copy(to, maps.whole, k / PER_COPIED + column, at + first, to_blocks, full, product, policy);
      } else {
        for (int row = 0; first + row < inside; row += maps.edge_rows)  //@ wgmma-skip
          copy(to + row * kTile.width(), maps.edge, k / PER_COPIED + column, at + first + row, to_blocks, full, product,
               policy);
      }
    }
  }
  static DEVICE_MEMBER int copied_bytes(const OperandMaps& maps, int inside) {
    return kTile.copied_bytes(inside, maps.edge_rows);
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
typedef Operand<TILE_N, B_TRANSPOSED, CLUSTER_M, kBitsB> Left;
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
  int edge_rows_a, edge_rows_b;
  TensorMap a_map, b_map, edge_a_map, edge_b_map;
#if EPILOGUE == 2
  TensorMap c_maps[kStored.maps()];
#endif
#if EPILOGUE == 2 && STAGED_OPERAND >= 0
  TensorMap operand_maps[kStored.maps()];  // zeros where TMA cannot read the operand
#endif

  DEVICE_MEMBER OperandMaps maps_a() const { return {a_map, edge_a_map, edge_rows_a}; }  //@ wgmma-edge-rows
  DEVICE_MEMBER OperandMaps maps_b() const { return {b_map, edge_b_map, edge_rows_b}; }
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
