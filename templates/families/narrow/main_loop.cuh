// narrow's multiplication: what a warp does with a stage. See narrow.cu.
#pragma once
#include "families/narrow/tiles.cuh"
#include "words/mma.cuh"

#if ELEMENT == TYPE_BF16
typedef MmaBf16 Op;
#else
typedef MmaF16 Op;
#endif

// A warp's sums: BLOCKS x kColumns instructions.
typedef Sum Sums[BLOCKS][kColumns][Op::C];
DEVICE Sum& sum_at(Sums& sums, int block, int column, int e) { return sums[block][column][e]; }

// The places of a lane's operands in a stage: its first row of A and of B, at its first steps of k.
struct LanePlaces {
  int of_a, of_b;
  DEVICE_MEMBER LanePlaces(int first_column, int warp_k) {
    const int lane = int(threadIdx.x) % 32;
    of_a = lane / 4 * kLayout.stride_a() + (warp_k * kSlice + lane % 4 * 8) * 2;
    of_b = kLayout.bytes_a() + first_column * kLayout.stride_b() + (warp_k * kSlice + lane % 4 * 8) * kBitsB / 8;
  }
};

// What is subtracted from a lane's numbers of B, of each of its columns.
#if ZERO_POINTS
struct ZeroPairs {
  unsigned of[BLOCKS][2];
  // of_column: of the lane's first column.
  DEVICE_MEMBER explicit ZeroPairs(const Zero* of_column) {
    UNROLL_ALL
    for (int i = 0; i < 2 * BLOCKS; ++i) of[i / 2][i % 2] = Weights::taken_of(ZeroOfB::widen(of_column[i * 8]));  //@ narrow-zero-column
  }
  DEVICE_MEMBER unsigned taken(int block, int half) const { return of[block][half]; }
};
#else
struct ZeroPairs {
  DEVICE_MEMBER unsigned taken(int, int) const { return Weights::NOTHING; }
};
#endif

// sums += the products of a unit. a, b: of the lane's first row and of its eight steps of k.
DEVICE void multiply_unit(Sums& sums, const char* a, const char* b, const ZeroPairs& zeros,
                          unsigned (&not_a_number)[BLOCKS][2]) {
  // Pairs of steps, in the same order as those of B.
  unsigned from_a[kColumns][4];
  UNROLL_ALL
  for (int j = 0; j < kColumns; ++j) {
    unsigned words[4];
    load_vector<4>(words, reinterpret_cast<const unsigned*>(a + j * 8 * kLayout.stride_a()));
    UNROLL_ALL
    for (int p = 0; p < 4; ++p)
      from_a[j][p] = Weights::APART == 4 ? choose_bytes(words[p / 2], words[2 + p / 2], p % 2 ? 0x7632 : 0x5410) : words[p];  //@ narrow-steps-of-a
  }
  unsigned pairs[BLOCKS][2][4];
  UNROLL_ALL
  for (int i = 0; i < BLOCKS; ++i) {
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      unsigned words[4 / Weights::PAIRS];
      load_vector<4 / Weights::PAIRS>(words, reinterpret_cast<const unsigned*>(b + (i * 16 + half * 8) * kLayout.stride_b()));
      UNROLL_ALL
      for (int p = 0; p < 4; ++p)
        pairs[i][half][p] = Weights::pair_apart(words[p / Weights::PAIRS], p % Weights::PAIRS, not_a_number[i][half], zeros.taken(i, half));
    }
  }
  UNROLL_ALL
  for (int step = 0; step < 2; ++step) {
    unsigned left[BLOCKS][Op::A], right[kColumns][Op::B];
    UNROLL_ALL
    for (int i = 0; i < BLOCKS; ++i) {
      UNROLL_ALL
      for (int word = 0; word < Op::A; ++word) left[i][word] = pairs[i][word % 2][2 * step + word / 2];  //@ narrow-fragment
    }
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int word = 0; word < Op::B; ++word) right[j][word] = from_a[j][2 * step + word];
    }
    multiply_blocks<Op>(sums, left, right);
  }
}

// sums += the products of STEPS steps of a stage, from the warp's step `first` on.
template <int STEPS>
DEVICE void multiply_steps(Sums& sums, const char* stage, const LanePlaces& at, int first, const ZeroPairs& zeros,
                           unsigned (&not_a_number)[BLOCKS][2]) {
  UNROLL_BY(4)
  for (int step = first; step < first + STEPS; step += kUnit)
    multiply_unit(sums, stage + at.of_a + step * 2, stage + at.of_b + step * kBitsB / 8, zeros, not_a_number);
}
