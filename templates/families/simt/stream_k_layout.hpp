// The blocks of stream-K's fix-up step: included by stream_k.cu and by the plan.
#pragma once

namespace tilewise::simt {

struct StreamKLayout {
  static constexpr int kThreads = 256, kElements = 4 * kThreads;  // of a block
  int tile_m, tile_n;
  // Blocks of one tile.
  constexpr int blocks() const { return (tile_m * tile_n + kElements - 1) / kElements; }
};

}  // namespace tilewise::simt
