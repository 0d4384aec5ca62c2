// quantize: the rows of a matrix as 8-bit floats, with a scale for each 128 neighbours (Matmul::quantize()).
//
// A scale is the largest magnitude of its block over the largest number of RESULT, at least f32's smallest normal number. A
// number is its element over the scale, rounded to nearest. NaN counts in no magnitude, and stays NaN.
//
// A warp has kTogether blocks of a row. With VECTOR 1 each block has 8 lanes, and copies are of 16 bytes. With VECTOR 0 it has
// the whole warp, and copies are of one element.
#include "plan/quantize_layout.hpp"
#include "words/functions.cuh"
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
  int split;  // a block of threads has 2^split parts of each of kWarps / 2^split rows
};

typedef tilewise::QuantizeLayout Layout;
typedef Number<ELEMENT>::Stored Given;
typedef Number<RESULT>::Stored Made;
constexpr int kLanes = VECTOR ? 8 : 32;                                 // that have a block
constexpr int kAtOnce = 32 / kLanes;                                    // blocks of a warp at a time
constexpr int kRounds = Layout::kTogether / kAtOnce;                    // blocks of a lane
constexpr int kRun = VECTOR ? Layout::kBytes / int(sizeof(Given)) : 1;  // neighbours of a lane
constexpr int kRuns = Layout::kSteps / (kLanes * kRun);                 // of a lane in a block
constexpr int kEach = kRuns * kRun;
constexpr int kPart = Layout::kTogether * Layout::kSteps;
constexpr int kResident = 4;  // blocks of threads: up to 64 registers a thread, and enough loads in flight
constexpr float kLargest = RESULT == TYPE_E4M3 ? 448.0f : 57344.0f;

// `y` if it is larger; NaN is not.
DEVICE float larger(float x, float y) {
#ifdef TILEWISE_HOST
  return y > x ? y : x;
#else
  return fmaxf(x, y);
#endif
}
DEVICE float magnitude(float x) {
#ifdef TILEWISE_HOST
  return __builtin_fabsf(x);
#else
  return fabsf(x);
#endif
}

// The reciprocal, wrong by at most one unit in the last place. divide() is right with it, whichever neighbour of the exact one
// the instruction gives. With an even `near` it would be wrong for one fraction of `x`: all ones.
DEVICE float reciprocal(float x) {
#ifdef TILEWISE_HOST
  return 1 / x;
#else
  const float near = float_of(bits_of(fast_reciprocal(x)) | 1);
  return multiply_add(multiply_add(-x, near, 1.0f), near, near);
#endif
}

// x / y by y's reciprocal. The remainder has the sign that keeps that of a zero.
DEVICE float quotient(float x, float y, float reciprocal_of_y) {
  const float near = x * reciprocal_of_y, remainder = multiply_add(near, y, -x);
  return multiply_add(-remainder, reciprocal_of_y, near);
}

// Elements over the scale of their block, whose largest magnitude is `most`. Returns the scale.
//
// The scale is the rounded quotient for each of the 2^23 fractions of `most`. The quotient of an element may be wrong in its
// last bit. But it is less than, equal to or larger than each number midway between two of RESULT just as the rounded quotient
// is, so that both become the same RESULT. This holds for each of the 2^23 fractions of a scale and each such number, as long
// as nothing overflows and no remainder underflows. Quotients that become zero may be wrong by more.
DEVICE float divide(float (&values)[kEach], float most) {
  float scale = larger(float_of(0x00800000), quotient(most, kLargest, 1 / kLargest)), divisor = scale;
  if (!(most >= 0x1p-44f && most <= 0x1p76f)) {
    // A power of two changes no quotient but those that become zero. Over infinity an element becomes zero or NaN.
    float factor = most < 1 ? 0x1p64f : 0x1p-64f;
    divisor *= factor;
    if (most == float_of(0x7f800000)) scale = most, factor = 0, divisor = 1;
    UNROLL_ALL
    for (int e = 0; e < kEach; ++e) values[e] *= factor;
  }
  const float inverse = reciprocal(divisor);
  UNROLL_ALL
  for (int e = 0; e < kEach; ++e) values[e] = quotient(values[e], divisor, inverse);
  return scale;
}

// COUNT elements as values, from `at` on.
template <int COUNT>
DEVICE void widen_run(float (&values)[kEach], int at, const Given (&stored)[COUNT]) {
  if constexpr (COUNT > 1 && ELEMENT == TYPE_BF16) {
    // The compiler takes two instructions for the upper half of a word.
    unsigned words[COUNT / 2];
    copy_bits(words, stored);
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) values[at + e] = float_of(e % 2 ? words[e / 2] & 0xffff0000u : words[e / 2] << 16);
  } else {
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) values[at + e] = Number<ELEMENT>::widen(stored[e]);
  }
}
// Narrows COUNT values, from `at` on, and stores those of the first `left`.
template <int COUNT>
DEVICE void store_run(Made* to, const float (&values)[kEach], int at, int left, bool whole) {
  if constexpr (COUNT == 1) {
    if (whole || left > 0) *to = Number<RESULT>::narrow(values[at]);
  } else {
    unsigned words[COUNT / 4];
    UNROLL_ALL
    for (int w = 0; w < COUNT / 4; ++w) words[w] = Number<RESULT>::narrow_four(values + at + w * 4);
    Made numbers[COUNT];
    copy_bits(numbers, words);
    store_part(to, numbers, 0, whole ? COUNT : left);
  }
}

// From a lane's first element of a part to its r-th neighbours of its b-th block.
DEVICE constexpr int offset(int b, int r) { return b * kAtOnce * Layout::kSteps + r * kLanes * kRun; }

// kTogether blocks of a row. `from`, `to` and `scales`: where the lane begins. `left`: elements from the lane's first on.
// `whole`: no element is beyond the row.
DEVICE void quantize_part(const Given* from, Made* to, float* scales, Int64 per_block, bool writes, int left, bool whole) {
  Given stored[kRounds][kRuns][kRun];
  // The branch is uniform, and all loads are in flight before the first is waited for.
  if (whole) {
    UNROLL_ALL
    for (int b = 0; b < kRounds; ++b)
      UNROLL_ALL
      for (int r = 0; r < kRuns; ++r) load_vector<kRun>(stored[b][r], from + offset(b, r));
  } else {
    UNROLL_ALL
    for (int b = 0; b < kRounds; ++b)
      UNROLL_ALL
      for (int r = 0; r < kRuns; ++r) load_part(stored[b][r], from + offset(b, r), 0, left - offset(b, r));
  }
  UNROLL_ALL
  for (int b = 0; b < kRounds; ++b) {
    float values[kEach];
    UNROLL_ALL
    for (int r = 0; r < kRuns; ++r) widen_run(values, r * kRun, stored[b][r]);
    float most = 0;
    UNROLL_ALL
    for (int e = 0; e < kEach; ++e) most = larger(most, magnitude(values[e]));
    UNROLL_ALL
    for (int by = kLanes / 2; by > 0; by /= 2) most = larger(most, shuffle_xor(most, by));
    const float scale = divide(values, most);
    if (writes && left > offset(b, 0)) scales[b * kAtOnce * per_block] = scale;
    UNROLL_ALL
    for (int r = 0; r < kRuns; ++r)
      store_run<kRun>(to + offset(b, r), values, r * kRun, left - offset(b, r), whole);
  }
}

KERNEL(Layout::kWarps * 32, kResident) quantize(ARGUMENTS QuantizeArgs args) {
  const unsigned lane = threadIdx.x % 32, warp = unsigned(warp_number());
  const unsigned in_block = warp >> args.split, rows_of_block = unsigned(Layout::kWarps) >> args.split;
  const Int64 part = (Int64(blockIdx.x) << args.split) + (warp - (in_block << args.split));
  const Int64 left = args.columns - part * kPart;
  if (left <= 0) return;
  const unsigned in_part = lane / kLanes * Layout::kSteps + lane % kLanes * kRun;
  const Int64 first = part * kPart + in_part;
  const Int64 first_scale = (part * Layout::kTogether + lane / kLanes) * args.per_block;
  for (Int64 row = Int64(blockIdx.y) * rows_of_block + in_block; row < args.rows; row += Int64(gridDim.y * rows_of_block))
    quantize_part(args.from + row * args.ld_from + first, args.to + row * args.ld_to + first,
                  args.scales + row * args.per_row + first_scale, args.per_block, lane % kLanes == 0,
                  int(left < kPart ? left : kPart) - int(in_part), left >= kPart);
}
