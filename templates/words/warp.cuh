// Words of the kernel dialect for the lanes of one warp. All lanes of the mask `lanes` must execute the same
// call: otherwise behaviour is undefined on a GPU, and the CPU executor reports an error with both source lines.
// Only warp_barrier() orders memory.
#pragma once
#include "words/dialect.cuh"
#ifdef TILEWISE_HOST
#include "warp_on_cpu.hpp"
#endif

constexpr unsigned kWholeWarp = 0xffffffffu;

// The value of another lane, of 4 or 8 bytes.
template <class T>
DEVICE T shuffle(T value, int from, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::shuffle(tilewise_host::Shuffle::index, value, unsigned(from), lanes, at);
#else
  return __shfl_sync(lanes, value, from);
#endif
}
template <class T>
DEVICE T shuffle_xor(T value, int by, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::shuffle(tilewise_host::Shuffle::exclusive_or, value, unsigned(by), lanes, at);
#else
  return __shfl_xor_sync(lanes, value, by);
#endif
}

// The warp's index in its block. Called by the whole warp; the shuffle makes the result uniform for the compiler.
DEVICE int warp_number(SourceLine at = source_line()) { return shuffle(int(threadIdx.x) / 32, 0, kWholeWarp, at); }

// The mask of those of `lanes` whose `yes` is true.
DEVICE unsigned which_lanes(bool yes, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("which_lanes", yes, lanes, at);
#else
  return __ballot_sync(lanes, yes);
#endif
}
// The lowest lane of a mask that has one.
DEVICE int lowest_lane(unsigned mask) {
#ifdef TILEWISE_HOST
  return __builtin_ctz(mask);
#else
  return __ffs(static_cast<int>(mask)) - 1;
#endif
}
DEVICE bool all_lanes(bool yes, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("all_lanes", yes, lanes, at) == lanes;
#else
  return __all_sync(lanes, yes);
#endif
}
DEVICE bool any_lane(bool yes, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("any_lane", yes, lanes, at) != 0;
#else
  return __any_sync(lanes, yes);
#endif
}

// Waits for these lanes; writes of each before the barrier are visible to the others after it.
DEVICE void warp_barrier(unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::warp_barrier(lanes, at);
#else
  __syncwarp(lanes);
#endif
}
