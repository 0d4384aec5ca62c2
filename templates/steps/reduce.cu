// reduce: adds the partial sums of a split k, always in the same order, and blends with C.
//
// partial is [splits][m][n], tightly packed. One thread an element.
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
  const Int64 element = static_cast<Int64>(blockIdx.x) * 256 + threadIdx.x;
  if (element >= args.m * args.n) return;
  float sum = 0.0f;
  for (int split = 0; split < args.splits; ++split)
    sum += args.partial[split * args.m * args.n + element];
  const float alpha = args.alpha_device ? *args.alpha_device : args.alpha;
  const float beta = args.beta_device ? *args.beta_device : args.beta;
  float* c = args.c + element / args.n * args.ldc + element % args.n;
  const float product = alpha == 0.0f ? 0.0f : alpha * sum;
  *c = beta == 0.0f ? product : multiply_add(beta, *c, product);
}
