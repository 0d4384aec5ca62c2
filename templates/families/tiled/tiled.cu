// tiled: square tiles of A and B are staged in shared memory, where each element is used TILE times. Any types.
//
//            TILE               A block computes TILE x TILE elements of C, a thread one. A thread loads one element of
//         +--------+            each tile, so global traffic is 1 / TILE of naive's.
//         |   B    | TILE
//         +--------+            READ_B, how B is read and staged:
//  +----+ +--------+            0 down columns: neighbouring threads read elements a whole row apart (uncoalesced);
//  | A  | |   C    |              staged without bank conflicts in the inner loop
//  +----+ +--------+            1 along rows (coalesced), staged transposed: the inner loop's threads read addresses
//   TILE                          TILE words apart, all in a few banks (bank conflicts)
//                               2 along rows, staged without bank conflicts
// Columns and rows are those of B as stored. A is always read coalesced.
//
// Parameters: TILE (8, 16, 32), READ_B, UNROLL (of the loop over the tile's k).
// Tiles are staged in the accumulator's type, so that an element is widened once, not TILE times.
// From the problem: types.cuh, BATCHED, A_TRANSPOSED, B_TRANSPOSED.
#include "families/tiled/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

static_assert(TILE * TILE <= 1024, "a block has at most 1024 threads");
static_assert(READ_B >= 0 && READ_B <= 2, "READ_B is 0 (down columns), 1 (conflicts) or 2");

constexpr int kStride = tilewise::tiled::row_stride(TILE);

// The place of B's element (k, n) of the tile in shared memory. READ_B 1 has unpadded rows on purpose.
DEVICE int place_b(int k, int n) { return READ_B == 1 ? n * TILE + k : k * kStride + n; }

KERNEL(TILE * TILE, 1) tiled(ARGUMENTS MultiplyArgs args) {
  Sum* tile_a = reinterpret_cast<Sum*>(shared_floats());  // [m][k], rows of kStride
  Sum* tile_b = tile_a + tilewise::tiled::tile_elements(TILE);  //@ tiled-shared-b

  const WorkTile work_tile = work_tile_of_block(args, TILE, TILE);
  const Tile tile = work_tile.tile;
  if constexpr (GROUPED != 0) {
    if (!tile.any()) return;
  }
  const int fast = threadIdx.x % TILE;  // differs between neighbouring threads
  const int slow = threadIdx.x / TILE;

  // The element of each tile that this thread loads: `fast` runs along memory, except for READ_B 0.
  const int a_m = A_TRANSPOSED ? fast : slow, a_k = A_TRANSPOSED ? slow : fast;
  const bool along_n = (B_TRANSPOSED == 0) == (READ_B != 0);
  const int b_k = along_n ? slow : fast, b_n = along_n ? fast : slow;
  const bool a_inside = tile.row + a_m < row_end_of(args, tile);  //@ tiled-row-edge-a
  const bool b_inside = tile.column + b_n < args.n;
  const Element* a = work_tile.a + (A_TRANSPOSED ? a_k * args.lda + tile.row + a_m
                                            : (tile.row + a_m) * args.lda + a_k);
  const Element* b = work_tile.b + (B_TRANSPOSED ? (tile.column + b_n) * args.ldb + b_k
                                            : b_k * args.ldb + tile.column + b_n);

#if GROUPED_DEPTH
  const DepthRange steps = depth_of_product(args, tile.batch);
  a += steps.begin * args.lda;
  b += steps.begin * args.ldb;
#endif
  Sum sum = 0;
  for (Int64 k0 = 0; k0 < PRODUCT_STEPS(args, steps); k0 += TILE) {
    // Elements outside the matrices are zeros, which add nothing.
    tile_a[a_m * kStride + a_k] = a_inside && k0 + a_k < PRODUCT_STEPS(args, steps) ? widen(*a) : Sum(0);  //@ tiled-store-a
    tile_b[place_b(b_k, b_n)] = b_inside && k0 + b_k < PRODUCT_STEPS(args, steps) ? widen(*b) : Sum(0);  //@ tiled-store-b
    barrier();  //@ tiled-barrier-after-stores
    UNROLL_BY(UNROLL)
    for (int k = 0; k < TILE; ++k)
      sum = multiply_add(tile_a[slow * kStride + k], tile_b[place_b(k, fast)], sum);  //@ tiled-multiply-add
    barrier();  //@ tiled-barrier-after-reads
    a += A_TRANSPOSED ? TILE * args.lda : TILE;
    b += B_TRANSPOSED ? TILE : TILE * args.ldb;
  }

  const Int64 row = tile.row + slow, column = tile.column + fast;
  if (row < row_end_of(args, tile) && column < args.n) {
    Result* c = work_tile.c + row * args.ldc + column;
    blend(scalars_of(args), sum, c, place_of(tile, row, column));
  }
}
