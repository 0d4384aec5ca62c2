// pack: copies operands into the workspace, aligned, padded with zeros, and transposed or not. One launch packs both
// operands where both are packed: the first blocks copy one, the other blocks the second.
//
// A thread copies runs of 16 bytes. It reads runs of several rows of `from` before it writes any, so that many loads
// are in flight. A block covers a tile of `to`.
//
// Transposed: a thread transposes a rectangle of elements in registers, one run wide and RUNS rows high. Neighbouring
// threads take rectangles side by side in `from`, then the ones below, so that a warp reads and writes whole sectors.
// Shared memory is not used.
//
// Rows of `from` that are not aligned to 16 bytes are read as the aligned chunks around them. Alignment is tested at
// run time, so that an image serves every alignment.
//
// Parameters: FIRST (1 padded, 2 transposed), SECOND (the same; 0: there is none), ELEMENT_BYTES
// (1, 2, 4, 8), BATCHED (0, 1), POINTERS_FROM (absent or 1: the operands of a batch are found by pointers), where f32 is
// rounded to tf32 ROUND, and where it is split into two tf32 SPLIT_TF32: the small parts are a matrix of their own, behind
// that of the large parts.
#include "plan/steps_layout.hpp"
#include "words/matrix_of.cuh"
#include "words/runs.cuh"
#ifndef POINTERS_FROM
#define POINTERS_FROM 0
#endif
#if defined(ROUND) || defined(SPLIT_TF32)
#include "words/mma.cuh"
#endif

struct Operand {
  const char* from;              // POINTERS_FROM: an array of pointers to the operands
  char* to;
  Int64 from_ld, to_ld;          // elements
  Int64 from_stride, to_stride;  // from one product's operand to the next one's
  Int64 rows, columns;           // of `from` as stored
  Int64 to_rows;                 // of `to` (of each part); elements that `from` lacks are zeros
};
struct PackArgs {
  Operand operands[SECOND ? 2 : 1];
#if SECOND
  int first_blocks;  // blocks that pack the first operand; 0: it is left out
#endif
};

constexpr int kThreads = tilewise::PackLayout::kThreads;
constexpr int kRun = 16 / ELEMENT_BYTES;  // elements of a run

// The tile of a block.
template <bool TRANSPOSE>
struct Tile {
  static constexpr tilewise::PackLayout LAYOUT = {ELEMENT_BYTES, TRANSPOSE};
  static constexpr int RUNS = LAYOUT.runs();
  static constexpr int STORE_BYTES = TRANSPOSE ? RUNS * ELEMENT_BYTES : 16;  // bytes of one store
  static constexpr int ACROSS = LAYOUT.across(), DOWN = LAYOUT.down();
  static constexpr int APART = TRANSPOSE ? 1 : DOWN;  // rows from one run of a thread to its next
  static constexpr int ROWS = LAYOUT.rows(), COLUMNS = LAYOUT.columns();  // of `to`
};

// Blocks that must fit on a multiprocessor: few enough that loads in flight have registers.
constexpr int kBlocks = ELEMENT_BYTES == 1 && (FIRST == 2 || SECOND == 2) ? 4 : 8;

// Transposes: the columns of RUNS rows become `chunks`, one for each element of a run.
template <int RUNS, int WORDS>
DEVICE void turn(unsigned (&chunks)[kRun][WORDS], const unsigned (&runs)[RUNS][4]) {
  if constexpr (ELEMENT_BYTES == 8) {
    UNROLL_ALL
    for (int i = 0; i < RUNS * 4; ++i) chunks[i % 4 / 2][i / 4 * 2 + i % 2] = runs[i / 4][i % 4];  //@ pack-transpose-doubles
  } else if constexpr (ELEMENT_BYTES == 4) {
    UNROLL_ALL
    for (int i = 0; i < RUNS * 4; ++i) chunks[i % 4][i / 4] = runs[i / 4][i % 4];  //@ pack-transpose-words
  } else if constexpr (ELEMENT_BYTES == 2) {
    UNROLL_ALL
    for (int i = 0; i < WORDS * 4; ++i) {
      const int row = i / 4 * 2, word = i % 4;
      const unsigned a = runs[row][word], b = runs[row + 1][word];
      chunks[word * 2][i / 4] = pick_bytes(a, b, 0x5410);
      chunks[word * 2 + 1][i / 4] = pick_bytes(a, b, 0x7632);  //@ pack-transpose-halves
    }
  } else {
    UNROLL_ALL
    for (int i = 0; i < WORDS * 4; ++i) {
      const int row = i / 4 * 4, word = i % 4;
      unsigned turned[4];
      transpose_bytes(turned, {runs[row][word], runs[row + 1][word], runs[row + 2][word], runs[row + 3][word]});  //@ pack-transpose-bytes
      UNROLL_ALL
      for (int b = 0; b < 4; ++b) chunks[word * 4 + b][i / 4] = turned[b];
    }
  }
}

// Reads a thread's RUNS runs, from `row`, `column` of `from` (an operand of one product) on, at the edge: element by
// element, with zeros outside.
template <bool TRANSPOSE, int RUNS>
DEVICE void read_edge(unsigned (&runs)[RUNS][4], const Operand& x, const char* from, Int64 row, Int64 column) {
  UNROLL_ALL
  for (int j = 0; j < RUNS; ++j) {
    const Int64 at = row + j * Tile<TRANSPOSE>::APART;
    read_run<ELEMENT_BYTES, ELEMENT_BYTES < 4 ? 1 : ELEMENT_BYTES, false>(  //@ pack-read-edge
        runs[j], from + at * x.from_ld * ELEMENT_BYTES, at < x.rows ? x.columns * ELEMENT_BYTES : 0,  //@ pack-row-edge
        column * ELEMENT_BYTES);
  }
}

// The same where all runs are inside of their rows. ALIGNED: to 16 bytes; else each run is realigned from the two
// chunks around it. The chunks' other bytes are of neighbouring rows or between rows, not outside the operand.
template <bool TRANSPOSE, bool ALIGNED, int RUNS>
DEVICE void read_inside(unsigned (&runs)[RUNS][4], const Operand& x, const char* first) {
  unsigned chunks[RUNS][2][4];
  int before[RUNS];
  UNROLL_ALL
  for (int j = 0; j < RUNS; ++j) {
    const char* at = first + j * Tile<TRANSPOSE>::APART * x.from_ld * ELEMENT_BYTES;
    before[j] = ALIGNED ? 0 : static_cast<int>(reinterpret_cast<unsigned long long>(at) & 15);
    at -= before[j];
    read_chunk<ELEMENT_BYTES>(chunks[j][0], at, {before[j], 16});  //@ pack-read-chunk
    if (!ALIGNED) read_chunk<ELEMENT_BYTES>(chunks[j][1], at + (before[j] > 0 ? 16 : 0), {0, before[j]});
  }
  UNROLL_ALL
  for (int j = 0; j < RUNS; ++j) {
    if (!ALIGNED) shift_runs<1>(chunks[j], before[j]);  //@ pack-realign
    UNROLL_ALL
    for (int w = 0; w < 4; ++w) runs[j][w] = chunks[j][0][w];
  }
}

template <bool TRANSPOSE, int RUNS>
DEVICE void read_part(unsigned (&runs)[RUNS][4], const Operand& x, const char* from, Int64 row, Int64 column) {
  const Int64 last = row + (RUNS - 1) * Tile<TRANSPOSE>::APART, ld = x.from_ld * ELEMENT_BYTES;
  const Int64 bytes = x.columns * ELEMENT_BYTES, offset = column * ELEMENT_BYTES;
  const bool inside = last < x.rows && offset + 16 <= bytes;  //@ pack-run-inside
  const char* first = from + row * ld + offset;
  if (inside && (reinterpret_cast<unsigned long long>(from) | ld) % 16 == 0)
    read_inside<TRANSPOSE, true>(runs, x, first);
  else if (inside && row * ld + offset >= 16 && last * ld + offset + 32 <= (x.rows - 1) * ld + bytes)
    read_inside<TRANSPOSE, false>(runs, x, first);
  else
    read_edge<TRANSPOSE>(runs, x, from, row, column);
}

// Packs one of the tiles that cover `to`, the padding of its rows up to to_ld included.
template <bool TRANSPOSE>
DEVICE void pack_tile(const Operand& x, unsigned index) {
  typedef Tile<TRANSPOSE> T;
  const unsigned tiles_across = static_cast<unsigned>((x.to_ld + T::COLUMNS - 1) / T::COLUMNS);
  Int64 batch = 0;
#if BATCHED
  const unsigned tiles = tiles_across * static_cast<unsigned>((x.to_rows + T::ROWS - 1) / T::ROWS);
  batch = index / tiles;
  index %= tiles;
#endif
  const Int64 to_row = static_cast<Int64>(index / tiles_across) * T::ROWS;
  const Int64 to_column = static_cast<Int64>(index % tiles_across) * T::COLUMNS;
  const int across = int(threadIdx.x) % T::ACROSS, down = int(threadIdx.x) / T::ACROSS;
  // The thread's first run in `from`.
  const Int64 row = TRANSPOSE ? to_column + down * T::RUNS : to_row + down;
  const Int64 column = (TRANSPOSE ? to_row : to_column) + across * kRun;

  unsigned runs[T::RUNS][4];
  const char* from = matrix_of<POINTERS_FROM != 0>(x.from, x.from_stride * ELEMENT_BYTES, batch);  //@ pack-batch-offset
  read_part<TRANSPOSE>(runs, x, from, row, column);
#ifdef ROUND
  UNROLL_ALL
  for (int i = 0; i < T::RUNS * 4; ++i) {
    unsigned& word = runs[i / 4][i % 4];
    word = tf32_of_float(float_of(word));  //@ pack-round
  }
#endif
  char* to = x.to + batch * x.to_stride * ELEMENT_BYTES;
  const auto write = [&](Int64 r, Int64 c, const auto& words) {
    if (r < x.to_rows && c < x.to_ld)  //@ pack-output-edge
      store_vector<T::STORE_BYTES / 4>(  //@ pack-store
          reinterpret_cast<unsigned*>(to + (r * x.to_ld + c) * ELEMENT_BYTES), words);
  };
  const auto write_runs = [&] {
    if constexpr (TRANSPOSE) {
      unsigned chunks[kRun][T::STORE_BYTES / 4];
      turn(chunks, runs);
      UNROLL_ALL
      for (int j = 0; j < kRun; ++j) write(column + j, row, chunks[j]);
    } else {
      UNROLL_ALL
      for (int j = 0; j < T::RUNS; ++j) write(row + j * T::APART, column, runs[j]);  //@ pack-write-row
    }
  };
#ifdef SPLIT_TF32
  unsigned small[T::RUNS][4];
  UNROLL_ALL
  for (int i = 0; i < T::RUNS * 4; ++i) {
    unsigned& word = runs[i / 4][i % 4];
    const float value = float_of(word);
    word = tf32_of_float(value);
    small[i / 4][i % 4] = tf32_of_float(value - float_of(word));  //@ pack-small-part
  }
  write_runs();
  to += x.to_rows * x.to_ld * ELEMENT_BYTES;  //@ pack-small-place
  UNROLL_ALL
  for (int i = 0; i < T::RUNS * 4; ++i) runs[i / 4][i % 4] = small[i / 4][i % 4];
#endif
  write_runs();
}

// The plan's first step: no grid_dependency_wait(), since the kernel before it belongs to the caller.
KERNEL(kThreads, kBlocks) pack(ARGUMENTS PackArgs args) {
  launch_dependents();
  int which = 0;
  unsigned index = blockIdx.x;
#if SECOND
  if (int(index) >= args.first_blocks) {
    which = 1;
    index -= unsigned(args.first_blocks);  //@ pack-second-operand-blocks
  }
#endif
  if (which == 0 || SECOND == FIRST)  //@ pack-same-kind
    pack_tile<FIRST == 2>(args.operands[which], index);
  else
    pack_tile<SECOND == 2>(args.operands[which], index);
}
