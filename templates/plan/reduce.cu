// reduce: adds the partial sums of a split k, in a fixed order, and blends the result with C.
//
// partial is [batch][splits][m][n], without gaps. A block has 256 threads in ROWS rows (1, 2, 4, 8), and 256 / ROWS
// elements of C, for each of them a thread in every row. Row r adds splits r, r + ROWS, ...; the rows' sums are then
// added in the order of the rows, through shared memory. Several rows keep more loads in flight where C is small and
// has many splits.
#include "parts/epilogue.cuh"
#include "plan/steps_layout.hpp"

struct ReduceArgs {
  const Sum* partial;
  Result* c;
  const Sum* alpha_device;
  const Sum* beta_device;
  Int64 ldc, stride_c, m, n;
  int splits;
  Sum alpha, beta;
#if POINTWISE
  PointwiseArgs pointwise;
#endif
};

KERNEL(tilewise::ReduceLayout::kThreads, 1) reduce(ARGUMENTS ReduceArgs args) {
  constexpr int ELEMENTS = tilewise::ReduceLayout{ROWS}.elements();
  Sum* sums = reinterpret_cast<Sum*>(shared_floats());  // [ROWS][ELEMENTS]
  const int lane = threadIdx.x % ELEMENTS, row = threadIdx.x / ELEMENTS;
  const Int64 elements = args.m * args.n;
  Int64 block = blockIdx.x, batch = 0;
#if BATCHED
  const unsigned blocks = static_cast<unsigned>((elements + ELEMENTS - 1) / ELEMENTS);
  batch = blockIdx.x / blocks;
  block = blockIdx.x % blocks;
#endif
  const Int64 element = block * ELEMENTS + lane;
  const Sum* from =
      args.partial + batch * args.splits * elements + (element < elements ? element : 0);
  // Before grid_dependency_wait(), so that these divisions overlap the previous step.
  Result* c = matrix_of<POINTERS_C != 0>(args.c, args.stride_c, batch) + element / args.n * args.ldc + element % args.n;
  Sum sum = 0;
  grid_dependency_wait();
  UNROLL_BY(8)
  for (int split = row; split < args.splits; split += ROWS) sum = add(sum, from[split * elements]);
  if (ROWS > 1) {
    sums[row * ELEMENTS + lane] = sum;
    barrier();
  }
  if (row > 0 || element >= elements) return;
  UNROLL_ALL
  for (int r = 1; r < ROWS; ++r) sum = add(sum, sums[r * ELEMENTS + lane]);
  blend(scalars_of(args), sum, c, {element / args.n, element % args.n, batch});
}
