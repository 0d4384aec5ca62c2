// pack: copies an operand into the workspace, aligned, padded with zeros, transposed if asked.
//
// Each thread moves runs of 16 bytes, a run of `to` by one store. It reads several rows' runs of `from` before it
// writes any, so that many are on their way. To transpose, a thread turns a square of elements in its registers:
// as many runs as a run has elements. Neighbouring threads take squares that lie side by side in `from`, 8 of
// them, then the next below, 4 to a warp: whole sectors are read and written, and nothing goes through shared
// memory.
//
// Rows of `from` are read as widely as they are aligned; that is found out at run time, so that an image serves
// every alignment.
//
// Parameters: TRANSPOSE (0, 1), ELEMENT_BYTES (1, 2, 4, 8), BATCHED (0, 1).
#include "runs.cuh"

struct PackArgs {
  const char* from;
  char* to;
  Int64 from_ld, to_ld;          // elements
  Int64 from_stride, to_stride;  // from one product's operand to the next one's
  Int64 rows, columns;           // of `from` as stored
  Int64 to_rows;                 // of `to`; what `from` does not have is zero
};

constexpr int kThreads = 128;
constexpr int kRun = 16 / ELEMENT_BYTES;                // elements of a run
constexpr int kAcross = TRANSPOSE ? 8 : 16;             // threads side by side in a row of `from`
constexpr int kDown = kThreads / kAcross;
constexpr int kRows = TRANSPOSE ? kRun : 8;             // runs of a thread
constexpr int kTileRows = TRANSPOSE ? kAcross * kRun : kDown * kRows;  // of `to`, for a block
constexpr int kTileColumns = TRANSPOSE ? kDown * kRun : kAcross * kRun;
// Of a multiprocessor: leaves the registers that a thread needs for what is on its way to it.
constexpr int kBlocks = TRANSPOSE && ELEMENT_BYTES == 1 ? 2 : 4;

typedef unsigned Runs[kRows][4];

// Rows become columns.
DEVICE void turn(Runs& runs) {
  Runs turned;
  if constexpr (ELEMENT_BYTES == 8) {
    UNROLL_ALL
    for (int i = 0; i < kRows * 4; ++i) turned[i / 4][i % 4] = runs[i / 2 % 2][i / 4 * 2 + i % 2];
  } else if constexpr (ELEMENT_BYTES == 4) {
    UNROLL_ALL
    for (int i = 0; i < kRows * 4; ++i) turned[i / 4][i % 4] = runs[i % 4][i / 4];
  } else if constexpr (ELEMENT_BYTES == 2) {
    UNROLL_ALL
    for (int i = 0; i < 16; ++i) {
      const unsigned upper = runs[i / 4 * 2][i % 4], lower = runs[i / 4 * 2 + 1][i % 4];
      turned[i % 4 * 2][i / 4] = pick_bytes(upper, lower, 0x5410);
      turned[i % 4 * 2 + 1][i / 4] = pick_bytes(upper, lower, 0x7632);
    }
  } else {
    UNROLL_ALL
    for (int i = 0; i < 16; ++i) {
      const int row = i / 4 * 4, word = i % 4;
      const unsigned a = runs[row][word], b = runs[row + 1][word];
      const unsigned c = runs[row + 2][word], d = runs[row + 3][word];
      const unsigned ab01 = pick_bytes(a, b, 0x5140), ab23 = pick_bytes(a, b, 0x7362);
      const unsigned cd01 = pick_bytes(c, d, 0x5140), cd23 = pick_bytes(c, d, 0x7362);
      turned[word * 4][i / 4] = pick_bytes(ab01, cd01, 0x5410);
      turned[word * 4 + 1][i / 4] = pick_bytes(ab01, cd01, 0x7632);
      turned[word * 4 + 2][i / 4] = pick_bytes(ab23, cd23, 0x5410);
      turned[word * 4 + 3][i / 4] = pick_bytes(ab23, cd23, 0x7632);
    }
  }
  UNROLL_ALL
  for (int i = 0; i < kRows * 4; ++i) runs[i / 4][i % 4] = turned[i / 4][i % 4];
}

template <int ALIGNED, bool WHOLE>
DEVICE void read_runs(Runs& runs, const PackArgs& args, const char* from, Int64 row, Int64 column) {
  constexpr int EVERY = TRANSPOSE ? 1 : kDown;
  const Int64 bytes = args.columns * ELEMENT_BYTES;
  UNROLL_ALL
  for (int j = 0; j < kRows; ++j) {
    const Int64 at = row + j * EVERY;
    read_run<ELEMENT_BYTES, ALIGNED, WHOLE>(runs[j], from + at * args.from_ld * ELEMENT_BYTES,
                                            WHOLE || at < args.rows ? bytes : 0,
                                            column * ELEMENT_BYTES);
  }
}

KERNEL(kThreads, kBlocks) pack(ARGUMENTS PackArgs args) {
  next_step_may_start();
  // Tiles cover `to`, whose rows are padded to to_ld: the padding is written too.
  const unsigned tiles_across = static_cast<unsigned>((args.to_ld + kTileColumns - 1) / kTileColumns);
  unsigned index = blockIdx.x;
  Int64 batch = 0;
#if BATCHED
  const unsigned tiles =
      tiles_across * static_cast<unsigned>((args.to_rows + kTileRows - 1) / kTileRows);
  batch = index / tiles;
  index %= tiles;
#endif
  const Int64 to_row = static_cast<Int64>(index / tiles_across) * kTileRows;
  const Int64 to_column = static_cast<Int64>(index % tiles_across) * kTileColumns;
  const int across = int(threadIdx.x) % kAcross, down = int(threadIdx.x) / kAcross;
  // Of the thread's first run in `from`.
  const Int64 row = TRANSPOSE ? to_column + down * kRun : to_row + down;
  const Int64 column = (TRANSPOSE ? to_row : to_column) + across * kRun;

  Runs runs;
  const char* from = args.from + batch * args.from_stride * ELEMENT_BYTES;
  const Int64 last_row = row + (kRows - 1) * (TRANSPOSE ? 1 : kDown);
  const bool inside = last_row < args.rows;
  const Int64 bytes = args.columns * ELEMENT_BYTES, offset = column * ELEMENT_BYTES;
  constexpr int LEAST = ELEMENT_BYTES < 4 ? 1 : ELEMENT_BYTES;  // what elements are aligned to
  const auto apart = reinterpret_cast<unsigned long long>(from) | args.from_ld * ELEMENT_BYTES;
  if (apart % 16 == 0 && inside && whole_run<16>(bytes, offset))
    read_runs<16, true>(runs, args, from, row, column);
  else if (LEAST == 1 && apart % 4 == 0 && inside && whole_run<4>(bytes, offset))
    read_runs<4, true>(runs, args, from, row, column);
  else if (inside && whole_run<LEAST>(bytes, offset))
    read_runs<LEAST, true>(runs, args, from, row, column);
  else
    read_runs<LEAST, false>(runs, args, from, row, column);
  if (TRANSPOSE) turn(runs);

  char* to = args.to + batch * args.to_stride * ELEMENT_BYTES;
  UNROLL_ALL
  for (int j = 0; j < kRows; ++j) {
    const Int64 r = TRANSPOSE ? column + j : row + j * kDown, c = TRANSPOSE ? row : column;
    if (r < args.to_rows && c < args.to_ld)
      store_vector<4>(reinterpret_cast<unsigned*>(to + (r * args.to_ld + c) * ELEMENT_BYTES), runs[j]);
  }
  // Both packs may run at once, but this one ends last: the multiply step waits for it alone.
  previous_step_done();
}
