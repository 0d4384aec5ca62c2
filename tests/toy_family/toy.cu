// toy: the smallest family, for the test that a folder and one row of the catalog make a family. A block computes ROWS
// x 64 of C, a thread ROWS elements of a column; the sums are in shared memory.
//
// Parameter: ROWS. From the problem: types.cuh, BATCHED, A_TRANSPOSED, B_TRANSPOSED, SPLIT (see simt.cu).
#include "families/toy/toy_layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

constexpr int kThreads = tilewise::toy::kThreads;

struct ToyArgs : MultiplyArgs {
  int scale;  // 1: an argument of the family's own
};

KERNEL(kThreads, 1) toy(ARGUMENTS ToyArgs args) {
  float* sums = shared_floats() + threadIdx.x;  // [ROWS][kThreads]
  const WorkTile work_tile = work_tile_of_block(args, ROWS, kThreads);
  const Int64 share = k_share<SPLIT != 0, 8>(args);
  const Int64 begin = SPLIT ? share * work_tile.tile.split * 8 : 0;
  const Int64 end = begin + share * 8 < args.steps() ? begin + share * 8 : args.steps();
  const Int64 column = work_tile.tile.column + threadIdx.x;
  for (int r = 0; r < ROWS; ++r) {
    const Int64 row = work_tile.tile.row + r;
    float sum = 0;
    for (Int64 k = begin; k < end && row < args.m && column < args.n; ++k)
      sum = multiply_add(work_tile.a[A_TRANSPOSED ? k * args.lda + row : row * args.lda + k],
                         work_tile.b[B_TRANSPOSED ? column * args.ldb + k : k * args.ldb + column], sum);
    sums[r * kThreads] = sum * float(args.scale);
  }
  typedef OutputTile<SPLIT != 0> Output;
  const Int64 ld = SPLIT ? args.n : args.ldc, rows = args.m - work_tile.tile.row;
  const Output to{{work_tile.tile.row, column, work_tile.tile.batch},
                  (SPLIT ? reinterpret_cast<Output::Out*>(work_tile.partial) : reinterpret_cast<Output::Out*>(work_tile.c)) +
                      work_tile.tile.row * ld + column,
                  ld, rows < ROWS ? int(rows) : ROWS, column < args.n ? 1 : 0, scalars_of(args)};
  for (int r = 0; r < to.rows; ++r) to.write<1>(to.row(r), r, 0, {sums[r * kThreads]});
}
