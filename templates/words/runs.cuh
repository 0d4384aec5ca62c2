// Runs: 16 bytes of a matrix's row, as four words, at any address aligned to an element. A run that is not aligned to
// words is read as the aligned words around it, which are shifted. No byte outside the row is read, except by
// read_chunk(), which reads a whole aligned 16-byte chunk, and read_aligned_run(), which reads a chunk's bytes before
// the row.
#pragma once
#include "words/types.cuh"

// The low 32 bits of `high`:`low` shifted right by `bits` (0, 8, 16 or 24).
DEVICE unsigned shift_words(unsigned low, unsigned high, int bits) {
#ifdef TILEWISE_HOST
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32) | low) >> bits);
#else
  return __funnelshift_r(low, high, bits);
#endif
}

// Four of the bytes x0 x1 x2 x3 y0 y1 y2 y3. The hexadecimal digits of `pick` are their indices; the last digit selects
// the lowest byte.
DEVICE unsigned pick_bytes(unsigned x, unsigned y, unsigned pick) {
#ifdef TILEWISE_HOST
  const unsigned long long all = (static_cast<unsigned long long>(y) << 32) | x;
  unsigned picked = 0;
  for (int b = 0; b < 4; ++b) picked |= unsigned(all >> 8 * (pick >> 4 * b & 7) & 255) << 8 * b;
  return picked;
#else
  return __byte_perm(x, y, pick);
#endif
}

// Transposes 4 x 4 bytes: to[j] is byte j of each of `from`.
DEVICE void transpose_bytes(unsigned (&to)[4], const unsigned (&from)[4]) {
  const unsigned low01 = pick_bytes(from[0], from[1], 0x5140), low23 = pick_bytes(from[2], from[3], 0x5140);
  const unsigned high01 = pick_bytes(from[0], from[1], 0x7362), high23 = pick_bytes(from[2], from[3], 0x7362);
  to[0] = pick_bytes(low01, low23, 0x5410), to[1] = pick_bytes(low01, low23, 0x7632);  //@ transpose-bytes-low
  to[2] = pick_bytes(high01, high23, 0x5410), to[3] = pick_bytes(high01, high23, 0x7632);
}

// Realigns: RUNS + 1 neighbouring chunks become the RUNS runs that begin `bytes` (0 to 15) into the first.
template <int RUNS>
DEVICE void shift_runs(unsigned (&runs)[RUNS + 1][4], int bytes) {
  constexpr int WORDS = 4 * RUNS;
  UNROLL_ALL
  for (int w = 0; w < WORDS + 2; ++w)
    runs[w / 4][w % 4] = bytes & 8 ? runs[(w + 2) / 4][(w + 2) % 4] : runs[w / 4][w % 4];
  UNROLL_ALL
  for (int w = 0; w < WORDS + 1; ++w)
    runs[w / 4][w % 4] = bytes & 4 ? runs[(w + 1) / 4][(w + 1) % 4] : runs[w / 4][w % 4];
  UNROLL_ALL
  for (int w = 0; w < WORDS; ++w)
    runs[w / 4][w % 4] = shift_words(runs[w / 4][w % 4], runs[(w + 1) / 4][(w + 1) % 4], (bytes & 3) * 8);  //@ realign-bits
}

// The bytes inside a row, counted from a given address: begin to end - 1.
struct Inside {
  int begin, end;
};

// The word `first` bytes after `at`, read element by element; elements that are not inside are zero.
template <int BYTES>
DEVICE unsigned read_elements(const char* at, int first, const Inside& inside) {
  unsigned word = 0;
  UNROLL_ALL
  for (int b = 0; b < 4; b += BYTES) {
    const bool there = (first + b >= inside.begin) & (first + b < inside.end);
    const auto* element = reinterpret_cast<const typename Carrier<BYTES>::Type*>(at + first + b);
    word |= (there ? unsigned(*element) : 0u) << 8 * b;
  }
  return word;
}

// COUNT words from `at` on, with zeros outside. Only the first and one later word may be partly outside. There is no
// branch, so that the loads of many rows are in flight at once.
template <int BYTES, int COUNT>
DEVICE void read_words(unsigned (&to)[COUNT], const char* at, const Inside& inside) {
  UNROLL_ALL
  for (int w = 0; w < COUNT; ++w) {
    const bool there = (4 * w >= inside.begin) & (4 * w + 4 <= inside.end);
    to[w] = there ? reinterpret_cast<const unsigned*>(at)[w] : 0u;
  }
  if constexpr (BYTES < 4) {
    const int last = inside.end & ~3;
    const unsigned last_elements = read_elements<BYTES>(at, last, inside);
    to[0] |= read_elements<BYTES>(at, 0, {inside.begin, inside.begin > 0 ? inside.end : 0});
    UNROLL_ALL
    for (int w = 0; w < COUNT; ++w) to[w] |= last == 4 * w ? last_elements : 0u;
  }
}

// Loads an aligned chunk that lies between an operand's first byte and its last. Only its bytes `wanted` are used. A GPU
// reads the whole chunk: the other bytes are of neighbouring rows or between rows.
template <int BYTES>
DEVICE void read_chunk(unsigned (&to)[4], const char* at, [[maybe_unused]] const Inside& wanted) {
#ifdef TILEWISE_HOST
  for (int w = 0; w < 4; ++w) {
    if constexpr (BYTES < 4)
      to[w] = read_elements<BYTES>(at, 4 * w, wanted);
    else
      to[w] = 4 * w >= wanted.begin && 4 * w + 4 <= wanted.end ? reinterpret_cast<const unsigned*>(at)[w] : 0u;
  }
#else
  load_vector<4>(to, reinterpret_cast<const unsigned*>(at));
#endif
}

// An aligned chunk, with zeros from inside.end on. Bytes before inside.begin are not used.
template <int BYTES>
DEVICE void read_aligned_run(unsigned (&to)[4], const char* at, const Inside& inside) {
#ifdef TILEWISE_HOST
  read_chunk<BYTES>(to, at, inside);
#else
  if (inside.end == 16)
    load_vector<4>(to, reinterpret_cast<const unsigned*>(at));
  else
    read_words<BYTES>(to, at, {0, inside.end});
#endif
}

// The run that begins `offset` bytes into a row of `bytes` bytes, with zeros outside the row. BYTES: of an element.
// ALIGNED: the run's address is a multiple of it. WHOLE: the run is inside the row, and ALIGNED is at least 4.
template <int BYTES, int ALIGNED, bool WHOLE>
DEVICE void read_run(unsigned (&to)[4], const char* row, Int64 bytes, Int64 offset) {
  const char* at = row + offset;
  const int left = offset >= bytes ? 0 : (bytes - offset < 32 ? static_cast<int>(bytes - offset) : 32);
  static_assert(ALIGNED >= 4 || !WHOLE, "whole runs are read by words");
  if constexpr (WHOLE) {
    constexpr int WORDS = ALIGNED / 4;
    UNROLL_ALL
    for (int w = 0; w < 4; w += WORDS) {
      unsigned words[WORDS];
      load_vector<WORDS>(words, reinterpret_cast<const unsigned*>(at) + w);
      UNROLL_ALL
      for (int i = 0; i < WORDS; ++i) to[w + i] = words[i];
    }
  } else if constexpr (ALIGNED >= 4) {
    read_words<BYTES>(to, at, {0, left});
  } else {
    const int before = static_cast<int>(reinterpret_cast<unsigned long long>(at) & 3);
    unsigned words[5];
    read_words<BYTES>(words, at - before, {offset > 0 && left > 0 ? 0 : before, before + left});
    UNROLL_ALL
    for (int w = 0; w < 4; ++w) to[w] = shift_words(words[w], words[w + 1], 8 * before);
  }
}
