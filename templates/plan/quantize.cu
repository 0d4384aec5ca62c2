// quantize: the rows of a matrix as 8-bit floats, with a scale for each 128 neighbours (Matmul::quantize()).
//
// A scale is the largest magnitude of its block over the largest number of RESULT, at least f32's smallest normal number. A
// number is its element over the scale, rounded to nearest. NaN counts in no magnitude, and stays NaN.
//
// A warp has kTogether blocks of a row. A lane has four elements of each block. With VECTOR 1 these are neighbours, with 0 they
// are 32 apart.
#include "plan/quantize_layout.hpp"
#include "words/types.cuh"
#include "words/warp.cuh"

struct QuantizeArgs {
  const Number<ELEMENT>::Stored* from;
  Int64 ld_from;
  Number<RESULT>::Stored* to;
  Int64 ld_to;
  float* scales;
  Int64 per_row, per_block;  // from a row's scale to the next one's, and from a block's
  Int64 rows, columns;
};

typedef tilewise::QuantizeLayout Layout;
constexpr int kEach = Layout::kSteps / 32;  // elements of a lane
constexpr float kLargest = RESULT == TYPE_E4M3 ? 448.0f : 57344.0f;

KERNEL(Layout::kWarps * 32, 1) quantize(ARGUMENTS QuantizeArgs args) {
  const int lane = int(threadIdx.x) % 32;
  const int first_lane = VECTOR ? lane * kEach : lane, apart = VECTOR ? 1 : 32;
  const Int64 blocks = (args.columns + Layout::kSteps - 1) / Layout::kSteps;
  const Int64 across = (blocks + Layout::kTogether - 1) / Layout::kTogether;
  for (Int64 nth = Int64(blockIdx.x) * Layout::kWarps + warp_number(); nth < args.rows * across;
       nth += Int64(gridDim.x) * Layout::kWarps) {
    // Divisions of 64 bits take as long as the copies.
    const Int64 row = nth >> 32 == 0 && across >> 32 == 0 ? Int64(unsigned(nth) / unsigned(across)) : nth / across;
    const Int64 first_block = (nth - row * across) * Layout::kTogether;
    const Number<ELEMENT>::Stored* from = args.from + row * args.ld_from;
    float values[Layout::kTogether][kEach];
    UNROLL_ALL
    for (int b = 0; b < Layout::kTogether; ++b) {
      const Int64 first = (first_block + b) * Layout::kSteps + first_lane, left = args.columns - first;
      Number<ELEMENT>::Stored stored[kEach];
#if VECTOR
      load_part(stored, from + (left > 0 ? first : 0), 0, left < kEach ? int(left) : kEach);
#else
      UNROLL_ALL
      for (int e = 0; e < kEach; ++e) stored[e] = e * apart < left ? from[first + e * apart] : Number<ELEMENT>::Stored(0);
#endif
      UNROLL_ALL
      for (int e = 0; e < kEach; ++e) values[b][e] = Number<ELEMENT>::widen(stored[e]);
    }
    UNROLL_ALL
    for (int b = 0; b < Layout::kTogether; ++b) {
      const Int64 block = first_block + b;
      if (block >= blocks) break;
      float most = 0;
      UNROLL_ALL
      for (int e = 0; e < kEach; ++e) {
        const float magnitude = values[b][e] < 0 ? -values[b][e] : values[b][e];
        if (magnitude > most) most = magnitude;
      }
      UNROLL_ALL
      for (int by = 16; by > 0; by /= 2) {
        const float other = shuffle_xor(most, by);
        if (other > most) most = other;
      }
      const float quotient = most / kLargest, least = float_of(0x00800000);
      const float scale = quotient > least ? quotient : least;
      if (lane == 0) args.scales[row * args.per_row + block * args.per_block] = scale;
      Number<RESULT>::Stored numbers[kEach];
      UNROLL_ALL
      for (int e = 0; e < kEach; ++e) numbers[e] = Number<RESULT>::narrow(values[b][e] / scale);
      const Int64 first = block * Layout::kSteps + first_lane, left = args.columns - first;
      Number<RESULT>::Stored* to = args.to + row * args.ld_to + first;
#if VECTOR
      store_part(to, numbers, 0, left < kEach ? int(left) : kEach);
#else
      UNROLL_ALL
      for (int e = 0; e < kEach; ++e)
        if (e * apart < left) to[e * apart] = numbers[e];
#endif
    }
  }
}
