// pack: copies an operand into the workspace, aligned, padded with zeros, transposed if asked.
//
// A block moves 32 x 32 elements through shared memory, so that reads and writes both run along memory
// whatever TRANSPOSE says. Rows of 33 words: a column lies in 32 different banks.
//
// Parameters: TRANSPOSE (0, 1).
#include "dialect.cuh"

struct PackArgs {
  const float* from;
  float* to;
  Int64 from_ld, to_ld;      // elements
  Int64 rows, columns;       // of `from` as stored
};

KERNEL(256, 1) pack(ARGUMENTS PackArgs args) {
  float* tile = shared_floats();  // [32][33]
  // Tiles cover `to`, whose rows are padded to to_ld: the padding is written too.
  const Int64 to_rows = TRANSPOSE ? args.columns : args.rows;
  const unsigned tiles_across = static_cast<unsigned>((args.to_ld + 31) / 32);
  const Int64 to_row0 = static_cast<Int64>(blockIdx.x / tiles_across) * 32;
  const Int64 to_column0 = static_cast<Int64>(blockIdx.x % tiles_across) * 32;
  const Int64 from_row0 = TRANSPOSE ? to_column0 : to_row0;
  const Int64 from_column0 = TRANSPOSE ? to_row0 : to_column0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  UNROLL_ALL
  for (int i = warp; i < 32; i += 8) {
    const Int64 row = from_row0 + i, column = from_column0 + lane;
    const bool inside = row < args.rows && column < args.columns;
    tile[i * 33 + lane] = inside ? args.from[row * args.from_ld + column] : 0.0f;
  }
  barrier();
  UNROLL_ALL
  for (int i = warp; i < 32; i += 8) {
    const Int64 row = to_row0 + i, column = to_column0 + lane;
    if (row < to_rows && column < args.to_ld)
      args.to[row * args.to_ld + column] = TRANSPOSE ? tile[lane * 33 + i] : tile[i * 33 + lane];
  }
}
