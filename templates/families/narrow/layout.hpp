// Where narrow's tiles lie in shared memory: included by its kernel and by its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::narrow {

// Steps of k that a warp multiplies at a time: each of the four lanes of a row has eight
// neighbours.
constexpr int kUnit = 32;

struct BlockLayout {
  int tile_m, tile_n, tile_k;
  int warps_n, warps_k, stages;
  int bits;         // of an element of B
  int scale_bytes;  // of a scale of a block of k and a column; 0: none
  int scale_steps;  // steps of a block of k, a power of two
  int zero_bytes;   // of a zero point of a block of k and a column; 0: none

  constexpr int threads() const { return 32 * warps_n * warps_k; }
  // Bytes of a row of a tile, and from a row to the next. The lanes of a warp then read from all
  // banks in turn: of A, 16 bytes in four places of a row; of B, `bits` bytes in four places.
  constexpr int row_bytes_a() const { return tile_k * 2; }
  constexpr int row_bytes_b() const { return tile_k * bits / 8; }
  constexpr int stride_a() const { return layout::round_up(row_bytes_a(), 128) + 64; }
  constexpr int stride_b() const { return layout::round_up(row_bytes_b(), 128) + bits * 4; }
  constexpr int bytes_a() const { return tile_m * stride_a(); }
  constexpr int blocks_of_tile() const { return layout::larger(1, tile_k / scale_steps); }
  constexpr int scales_at() const { return bytes_a() + tile_n * stride_b(); }
  constexpr int zeros_at() const { return scales_at() + blocks_of_tile() * tile_n * scale_bytes; }
  constexpr int stage_bytes() const {
    return layout::round_up(zeros_at() + blocks_of_tile() * tile_n * zero_bytes, 16);
  }
  // After the main loop: the sums of each group of warps, [tile_m][sum_stride()].
  constexpr int sum_stride() const { return tile_n + 4; }
  constexpr int sums() const { return tile_m * sum_stride(); }  // of a group
  constexpr int shared_bytes() const {
    return layout::larger(stages * stage_bytes(), warps_k * sums() * 4);
  }
};

}  // namespace tilewise::narrow
