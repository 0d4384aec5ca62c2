// Words of the kernel dialect for the lanes of one warp. All lanes that `lanes` names must come to the
// same call: on a GPU anything else is undefined, on the CPU executor it is an error with both lines.
// None of these orders memory but warp_barrier().
#pragma once
#include "words/dialect.cuh"
#ifdef TILEWISE_HOST
#include "warp_on_cpu.hpp"
#endif

constexpr unsigned kWholeWarp = 0xffffffffu;

// The value of another lane; 4- and 8-byte types. Out of range (up, down): the lane's own.
template <class T>
DEVICE T shuffle(T value, int from, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::shuffle(tilewise_host::Shuffle::index, value, unsigned(from), lanes, at);
#else
  return __shfl_sync(lanes, value, from);
#endif
}
template <class T>
DEVICE T shuffle_up(T value, int by, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::shuffle(tilewise_host::Shuffle::up, value, unsigned(by), lanes, at);
#else
  return __shfl_up_sync(lanes, value, by);
#endif
}
template <class T>
DEVICE T shuffle_down(T value, int by, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::shuffle(tilewise_host::Shuffle::down, value, unsigned(by), lanes, at);
#else
  return __shfl_down_sync(lanes, value, by);
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

// The number of this warp, which comes here whole, in its block; known to the compiler as the same in all lanes.
DEVICE int warp_number(SourceLine at = source_line()) { return shuffle(int(threadIdx.x) / 32, 0, kWholeWarp, at); }

// A bit for each of `lanes` that says yes.
DEVICE unsigned which_lanes(bool yes, unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("which_lanes", yes, lanes, at);
#else
  return __ballot_sync(lanes, yes);
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

// What these lanes wrote before, they all see after.
DEVICE void warp_barrier(unsigned lanes = kWholeWarp, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::warp_barrier(lanes, at);
#else
  __syncwarp(lanes);
#endif
}
