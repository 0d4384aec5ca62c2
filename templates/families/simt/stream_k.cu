// stream_k: the fix-up step of simt's stream-K. It adds the partial sums of the tiles of C that several stream-K blocks
// shared, in the order of the blocks, and blends the result with C.
//
// Tiles of k are numbered through the tiles of C of the last wave, `depth` tiles of k each. Stream-K block p computed
// tiles of k p x share to (p + 1) x share - 1: the sums of its first tile of C are at partial[p][0], those of the next
// one, if its share reaches into it, at partial[p][1].
//
// A thread adds 4 neighbouring sums of a row; a block adds kElements of one tile.
//
// Parameters: TILE_M, TILE_N.
#include "families/simt/stream_k_layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

struct StreamKArgs {
  const float* partial;  // [stream-K block][2][TILE_M][TILE_N]
  float* c;
  const float* alpha_device;
  const float* beta_device;
  Int64 ldc, m, n;
  Int64 depth;  // tiles of k
  int group_m, whole_tiles, share;
  float alpha, beta;
};

constexpr int kThreads = tilewise::simt::StreamKLayout::kThreads, kElements = tilewise::simt::StreamKLayout::kElements;
constexpr int kBlocks = tilewise::simt::StreamKLayout{TILE_M, TILE_N}.blocks();  // of a tile

KERNEL(kThreads, 4) stream_k(ARGUMENTS StreamKArgs args) {
  const unsigned nth = blockIdx.x / kBlocks;  // tile of C of the last wave
  const int element = static_cast<int>(blockIdx.x % kBlocks) * kElements + int(threadIdx.x) * 4;
  const Tile tile =
      tile_at(args.m, args.n, args.group_m, args.whole_tiles + nth, TILE_M, TILE_N);
  const Int64 begin = nth * args.depth, end = begin + args.depth;
  grid_dependency_wait();
  if (element >= TILE_M * TILE_N) return;
  float sums[4] = {};
  for (Int64 p = begin / args.share; p * args.share < end; ++p) {
    const int nth_of_block = p * args.share / args.depth == nth ? 0 : 1;
    float more[4];
    load_vector<4>(more, args.partial + (2 * p + nth_of_block) * TILE_M * TILE_N + element);
    UNROLL_ALL
    for (int e = 0; e < 4; ++e) sums[e] += more[e];
  }
  const Scalars scalars = scalars_of(args);
  const Int64 row = tile.row + element / TILE_N, column = tile.column + element % TILE_N;
  if (row >= args.m) return;
  float* c = args.c + row * args.ldc + column;
  UNROLL_ALL
  for (int e = 0; e < 4; ++e)
    if (column + e < args.n) c[e] = blend(scalars, sums[e], c + e);
}
