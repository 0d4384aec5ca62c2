// reduce: adds the partial sums of a split k, always in the same order, and blends with C.
//
// partial is [splits][m][n], tightly packed. A block has 256 threads in ROWS rows (1, 2, 4, 8), a thread
// of each row for every element: row r takes splits r, r + ROWS, ..., and the rows' sums are added in
// the order of the rows. Many splits of a small C need rows, or few threads would wait long.
#include "dialect.cuh"

struct ReduceArgs {
  const float* partial;
  float* c;
  const float* alpha_device;
  const float* beta_device;
  Int64 ldc, m, n;
  int splits;
  float alpha, beta;
};

KERNEL(256, 1) reduce(ARGUMENTS ReduceArgs args) {
  constexpr int ELEMENTS = 256 / ROWS;
  float* sums = shared_floats();  // [ROWS][ELEMENTS]
  const int lane = threadIdx.x % ELEMENTS, row = threadIdx.x / ELEMENTS;
  const Int64 elements = args.m * args.n;
  const Int64 element = static_cast<Int64>(blockIdx.x) * ELEMENTS + lane;
  const float* from = args.partial + (element < elements ? element : 0);
  float sum = 0.0f;
  previous_step_done();
  UNROLL_BY(4)
  for (int split = row; split < args.splits; split += ROWS) sum += from[split * elements];
  if (ROWS > 1) {
    sums[row * ELEMENTS + lane] = sum;
    barrier();
  }
  if (row > 0 || element >= elements) return;
  UNROLL_ALL
  for (int r = 1; r < ROWS; ++r) sum += sums[r * ELEMENTS + lane];
  const float alpha = args.alpha_device ? *args.alpha_device : args.alpha;
  const float beta = args.beta_device ? *args.beta_device : args.beta;
  float* c = args.c + element / args.n * args.ldc + element % args.n;
  const float product = alpha == 0.0f ? 0.0f : alpha * sum;
  *c = beta == 0.0f ? product : multiply_add(beta, *c, product);
}
