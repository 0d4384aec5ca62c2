// The warp operations of the kernel dialect (templates/warp.cuh) on the CPU. The lanes meet once
// per operation; the last to arrive performs it for all (see WarpCall). An operation that orders no
// memory on a GPU orders none here: the thread sanitizer must not see an access for another lane as
// the performing thread's own.
#pragma once

namespace tilewise_host {

inline bool among(unsigned lanes, unsigned lane) { return lane < 32 && (lanes >> lane & 1u) != 0; }

// How a shuffle computes its source lane.
enum class Shuffle { index, exclusive_or };
inline unsigned source_of(Shuffle kind, unsigned lane, unsigned by) {
  return kind == Shuffle::index ? by % 32 : lane ^ by % 32;
}
inline const char* name_of(Shuffle kind) {
  return kind == Shuffle::index ? "shuffle" : "shuffle_xor";
}

template <class T>
struct Shuffled {
  T value, result;
  unsigned from;
};
template <class T>
TILEWISE_FOR_ALL inline void shuffle_all(void* const* all, const WarpCall& call) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!among(call.lanes, lane)) continue;
    Shuffled<T>& mine = *static_cast<Shuffled<T>*>(all[lane]);
    if (among(call.lanes, mine.from))
      mine.result = static_cast<Shuffled<T>*>(all[mine.from])->value;
  }
}
template <class T>
inline T shuffle(Shuffle kind, T value, unsigned by, unsigned lanes, Site site) {
  Shuffled<T> mine{value, value, source_of(kind, thread().lane, by)};
  runtime->warp({site, name_of(kind), lanes, false, &mine, shuffle_all<T>});
  if (!among(lanes, mine.from))
    runtime->fault(site, "shuffles from a lane that does not take part; what it gets is undefined");
  return mine.result;
}

struct Vote {
  bool mine;
  unsigned all;
};
TILEWISE_FOR_ALL inline void vote_all(void* const* all, const WarpCall& call) {
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (among(call.lanes, lane)) votes |= unsigned(static_cast<Vote*>(all[lane])->mine) << lane;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (among(call.lanes, lane)) static_cast<Vote*>(all[lane])->all = votes;
}
inline unsigned vote(const char* name, bool mine, unsigned lanes, Site site) {
  Vote vote{mine, 0};
  runtime->warp({site, name, lanes, false, &vote, vote_all});
  return vote.all;
}

inline void warp_barrier(unsigned lanes, Site site) {
  runtime->warp({site, "warp_barrier", lanes, true, nullptr, [](void* const*, const WarpCall&) {}});
}

#ifdef TILEWISE_TAGGED
// The source line that loaded a fragment's word, by the word's address; see mma_on_cpu.hpp. Only
// for programs that run one block at a time.
struct Loaded {
  const void* word;
  Site site;
};
/// The word's entry in a hash table: the matching one, else the first free, else the last probed.
/// Stack addresses differ from run to run, so any two words may collide.
TILEWISE_FOR_ALL inline Loaded& loaded_entry(const void* word) {
  constexpr unsigned kEntries = 1 << 14, kTries = 64;
  static Loaded entries[kEntries];
  const unsigned long long address = reinterpret_cast<unsigned long long>(word) >> 2;
  const unsigned first = static_cast<unsigned>(address * 0x9E3779B97F4A7C15ull >> 50);
  unsigned at = first;
  for (unsigned i = 1; i < kTries && entries[at].word != word && entries[at].word; ++i)
    at = (first + i) % kEntries;
  return entries[at];
}
TILEWISE_FOR_ALL inline void was_loaded(const void* word, Site site) {
  loaded_entry(word) = {word, site};
}
TILEWISE_FOR_ALL inline Site loaded_at(const void* word) {
  const Loaded& entry = loaded_entry(word);
  return entry.word == word ? entry.site : Site{nullptr, 0};
}
#endif

// ldmatrix: lane 8 j + r has the address of row r of matrix j; load_matrices() documents the
// layout.
template <int Count>
struct LoadedMatrices {
  const unsigned short* row;
  unsigned result[Count];
  const unsigned short* taken[Count][2];
};
template <int Count, bool Transposed>
TILEWISE_FOR_ALL inline void load_matrices_all(void* const* all, const WarpCall&) {
  typedef LoadedMatrices<Count> Mine;
  for (int lane = 0; lane < 32; ++lane) {
    Mine& mine = *static_cast<Mine*>(all[lane]);
    for (int j = 0; j < Count; ++j) {
      mine.result[j] = 0;
      for (int e = 0; e < 2; ++e) {
        const int along = lane % 4 * 2 + e, across = lane / 4;
        const int row = Transposed ? along : across, column = Transposed ? across : along;
        mine.taken[j][e] = static_cast<Mine*>(all[j * 8 + row])->row + column;
        mine.result[j] |= unsigned(*mine.taken[j][e]) << 16 * e;
      }
    }
  }
}
// Each row must be 16 aligned bytes of the block's shared memory. Sanitizers see a lane's read of
// its whole row; the thread sanitizer also sees each lane's reads of its result.
template <int Count, bool Transposed>
inline __attribute__((always_inline)) void load_matrices(unsigned (&to)[Count], const void* row,
                                                         Site site) {
  LoadedMatrices<Count> mine;
  mine.row = static_cast<const unsigned short*>(row);
  if (thread().lane < Count * 8) {
    const char* begin = static_cast<const char*>(thread().block->shared);
    const char* at = static_cast<const char*>(row);
    if (reinterpret_cast<unsigned long long>(row) % 16 != 0)
      runtime->fault(site, "load_matrices takes a row that is not aligned to 16 bytes");
    if (at < begin || at + 16 > begin + thread().block->shared_bytes)
      runtime->fault(site, "load_matrices takes a row outside the block's shared memory");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    for (int e = 0; e < 8; ++e) (void)*static_cast<const volatile unsigned short*>(mine.row + e);
#endif
  }
  runtime->warp({site, Transposed ? "load_matrices transposed" : "load_matrices", ~0u, false, &mine,
                 load_matrices_all<Count, Transposed>});
#if defined(__SANITIZE_THREAD__)
  for (int j = 0; j < Count; ++j)
    for (int e = 0; e < 2; ++e)
      (void)*static_cast<const volatile unsigned short*>(mine.taken[j][e]);
#endif
  for (int j = 0; j < Count; ++j) to[j] = mine.result[j];
#ifdef TILEWISE_TAGGED
  for (int j = 0; j < Count; ++j) was_loaded(&to[j], site);
#endif
}

// stmatrix: the lane with a row's address writes that row, of words that other lanes hold.
template <int Count>
struct StoredMatrices {
  const unsigned* words;  // of the lane
  unsigned short row[8];
};
template <int Count, bool Transposed>
TILEWISE_FOR_ALL inline void store_matrices_all(void* const* all, const WarpCall&) {
  typedef StoredMatrices<Count> Mine;
  for (int lane = 0; lane < 8 * Count; ++lane) {
    for (int e = 0; e < 8; ++e) {
      const int along = Transposed ? lane % 8 : e, across = Transposed ? e : lane % 8;
      const unsigned word = static_cast<Mine*>(all[across * 4 + along / 2])->words[lane / 8];
      static_cast<Mine*>(all[lane])->row[e] = static_cast<unsigned short>(word >> along % 2 * 16);
    }
  }
}
template <int Count, bool Transposed>
inline __attribute__((always_inline)) void store_matrices(void* row, const unsigned (&from)[Count],
                                                          Site site) {
  StoredMatrices<Count> mine{from, {}};
  const bool stores = thread().lane < Count * 8;
  if (stores) {
    const char* begin = static_cast<const char*>(thread().block->shared);
    const char* at = static_cast<const char*>(row);
    if (reinterpret_cast<unsigned long long>(row) % 16 != 0)
      runtime->fault(site, "store_matrices takes a row that is not aligned to 16 bytes");
    if (at < begin || at + 16 > begin + thread().block->shared_bytes)
      runtime->fault(site, "store_matrices takes a row outside the block's shared memory");
  }
  runtime->warp({site, Transposed ? "store_matrices transposed" : "store_matrices", ~0u, false,
                 &mine, store_matrices_all<Count, Transposed>});
  if (!stores) return;
  for (int e = 0; e < 8; ++e) static_cast<unsigned short*>(row)[e] = mine.row[e];
}

inline float float_of_bits(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
inline unsigned bits_of_float(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

// f16: 1 sign, 5 exponent, 10 mantissa bits. The factor changes the exponent's bias from 15 to 127
// and also converts subnormals.
inline float float_of_f16(unsigned short half) {
  const unsigned rest = unsigned(half & 0x7fff) << 13, sign = unsigned(half & 0x8000) << 16;
  if (rest >= 0x0f800000u) return float_of_bits(sign | 0x7f800000u | rest);  // infinite or NaN
  return float_of_bits(sign | bits_of_float(float_of_bits(rest) * 0x1p112f));
}
// Rounds to nearest, ties to even. Below the normal numbers the addition of a large power of two
// rounds.
inline unsigned short f16_of_float(float value) {
  const unsigned bits = bits_of_float(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000u) return 0x7fff;          // NaN, as in PTX
  if (rest >= 0x477ff000u) return sign | 0x7c00;  // too large
  if (rest < 0x38800000u) return sign | (bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000u);
  return sign | (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
}
inline unsigned short bf16_of_float(float value) {
  const unsigned bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000u) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
// OCP's e5m2 (Fraction 2) is the upper byte of an f16; e4m3 (3) has no infinities, all ones is NaN.
template <int Fraction>
inline float float_of_fp8(unsigned char bits) {
  if (Fraction == 2) return float_of_f16(static_cast<unsigned short>(bits << 8));
  const unsigned rest = bits & 0x7f, sign = unsigned(bits & 0x80) << 24;
  if (rest == 0x7f) return float_of_bits(sign | 0x7fc00000u);
  return float_of_bits(sign | bits_of_float(float_of_bits(rest << 20) * 0x1p120f));
}
// Rounds to nearest, dropping 13 bits. Ties to even, or away from zero.
inline unsigned tf32_of_float(float value, bool to_even) {
  const unsigned bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000u) return 0x7fffffff;
  return (bits + (to_even ? 0xfff + (bits >> 13 & 1) : 0x1000)) & 0xffffe000u;
}

}  // namespace tilewise_host
