// What blocks of the steps around a product do: included by pack.cu, reduce.cu and the plans.
#pragma once

namespace tilewise {

// Few 16-byte runs a thread and many threads: as much is on its way, and small operands occupy more
// of the device.
struct PackLayout {
  static constexpr int kThreads = 128, kRunBytes = 16;
  int element;  // bytes
  bool transpose;

  constexpr int run() const { return kRunBytes / element; }  // elements
  // Runs of a thread, one a row of the operand.
  constexpr int runs() const {
    return !transpose ? 4 : (element == 1 ? 8 : (element == 8 ? 2 : 4));
  }
  // Threads side by side in a row of the operand. The rest of a warp lies below: there, 4 stored
  // pieces are a sector or two.
  constexpr int across() const { return transpose ? 8 : 16; }
  constexpr int down() const { return kThreads / across(); }
  // Of the packed operand, that a block writes.
  constexpr int rows() const { return transpose ? across() * run() : down() * runs(); }
  constexpr int columns() const { return transpose ? down() * runs() : across() * run(); }
};

// A thread of each of `rows` rows for every element.
struct ReduceLayout {
  static constexpr int kThreads = 256;
  int rows;
  constexpr int elements() const { return kThreads / rows; }
};

}  // namespace tilewise
