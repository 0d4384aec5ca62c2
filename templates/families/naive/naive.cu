// naive: one thread computes one element of C, straight from global memory. Any types.
//
// The first rung of the ladder. A block computes TILE_M x TILE_N elements of C. ACROSS 1: neighbouring threads compute
// neighbouring columns; a warp reads one element of A (a broadcast) and a run of B (coalesced: whole lines). ACROSS 0:
// they compute neighbouring rows, and the same arithmetic runs several times slower. Only coalescing differs.
//
// Parameters: TILE_M, TILE_N (block shape), ACROSS, UNROLL (of the loop over k).
// From the problem: types.cuh, BATCHED, A_TRANSPOSED, B_TRANSPOSED.
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"

static_assert(TILE_M * TILE_N <= 1024, "a block has at most 1024 threads");

KERNEL(TILE_M * TILE_N, 1) naive(ARGUMENTS MultiplyArgs args) {
  const WorkTile work_tile = work_tile_of_block(args, TILE_M, TILE_N);
  const int thread = threadIdx.x;
  const Int64 row = work_tile.tile.row + (ACROSS ? thread / TILE_N : thread % TILE_M);
  const Int64 column = work_tile.tile.column + (ACROSS ? thread % TILE_N : thread / TILE_M);
  if (row >= row_end_of(args, work_tile.tile) || column >= args.n) return;

  // Steps between neighbours along k.
  const Int64 step_a = A_TRANSPOSED ? args.lda : 1;
  const Int64 step_b = B_TRANSPOSED ? 1 : args.ldb;
  const Element* a = work_tile.a + (A_TRANSPOSED ? row : row * args.lda);
  Int64 first_b = B_TRANSPOSED ? column * args.ldb : column;

#if GROUPED_DEPTH
  const DepthRange steps = depth_of_product(args, work_tile.tile.batch);
  a += steps.begin * step_a;
  first_b += steps.begin * step_b;
#endif
  Sum sum = 0;
#if SCALES
  for (Int64 block = 0; block * kScaledSteps < args.steps(); ++block) {
    Sum part = 0;
    const Int64 product = work_tile.tile.batch;
#if ZERO_POINTS
    const Sum zero = ZeroOfB::widen(ZeroOfB::load(ZeroOfB::address(args.pointwise, product, column, block)));  //@ naive-zero
#else
    const Sum zero = 0;
#endif
    for (Int64 k = block * kScaledSteps; k < args.steps() && k < (block + 1) * kScaledSteps; ++k)
      part = multiply_add(widen(a[k * step_a]), nth_of_b(work_tile.b, first_b + k * step_b) - zero, part);
    const Sum scale = ScaleOfA::widen(ScaleOfA::load(ScaleOfA::address(args.pointwise, product, row, block))) *
                      ScaleOfB::widen(ScaleOfB::load(ScaleOfB::address(args.pointwise, product, column, block)));
    sum = multiply_add(part, scale, sum);  //@ naive-scales
  }
#else
  UNROLL_BY(UNROLL)
  for (Int64 k = 0; k < PRODUCT_STEPS(args, steps); ++k)
    sum = multiply_add(widen(a[k * step_a]), nth_of_b(work_tile.b, first_b + k * step_b), sum);
#endif

  Result* c = work_tile.c + row * args.ldc + column;
  blend(scalars_of(args), sum, c, place_of(work_tile.tile, row, column));
}
