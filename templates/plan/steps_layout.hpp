// The blocks of the pack, reduce, stream_k and column_sums steps: included by their kernels and by
// the plans.
#pragma once

namespace tilewise {

// A block of pack. A thread has few 16-byte runs: that leaves as many loads in flight, and small
// operands occupy more of the device.
struct PackLayout {
  static constexpr int kThreads = 128, kRunBytes = 16;
  int element;  // bytes
  bool transpose;

  constexpr int run() const { return kRunBytes / element; }  // elements
  // Runs of a thread, each in another row of the operand.
  constexpr int runs() const {
    return !transpose ? 4 : (element == 1 ? 8 : (element == 8 ? 2 : 4));
  }
  // Threads side by side in a row of the operand; the rest of a warp lies below. Transposed: the 4
  // threads below one another store neighbours, one or two sectors.
  constexpr int across() const { return transpose ? 8 : 16; }
  constexpr int down() const { return kThreads / across(); }
  // The tile of the packed operand that a block writes.
  constexpr int rows() const { return transpose ? across() * run() : down() * runs(); }
  constexpr int columns() const { return transpose ? down() * runs() : across() * run(); }
};

// A block of reduce: for each element one thread in each of `rows` rows.
struct ReduceLayout {
  static constexpr int kThreads = 256;
  int rows;
  constexpr int elements() const { return kThreads / rows; }
};

// The blocks of stream_k: each adds kElements sums of a tile.
struct StreamKLayout {
  static constexpr int kThreads = 256, kTogether = 4, kElements = kTogether * kThreads;
  int tile_m, tile_n;
  // Of one tile.
  constexpr int blocks() const { return (tile_m * tile_n + kElements - 1) / kElements; }
};

// A block of column_sums: kDown rows of kAcross threads add kDepth rows.
struct ColumnSumsLayout {
  static constexpr int kAcross = 32, kDown = 8, kThreads = kAcross * kDown, kDepth = 256;
};

}  // namespace tilewise
