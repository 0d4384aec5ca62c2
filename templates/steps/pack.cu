// pack: copies an operand into the workspace, aligned, padded with zeros, transposed if asked.
//
// A block moves 64 x 64 elements through shared memory, so that reads and writes both run along memory
// whatever TRANSPOSE says. Rows of 65 words: a column lies in different banks. A thread has all its 16
// loads under way before it stores any.
//
// Parameters: TRANSPOSE (0, 1).
#include "dialect.cuh"

struct PackArgs {
  const float* from;
  float* to;
  Int64 from_ld, to_ld;  // elements
  Int64 rows, columns;   // of `from` as stored
};

constexpr int kSide = 64, kThreads = 256, kEvery = kThreads / kSide, kEach = kSide / kEvery;

KERNEL(kThreads, 4) pack(ARGUMENTS PackArgs args) {
  float* tile = shared_floats();  // [kSide][kSide + 1]
  next_step_may_start();
  // Tiles cover `to`, whose rows are padded to to_ld: the padding is written too.
  const Int64 to_rows = TRANSPOSE ? args.columns : args.rows;
  const unsigned tiles_across = static_cast<unsigned>((args.to_ld + kSide - 1) / kSide);
  const Int64 to_row0 = static_cast<Int64>(blockIdx.x / tiles_across) * kSide;
  const Int64 to_column0 = static_cast<Int64>(blockIdx.x % tiles_across) * kSide;
  const Int64 from_row0 = TRANSPOSE ? to_column0 : to_row0;
  const Int64 from_column0 = TRANSPOSE ? to_row0 : to_column0;
  const int column = int(threadIdx.x) % kSide, row = int(threadIdx.x) / kSide;

  float values[kEach];
  const float* from = args.from + (from_row0 + row) * args.from_ld + from_column0 + column;
  UNROLL_ALL
  for (int j = 0; j < kEach; ++j) {
    const bool inside =
        from_row0 + row + j * kEvery < args.rows && from_column0 + column < args.columns;
    values[j] = inside ? from[j * kEvery * args.from_ld] : 0.0f;
  }
  UNROLL_ALL
  for (int j = 0; j < kEach; ++j) {
    const int at = row + j * kEvery;
    if (TRANSPOSE)
      tile[at * (kSide + 1) + column] = values[j];
    else if (to_row0 + at < to_rows && to_column0 + column < args.to_ld)
      args.to[(to_row0 + at) * args.to_ld + to_column0 + column] = values[j];
  }
  if (TRANSPOSE) {
    barrier();
    UNROLL_ALL
    for (int j = 0; j < kEach; ++j) {
      const int at = row + j * kEvery;
      if (to_row0 + at < to_rows && to_column0 + column < args.to_ld)
        args.to[(to_row0 + at) * args.to_ld + to_column0 + column] = tile[column * (kSide + 1) + at];
    }
  }
  // Both packs may run at once, but this one ends last: the multiply step waits for it alone.
  previous_step_done();
}
