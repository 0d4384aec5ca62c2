// Addresses of rows as simt counts them, and rows that may begin anywhere, on their way into shared
// memory. See simt_tiles.cuh.
#pragma once
#include "warp.cuh"

// The same address, of which the compiler no longer knows how it was found: what is counted from it
// comes by one addition, or by none where the distance is known. Else it keeps many addresses in
// registers, or finds each anew.
DEVICE const float* from_here(const float* at) {
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned long long address = __cvta_generic_to_global(at);
  asm("" : "+l"(address));
  return static_cast<const float*>(__cvta_global_to_generic(address));
#endif
}
DEVICE float* from_here_shared(float* at) {
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(at));
  asm("" : "+r"(address));
  return static_cast<float*>(__cvta_shared_to_generic(address));
#endif
}

// Rows of floats that may begin anywhere, on their way by cp.async: ROWS of INNER, STRIDE apart in
// shared memory. They come as the aligned 16-byte pieces that hold any of their floats, one more
// than a row has of its own, which goes into the padding behind it. The warp that brought a row
// then moves it to where it belongs: straighten(). Nothing else outside a row is read, and none of
// it is used.
//
// Rows r, r + 4, r + 8, ... of a matrix begin equally far into a piece, whatever their distance, in
// every tile. A warp takes such rows together: then how far they move is the same for all its
// lanes, and which register goes where is known to the compiler, for each of the three distances
// that there are.
//
// ROWS_END: rows from the rows_there-th on are not in the matrix, and others come in their place.
// Else none is copied.
template <int THREADS, int ROWS, int INNER, int STRIDE, bool ROWS_END>
struct ShiftedRows {
  static constexpr int PIECES = INNER / 4;  // of a row, beside the one behind it
  static constexpr int WARPS = THREADS / 32;
  // So many warps share every four rows; the kinds of rows that a warp takes, by their number
  // modulo 4.
  static constexpr int SHARING = WARPS % 4 == 0 ? 4 : (WARPS % 2 == 0 ? 2 : 1);
  static constexpr int KINDS = 4 / SHARING;
  // Of a kind a warp takes 32 / lanes rows at a time, and then those so much further down.
  static constexpr DEVICE_MEMBER int apart(int lanes) {
    return 4 * (WARPS / SHARING) * (32 / lanes);
  }
  // So many lanes share a row that each brings as few pieces as may be, and of those eight, for
  // whole lines: then a lane has several pieces of a row, for which it need not find addresses.
  static constexpr DEVICE_MEMBER int pieces_with(int lanes) {
    return PIECES / lanes * ((ROWS + apart(lanes) - 1) / apart(lanes));
  }
  static constexpr DEVICE_MEMBER int sharing_lanes() {
    const int choices[] = {8, 16, 32, 4, 2, 1};
    int best = 1;
    for (const int lanes : choices)
      if (PIECES % lanes == 0 && (best == 1 || pieces_with(lanes) < pieces_with(best)))
        best = lanes;
    return best;
  }
  static constexpr int LANES = sharing_lanes();
  static constexpr int REPEATS = PIECES / LANES;
  static constexpr int AT_A_TIME = 32 / LANES, APART = apart(LANES);
  static constexpr int COUNT = (ROWS + APART - 1) / APART;
  static constexpr bool EVEN = ROWS % APART == 0;
  static_assert(INNER % 4 == 0, "rows are whole pieces");
  static_assert(ROWS % 4 == 0 && STRIDE % 4 == 0 && STRIDE >= INNER + 4,
                "rows begin aligned, a piece apart");

  // Pieces behind rows: each lane brings those of rows of its own.
  static constexpr int BEHIND = (COUNT * AT_A_TIME + 31) / 32;

  int row, piece, row_behind;  // this lane's first
  const float* first[KINDS];   // aligned, in the next tile
  const float* behind[KINDS];
  int shift[KINDS];  // floats before the row in its first piece
  Int64 rows_apart;
  int rows_there;

  DEVICE_MEMBER ShiftedRows(const float* corner, Int64 ld, int rows_in_matrix)
      : rows_apart(APART * ld), rows_there(rows_in_matrix) {
    const int warp = int(threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int row_of_warp = warp / SHARING * AT_A_TIME * 4 + warp % SHARING;
    row = row_of_warp + lane / LANES * 4;
    piece = lane % LANES;
    row_behind = row_of_warp + lane % AT_A_TIME * 4 + lane / AT_A_TIME * APART;
    UNROLL_ALL
    for (int kind = 0; kind < KINDS; ++kind) {
      const int of_kind = kind * SHARING;
      const float* at = corner + (is_row(row_of_warp + of_kind) ? row_of_warp + of_kind : 0) * ld;
      shift[kind] = static_cast<int>(reinterpret_cast<unsigned long long>(at) / sizeof(float) & 3);
      at -= shift[kind];
      first[kind] = at + (is_row(row + of_kind) ? row - row_of_warp : 0) * ld + piece * 4;
      behind[kind] =
          at + (is_row(row_behind + of_kind) ? row_behind - row_of_warp : 0) * ld + INNER;
    }
  }
  DEVICE_MEMBER void advance(Int64 by) {
    UNROLL_ALL
    for (int kind = 0; kind < KINDS; ++kind) first[kind] += by, behind[kind] += by;
  }

  // Begins to bring a tile. Unless it is FULL, zeros for all but its first rows_left x inner_left.
  template <bool FULL>
  DEVICE_MEMBER void copy(float* tile, int rows_left, int inner_left) const {
    UNROLL_ALL
    for (int kind = 0; kind < KINDS; ++kind) {
      const int early = shift[kind];
      const auto inside = [&](int of_row) {  // floats from the first piece on
        return FULL ? early + INNER : (of_row < rows_left ? early + inner_left : 0);
      };
      const float* from = first[kind];
      float* to = from_here_shared(tile + (row + kind * SHARING) * STRIDE + piece * 4);
      UNROLL_ALL
      for (int j = 0; j < COUNT; ++j) {
        const int to_row = row + kind * SHARING + j * APART;
        if (!EVEN && to_row >= ROWS) continue;
        UNROLL_ALL
        for (int q = 0; q < REPEATS; ++q) {
          constexpr int FURTHER = LANES * 4;
          const int floats = FULL ? 4 : inside(to_row) - piece * 4 - q * FURTHER;
          copy_bytes_async<16>(to + j * APART * STRIDE + q * FURTHER, from + q * FURTHER,
                               floats * 4, q == 0 && piece == 0 ? early * 4 : 0);
        }
        if (is_row(to_row + APART)) from += rows_apart;
        from = from_here(from);
      }
      UNROLL_ALL
      for (int i = 0; i < BEHIND; ++i) {
        constexpr int FURTHER = 32 / AT_A_TIME;  // times APART
        const int to_row = row_behind + kind * SHARING + i * FURTHER * APART;
        if (early > 0 && to_row < ROWS && int(threadIdx.x) % 32 + i * 32 < COUNT * AT_A_TIME)
          copy_bytes_async<16>(tile + to_row * STRIDE + INNER,
                               behind[kind] + (is_row(to_row) ? i * FURTHER : 0) * rows_apart,
                               (inside(to_row) - INNER) * 4);
      }
    }
  }
  // Moves the rows that this warp brought, all of which are there.
  DEVICE_MEMBER void straighten(float* tile) const {
    warp_barrier();
    UNROLL_ALL
    for (int kind = 0; kind < KINDS; ++kind) {
      if (shift[kind] == 1)
        move<1>(tile, kind);
      else if (shift[kind] == 2)
        move<2>(tile, kind);
      else if (shift[kind] == 3)
        move<3>(tile, kind);
    }
  }

 private:
  DEVICE_MEMBER bool is_row(int of_tile) const { return !ROWS_END || of_tile < rows_there; }
  // Four floats, BY after an aligned address.
  template <int BY>
  static DEVICE_MEMBER void load_shifted(float (&to)[4], const float* at) {
    constexpr int PAIR = BY % 2;  // where a pair is aligned
    float pair[2];
    load_vector<2>(pair, at + PAIR);
    to[PAIR] = pair[0], to[PAIR + 1] = pair[1];
    if constexpr (PAIR == 0) {
      load_vector<2>(pair, at + 2);
      to[2] = pair[0], to[3] = pair[1];
    } else {
      to[0] = at[0], to[3] = at[3];
    }
  }
  template <int BY>
  DEVICE_MEMBER void move(float* tile, int kind) const {
    constexpr int TOGETHER = 4;  // in the order of a row: what comes later is not yet moved
    // By an address that the compiler knows nothing of: else it loads aligned vectors and moves
    // their parts.
    float* shifted = from_here_shared(tile + (row + kind * SHARING) * STRIDE + piece * 4 + BY);
    UNROLL_ALL
    for (int n0 = 0; n0 < COUNT * REPEATS; n0 += TOGETHER) {
      float moved[TOGETHER][4];
      const auto each = [&](const auto& use) {
        UNROLL_ALL
        for (int n = n0; n < n0 + TOGETHER && n < COUNT * REPEATS; ++n) {
          const int j = n / REPEATS, q = n % REPEATS;
          if (EVEN || row + kind * SHARING + j * APART < ROWS)
            use(moved[n - n0], shifted + j * APART * STRIDE + q * LANES * 4);
        }
      };
      each([](float(&to)[4], const float* at) { load_shifted<BY>(to, at); });
      warp_barrier();  // what a lane writes, another has read
      each([](const float(&values)[4], float* at) { store_vector<4>(at - BY, values); });
    }
  }
};
