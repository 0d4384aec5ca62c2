// mma's tiles, by TMA, of operands whose rows are not aligned to 16 bytes, and how warps read fragments of them. For
// elements of 4 and 8 bytes. See mma.cu.
//
// TMA takes rows that begin at multiples of 16 bytes, and boxes that do. Of rows of any length every STRANDS-th are
// multiples of 16 bytes apart: together they are a strand, which has a tensor map of its own. The map begins at the
// aligned 16 bytes that hold the strand's first element, so that all of its rows lie equally many bytes behind the
// beginning of a box, early_bytes(). Boxes are 16 bytes wider than the tile, and warps read that much further on. Nothing
// is packed or shifted. What a box holds before a row is not read; behind a row's last element TMA writes zeros.
#pragma once
#include "families/mma/operand.cuh"

// One operand's tile: SPAN (of m or n) x TILE_K, held as it lies in memory, a strand after the other, in rows that are
// an odd multiple of 16 bytes apart.
template <int SPAN, bool ALONG_K>
struct Stranded {
  static constexpr tilewise::mma::TileLayout LAYOUT = {SPAN, TILE_K, kElementBytes, ALONG_K, kElementBytes, true};
  static constexpr int STRANDS = LAYOUT.strands(), MAPS = STRANDS;
  static constexpr int ROWS = LAYOUT.rows(), COLUMNS = ALONG_K ? TILE_K : SPAN;
  static constexpr int ROW_BYTES = LAYOUT.strand_row_bytes(), STRAND_BYTES = LAYOUT.strand_bytes();
  static constexpr int COMING_BYTES = ROWS * ROW_BYTES, HELD_BYTES = LAYOUT.held_bytes();
  static_assert(kElementBytes >= 4, "narrower elements cannot be read one by one");
  static_assert(ROWS % STRANDS == 0 && COLUMNS * kElementBytes % 32 == 0, "a tile is whole strands");
  static_assert(COLUMNS + 16 / kElementBytes <= 256, "a box has at most 256 elements a row");

  // By one thread: the tile from `span` of m or n and from k on, strand by strand.
  static DEVICE_MEMBER void ask(char* tile, const TensorMap* maps, int span, int k, TransferBarrier* barrier) {
    UNROLL_ALL
    for (int s = 0; s < STRANDS; ++s)
      load_tile(tile + s * STRAND_BYTES, maps[s], ALONG_K ? k : span, (ALONG_K ? span : k) / STRANDS, barrier);
  }
  // From where a strand's boxes begin to its rows' first elements.
  static DEVICE_MEMBER int early_bytes(const Element* matrix, Int64 ld, int strand) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(matrix + strand * ld) & 15);
  }
};

// As Reader in operand.cuh. Rows of an octet are of one strand where k is contiguous, neighbours in it for 4-byte
// elements, and for 8-byte ones, of which 16 lanes read at a time, two apart. Across k a lane's rows of k are of one
// strand; its columns are 4 apart, so that the strands' fill what is between.
template <int SPAN, bool ALONG_K, int OCTETS, bool IS_A>
struct Reader<Stranded<SPAN, ALONG_K>, OCTETS, IS_A> {
  typedef Stranded<SPAN, ALONG_K> Held;
  static constexpr int STRANDS = Held::STRANDS;
  static constexpr bool PAIRS = false, WIDE = kElementBytes == 8;
  static_assert(OCTETS % STRANDS == 0, "a warp's part is whole octets of every strand");

  static DEVICE_MEMBER int place(int u, int group) {
    if constexpr (ALONG_K)
      return (u / STRANDS * 8 + (WIDE ? group % 4 * 2 + group / 4 : group)) * STRANDS + u % STRANDS;
    return u / STRANDS * 8 * STRANDS + (WIDE ? group % 4 * 4 + group / 4 + u % 2 * 2 : group * 4 + u % 4);
  }

  int offsets[ALONG_K ? STRANDS : 1];  // of the first step of k: of each strand's octets, or of all

  DEVICE_MEMBER Reader(int first, int lane, const Element* matrix, Int64 ld) {
    const int group = lane / 4, in_group = lane % 4;
    if constexpr (ALONG_K) {
      UNROLL_ALL
      for (int s = 0; s < STRANDS; ++s)
        offsets[s] = s * Held::STRAND_BYTES + (first + place(0, group)) / STRANDS * Held::ROW_BYTES +
                     in_group * kElementBytes + Held::early_bytes(matrix, ld, s);  //@ mma-row-class-along-k
    } else {
      const int strand = in_group % STRANDS;
      offsets[0] = strand * Held::STRAND_BYTES + in_group / STRANDS * Held::ROW_BYTES +
                   (first + place(0, group)) * kElementBytes + Held::early_bytes(matrix, ld, strand);  //@ mma-row-class-across-k
    }
  }

  template <class Put>
  DEVICE_MEMBER void read(const char* tile, int step, const Put& put) const {
    UNROLL_ALL
    for (int u = 0; u < OCTETS; ++u) {
      UNROLL_ALL
      for (int c = 0; c < 2; ++c) {
        const int k = step * Op::K + c * 4;
        const char* at = ALONG_K ? tile + offsets[ALONG_K ? u % STRANDS : 0] + u / STRANDS * 8 * Held::ROW_BYTES +
                                       k * kElementBytes
                                 : tile + offsets[0] + k / STRANDS * Held::ROW_BYTES + place(u, 0) * kElementBytes;
        put(u, c, *reinterpret_cast<const Word*>(at));
      }
    }
  }
};
