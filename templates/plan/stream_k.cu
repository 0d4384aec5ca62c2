// stream_k: the fix-up step of stream-K. It adds the partial sums of the tiles of C that several stream-K blocks (or
// clusters) shared, in the order of the blocks, and blends the result with C.
//
// Tiles of k are numbered through the tiles of C of the last wave, `depth` tiles of k each. Stream-K block p computed
// tiles of k p x share to (p + 1) x share - 1: the sums of its first tile of C are at partial[p][0], those of the next
// one, if its share reaches into it, at partial[p][1].
//
// A thread adds 4 neighbouring sums of a row; a block adds kElements of one tile.
//
// Parameters: TILE_M, TILE_N (a cluster's). VECTORS 1: C's rows are aligned to 4 elements. From the problem: RESULT, SUM.
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#include "plan/steps_layout.hpp"

struct StreamKArgs {
  const Sum* partial;  // [stream-K block][2][TILE_M][TILE_N]
  Result* c;
  const Sum* alpha_device;
  const Sum* beta_device;
  Int64 ldc, m, n;
  Int64 depth;  // tiles of k
  int group_m, whole_tiles, share;
  Sum alpha, beta;
#if POINTWISE
  PointwiseArgs pointwise;
#endif
};

constexpr int kThreads = tilewise::StreamKLayout::kThreads, kElements = tilewise::StreamKLayout::kElements;
constexpr int kTogether = tilewise::StreamKLayout::kTogether;
constexpr int kBlocks = tilewise::StreamKLayout{TILE_M, TILE_N}.blocks();  // of a tile

KERNEL(kThreads, 4) stream_k(ARGUMENTS StreamKArgs args) {
  const unsigned nth = blockIdx.x / kBlocks;  // tile of C of the last wave
  const int element = static_cast<int>(blockIdx.x % kBlocks) * kElements + int(threadIdx.x) * kTogether;
  const Tile tile =
      tile_at(args.m, args.n, args.group_m, args.whole_tiles + nth, TILE_M, TILE_N);
  const Int64 begin = nth * args.depth, end = begin + args.depth;
  grid_dependency_wait();
  if (element >= TILE_M * TILE_N) return;
  const Int64 row = tile.row + element / TILE_N, column = tile.column + element % TILE_N;
  if (row >= args.m || column >= args.n) return;
  Sum sums[kTogether] = {};
  for (Int64 p = begin / args.share; p * args.share < end; ++p) {
    const int nth_of_block = p * args.share / args.depth == nth ? 0 : 1;
    Sum more[kTogether];
    load_sums(more, args.partial + (2 * p + nth_of_block) * TILE_M * TILE_N + element);
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) sums[e] = add(sums[e], more[e]);
  }
  const Scalars scalars = scalars_of(args);
  Result* c = args.c + row * args.ldc + column;
  const int inside = args.n - column < kTogether ? static_cast<int>(args.n - column) : kTogether;
#if VECTORS
  blend_part<kTogether>(scalars, sums, c, 0, inside, {row, column, 0});
#else
  UNROLL_ALL
  for (int e = 0; e < kTogether; ++e)
    if (e < inside) blend(scalars, sums[e], c + e, {row, column + e, 0});
#endif
}
