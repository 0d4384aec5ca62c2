// The sizes of a block of skinny: included by its kernel and by its descriptor.
#pragma once

namespace tilewise::skinny {

struct BlockLayout {
  bool large_along_k;  // the large operand's k is contiguous
  int rows, outputs, warps_n, warps_k, vector, unroll;
  int sum;  // bytes

  constexpr int threads() const { return 32 * warps_n * warps_k; }
  // Outputs: columns of the large operand (rows, where it is A), each a column (row) of C.
  constexpr int warp_outputs() const { return large_along_k ? outputs : 32 * outputs; }
  constexpr int block_outputs() const { return warps_n * warp_outputs(); }
  // Steps of k in one pass of a warp.
  constexpr int pass() const { return large_along_k ? 32 * vector * unroll : unroll; }
  constexpr int shared_bytes() const { return sum * warps_k * rows * block_outputs(); }
};

}  // namespace tilewise::skinny
