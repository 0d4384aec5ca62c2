// staged: a product whose operand tiles are loaded by cp.async through a pipeline, for checking: not tuned, not served.
//
// A block is 64 threads and computes 32 x 32 of C, 4 x 4 a thread. Tiles of A and B are 32 x 16 and 16 x 32, staged as
// stored. A stage is refilled after the barrier that follows its last use.
//
// Parameter: STAGES. From the problem: A_TRANSPOSED, B_TRANSPOSED.
#define PREFETCH 3  // enables cp.async in dialect.cuh
#include "words/dialect.cuh"

struct StagedArgs {
  const float* a;
  const float* b;
  float* c;
  Int64 lda, ldb, ldc;  // elements
  Int64 m, n, k;
  float alpha, beta;
};

constexpr int kTile = 32, kDepth = 16, kThreads = 64, kElements = kTile * kDepth;

// Issues the load of a tile of rows x columns of a matrix as stored; zeros outside the matrix.
template <int Rows, int Columns>
DEVICE void start_tile(float* tile, const float* from, Int64 ld, Int64 row0, Int64 column0, Int64 rows,
                       Int64 columns) {
  for (int i = threadIdx.x; i < Rows * Columns; i += kThreads) {
    const Int64 row = row0 + i / Columns, column = column0 + i % Columns;
    const bool inside = row < rows && column < columns;
    copy_async<1>(tile + i, inside ? from + row * ld + column : from, inside ? 1 : 0);
  }
}

KERNEL(kThreads, 1) staged(ARGUMENTS StagedArgs args) {
  float* shared = shared_floats();
  const Int64 tiles_n = (args.n + kTile - 1) / kTile;
  const int tiles_k = int((args.k + kDepth - 1) / kDepth);
  const Int64 row0 = blockIdx.x / tiles_n * kTile, column0 = blockIdx.x % tiles_n * kTile;
  const int row = threadIdx.x / 8 * 4, column = threadIdx.x % 8 * 4;

  const auto start = [&](int t) {
    float* stage = shared + t % STAGES * 2 * kElements;
    const Int64 k = Int64(t) * kDepth;
    if (t < tiles_k) {
#if A_TRANSPOSED
      start_tile<kDepth, kTile>(stage, args.a, args.lda, k, row0, args.k, args.m);
#else
      start_tile<kTile, kDepth>(stage, args.a, args.lda, row0, k, args.m, args.k);
#endif
#if B_TRANSPOSED
      start_tile<kTile, kDepth>(stage + kElements, args.b, args.ldb, column0, k, args.n, args.k);
#else
      start_tile<kDepth, kTile>(stage + kElements, args.b, args.ldb, k, column0, args.k, args.n);
#endif
    }
    copies_commit();
  };
  float sums[4][4] = {};
  for (int t = 0; t < STAGES - 1; ++t) start(t);
  for (int t = 0; t < tiles_k; ++t) {
    copies_done<STAGES - 2>();  //@ staged-copy-wait
    barrier();  //@ staged-barrier
    start(t + STAGES - 1);  //@ staged-start-next
    const float* a = shared + t % STAGES * 2 * kElements;
    const float* b = a + kElements;
    for (int k = 0; k < kDepth; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          sums[i][j] = multiply_add(A_TRANSPOSED ? a[k * kTile + row + i] : a[(row + i) * kDepth + k],
                                    B_TRANSPOSED ? b[(column + j) * kDepth + k] : b[k * kTile + column + j],
                                    sums[i][j]);
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      if (row0 + row + i >= args.m || column0 + column + j >= args.n) continue;
      float& c = args.c[(row0 + row + i) * args.ldc + column0 + column + j];
      const float product = args.alpha * sums[i][j];
      c = args.beta == 0.0f ? product : multiply_add(args.beta, c, product);
    }
}
