// narrow's multiplication by wgmma, with the weights as the left operand, in registers. See narrow.cu.
//
// Four lanes have a row of the left operand. Lane l of these has steps 2 l and 2 l + 1 of each eight steps of k: the order is
// the instruction's. All four read the same 16 bytes.
#pragma once
#include "families/narrow/tiles.cuh"
#include "words/wgmma.cuh"

// A warp's sums: BLOCKS instructions of its warpgroup.
typedef Sum Sums[BLOCKS][WGMMA_N / 2];
static_assert(WGMMA_N == TILE_M, "an instruction has all rows of the tile");
DEVICE Sum& sum_at(Sums& sums, int block, int column, int e) { return sums[block][4 * column + e]; }

constexpr MatrixLayout kRight = {128, kLayout.panel_bytes()};

struct LanePlaces {
  int first_step, of_b, pair;  // in a stage; the lane's pair of each four
  DEVICE_MEMBER LanePlaces(int first_column, int warp_k) {
    first_step = warp_k * kSlice;
    of_b = kLayout.bytes_a() + first_column * kLayout.stride_b() + first_step * kBitsB / 8;
    pair = int(threadIdx.x) % 4;
  }
};

// The lane's pairs of a row's 32 steps of k: one of each eight.
DEVICE void widen_row(unsigned (&pairs)[4], const char* row, int lane_pair, unsigned& not_a_number) {
  constexpr int WORDS = kBitsB;  // of 32 steps
  unsigned words[WORDS];
  UNROLL_ALL
  for (int w = 0; w < WORDS; w += 4) {
    unsigned some[4];
    load_vector<4>(some, reinterpret_cast<const unsigned*>(row + w * 4));
    UNROLL_ALL
    for (int i = 0; i < 4; ++i) words[w + i] = some[i];
  }
  UNROLL_ALL
  for (int eighth = 0; eighth < 4; ++eighth) {
    if constexpr (Weights::PAIRS == 4) {
      pairs[eighth] = Weights::pair(words[eighth], lane_pair, not_a_number);
    } else {
      // The lane's two bytes of eight come to the lowest ones.
      const unsigned two = choose_bytes(words[2 * eighth], words[2 * eighth + 1], 0x10u + 0x22u * unsigned(lane_pair));  //@ narrow-two-bytes
      pairs[eighth] = Weights::pair(two, 0, not_a_number);
    }
  }
}

// The same interface as by_mma.cuh. The warps of a warpgroup call it together.
template <int STEPS>
DEVICE void multiply_steps(Sums& sums, const char* stage, const LanePlaces& at, int first, unsigned (&not_a_number)[BLOCKS][2]) {
  const MatrixDescriptor right = matrix_descriptor(stage, kRight);
  UNROLL_ALL
  for (int unit = 0; unit < STEPS; unit += kUnit) {
    unsigned left[BLOCKS][2][4];
    UNROLL_ALL
    for (int i = 0; i < BLOCKS; ++i) {
      unsigned pairs[2][4];
      UNROLL_ALL
      for (int half = 0; half < 2; ++half)
        widen_row(pairs[half], stage + at.of_b + (i * kToNextBlock + half * 8) * kLayout.stride_b() + (first + unit) * kBitsB / 8,
                  at.pair, not_a_number[i][half]);
      UNROLL_ALL
      for (int step = 0; step < 2; ++step) {
        UNROLL_ALL
        for (int word = 0; word < 4; ++word) left[i][step][word] = pairs[word % 2][2 * step + word / 2];  //@ narrow-left-words
      }
    }
    UNROLL_ALL
    for (int i = 0; i < BLOCKS; ++i) {
      wgmma_settle(left[i][0]);
      wgmma_settle(left[i][1]);
      if (unit == 0) wgmma_settle(sums[i]);
    }
    wgmma_fence();  //@ narrow-fence
    UNROLL_ALL
    for (int step = 0; step < 2; ++step) {
      const int k = at.first_step + first + unit + step * 16;
      UNROLL_ALL
      for (int i = 0; i < BLOCKS; ++i)
        multiply_async(sums[i], left[i][step], right.after(k / 64 * kLayout.panel_bytes() + k % 64 * 2));  //@ narrow-panel
    }
    wgmma_commit();
    // The fragments of the unit before are free then.
    if (unit > 0) wgmma_wait<1>();
  }
  wgmma_wait<0>(sums);  //@ narrow-wait
}
