// tail: adds the sums that the blocks of simt's tail left for the tiles they shared, always in the order
// of the blocks, and blends with C.
//
// Block p of the tail did tiles of k p x share to (p + 1) x share, counted through the tail's tiles of C,
// `depth` each: so the end of one tile, at partial[p][0], and maybe the beginning of the next, at
// partial[p][1].
//
// Parameters: TILE_M, TILE_N.
#include "families/simt/stream_k_layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

struct StreamKArgs {
  const float* partial;  // [tail block][2][TILE_M][TILE_N]
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
  const unsigned nth = blockIdx.x / kBlocks;  // tile of the tail
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
