// tiles: a product whose operand tiles are loaded by TMA, for checking its wrappers: not tuned, not served.
//
// A block is 64 threads and computes 32 x 32 of C, 4 x 4 a thread. Tiles of A and B, 32 x 32 as stored, pass through a
// pipeline of STAGES stages: thread 0 issues the loads, a full barrier completes when the tile is loaded, an empty
// barrier when all threads have read it.
//
// Parameters: STAGES, SWIZZLE (0 or 128 bytes). From the problem: A_TRANSPOSED, B_TRANSPOSED.
#include "words/tma.cuh"

struct TilesArgs {
  TensorMap a, b;
  float* c;
  Int64 ldc;  // elements
  Int64 m, n, k;
  float alpha, beta;
};

constexpr int kTile = 32, kThreads = 64, kBytes = kTile * kTile * 4;

DEVICE float element(const char* tile, int outer, int inner) {
  return *reinterpret_cast<const float*>(tile + swizzled<SWIZZLE>((outer * kTile + inner) * 4));  //@ tiles-read
}

KERNEL(kThreads, 1) tiles(ARGUMENTS TilesArgs args) {
  char* shared = reinterpret_cast<char*>(shared_floats());
  Mbarrier* full = reinterpret_cast<Mbarrier*>(shared + STAGES * 2 * kBytes);
  Mbarrier* empty = full + STAGES;
  const int tiles_n = int((args.n + kTile - 1) / kTile), tiles_k = int((args.k + kTile - 1) / kTile);
  const int row0 = blockIdx.x / tiles_n * kTile, column0 = blockIdx.x % tiles_n * kTile;
  const int row = threadIdx.x / 8 * 4, column = threadIdx.x % 8 * 4;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(full + s, 1);
      mbarrier_init(empty + s, kThreads);
    }
    mbarriers_ready();
  }
  barrier();

  const auto start = [&](int t) {
    if (threadIdx.x != 0 || t >= tiles_k) return;
    const int s = t % STAGES, k = t * kTile;
    if (t >= STAGES) mbarrier_wait(empty + s, (t / STAGES - 1) % 2);  //@ tiles-empty-wait
    mbarrier_expect_tx(full + s, 2 * kBytes);  //@ tiles-expect-bytes
    load_tile(shared + s * 2 * kBytes, args.a, A_TRANSPOSED ? row0 : k, A_TRANSPOSED ? k : row0, full + s);  //@ tiles-load-a
    load_tile(shared + s * 2 * kBytes + kBytes, args.b, B_TRANSPOSED ? k : column0,
              B_TRANSPOSED ? column0 : k, full + s);
  };
  float sums[4][4] = {};
  for (int t = 0; t < STAGES - 1; ++t) start(t);
  for (int t = 0; t < tiles_k; ++t) {
    start(t + STAGES - 1);
    const int s = t % STAGES;
    mbarrier_wait(full + s, t / STAGES % 2);  //@ tiles-full-wait
    const char* a = shared + s * 2 * kBytes;
    const char* b = a + kBytes;  //@ tiles-stage-b
    for (int k = 0; k < kTile; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          sums[i][j] = multiply_add(A_TRANSPOSED ? element(a, k, row + i) : element(a, row + i, k),
                                    B_TRANSPOSED ? element(b, column + j, k) : element(b, k, column + j),
                                    sums[i][j]);
    fence_proxy_async();  //@ tiles-fence
    mbarrier_arrive(empty + s);  //@ tiles-empty-arrive
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      if (row0 + row + i >= args.m || column0 + column + j >= args.n) continue;
      float& c = args.c[(row0 + row + i) * args.ldc + column0 + column + j];
      const float product = args.alpha * sums[i][j];
      c = args.beta == 0.0f ? product : multiply_add(args.beta, c, product);
    }
}
