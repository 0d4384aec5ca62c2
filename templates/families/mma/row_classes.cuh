// mma's tiles by TMA for operands whose rows are not aligned to 16 bytes, and how warps read fragments of them. For
// elements of 4 and 8 bytes. See mma.cu.
//
// TMA needs rows a multiple of 16 bytes apart, and boxes that begin at multiples of 16 bytes. In a matrix of any
// leading dimension, rows r, r + ROW_CLASSES, r + 2 ROW_CLASSES, ... are multiples of 16 bytes apart: they are a row
// class, with a tensor map of its own. The map's base is the aligned address at or before the row class's first
// element. All rows of the class then begin early_bytes() (0 to 15) bytes into their box row. Boxes are 16 bytes wider
// than the tile, and warps add early_bytes() to the addresses they read. No element is packed or realigned. The bytes
// of a box before a row are not read; behind a row's last element TMA writes zeros.
#pragma once
#include "families/mma/operand.cuh"

// One operand's tile, SPAN (of m or n) x TILE_K, staged as it lies in memory: one row class after the other, in rows
// that are an odd multiple of 16 bytes apart.
template <int SPAN, bool ALONG_K>
struct RowClasses {
  static constexpr tilewise::mma::TileLayout LAYOUT = {SPAN, TILE_K, kElementBytes, ALONG_K, kElementBytes, true};
  static constexpr int ROW_CLASSES = LAYOUT.row_classes(), MAPS = ROW_CLASSES;
  static constexpr int ROWS = LAYOUT.rows(), COLUMNS = ALONG_K ? TILE_K : SPAN;
  static constexpr int ROW_BYTES = LAYOUT.class_row_bytes(), CLASS_BYTES = LAYOUT.class_bytes();
  static constexpr int LOADED_BYTES = ROWS * ROW_BYTES, STAGED_BYTES = LAYOUT.staged_bytes();
  static_assert(kElementBytes >= 4, "narrower elements cannot be read one by one");
  static_assert(ROWS % ROW_CLASSES == 0 && COLUMNS * kElementBytes % 32 == 0, "a tile is whole row classes");
  static_assert(COLUMNS + 16 / kElementBytes <= 256, "a box has at most 256 elements a row");

  // Called by one thread: copies the tile from row (column) `span` and step k on, one box a row class.
  static DEVICE_MEMBER void issue_load(char* tile, const TensorMap* maps, int span, int k, Mbarrier* barrier) {
    UNROLL_ALL
    for (int s = 0; s < ROW_CLASSES; ++s)
      load_tile(tile + s * CLASS_BYTES, maps[s], ALONG_K ? k : span, (ALONG_K ? span : k) / ROW_CLASSES, barrier);  //@ mma-row-class-load
  }
  // Bytes from the beginning of a row class's box rows to the rows' first elements.
  static DEVICE_MEMBER int early_bytes(const Element* matrix, Int64 ld, int row_class) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(matrix + row_class * ld) & 15);
  }
};

// As Reader in operand.cuh. k contiguous: the rows of a row group are of one row class. 4-byte elements: neighbouring
// rows of the class; 8-byte elements, where 16 lanes read at a time: rows two apart. k not contiguous: a lane's rows of
// k are of one row class, and its columns are 4 apart.
template <int SPAN, bool ALONG_K, int ROW_GROUPS, bool IS_A>
struct Reader<RowClasses<SPAN, ALONG_K>, ROW_GROUPS, IS_A> {
  typedef RowClasses<SPAN, ALONG_K> Tile;
  static constexpr int ROW_CLASSES = Tile::ROW_CLASSES;
  static constexpr bool PAIRS = false, WIDE = kElementBytes == 8;
  static_assert(ROW_GROUPS % ROW_CLASSES == 0, "a warp's part is whole row groups of every row class");

  static DEVICE_MEMBER int place(int u, int group) {
    if constexpr (ALONG_K)
      return (u / ROW_CLASSES * 8 + (WIDE ? group % 4 * 2 + group / 4 : group)) * ROW_CLASSES + u % ROW_CLASSES;
    return u / ROW_CLASSES * 8 * ROW_CLASSES + (WIDE ? group % 4 * 4 + group / 4 + u % 2 * 2 : group * 4 + u % 4);
  }

  int offsets[ALONG_K ? ROW_CLASSES : 1];  // bytes, in the first step of k; k contiguous: one for each row class

  DEVICE_MEMBER Reader(int first, int lane, const Element* matrix, Int64 ld) {
    const int group = lane / 4, in_group = lane % 4;
    if constexpr (ALONG_K) {
      UNROLL_ALL
      for (int s = 0; s < ROW_CLASSES; ++s)
        offsets[s] = s * Tile::CLASS_BYTES + (first + place(0, group)) / ROW_CLASSES * Tile::ROW_BYTES +
                     in_group * kElementBytes + Tile::early_bytes(matrix, ld, s);  //@ mma-row-class-along-k
    } else {
      const int row_class = in_group % ROW_CLASSES;
      offsets[0] = row_class * Tile::CLASS_BYTES + in_group / ROW_CLASSES * Tile::ROW_BYTES +
                   (first + place(0, group)) * kElementBytes + Tile::early_bytes(matrix, ld, row_class);  //@ mma-row-class-across-k
    }
  }

  template <class Put>
  DEVICE_MEMBER void read(const char* tile, int step, const Put& put) const {
    UNROLL_ALL
    for (int u = 0; u < ROW_GROUPS; ++u) {
      UNROLL_ALL
      for (int c = 0; c < 2; ++c) {
        const int k = step * Op::K + c * 4;
        const char* at = ALONG_K ? tile + offsets[ALONG_K ? u % ROW_CLASSES : 0] + u / ROW_CLASSES * 8 * Tile::ROW_BYTES +
                                       k * kElementBytes
                                 : tile + offsets[0] + k / ROW_CLASSES * Tile::ROW_BYTES + place(u, 0) * kElementBytes;
        put(u, c, *reinterpret_cast<const Word*>(at));  //@ mma-row-class-read
      }
    }
  }
};
