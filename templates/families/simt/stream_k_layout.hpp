// What a block of the step after simt's tail adds up: included by stream_k.cu and by the plan.
#pragma once

namespace tilewise::simt {

struct StreamKLayout {
  static constexpr int kThreads = 256, kElements = 4 * kThreads;  // of a tile
  int tile_m, tile_n;
  constexpr int blocks() const { return (tile_m * tile_n + kElements - 1) / kElements; }
};

}  // namespace tilewise::simt
