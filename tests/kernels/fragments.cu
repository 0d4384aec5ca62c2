// fragments: a product through ldmatrix and mma.sync, for checking their wrappers: not tuned, not served.
//
// A block is two warps and computes 32 x 32 of C; a warp computes 32 x 16 as 2 x 2 instruction tiles. Tiles of A and B,
// 32 deep, lie in shared memory as stored, as 16-bit numbers in rows of 32 + 8. Row-major A and transposed B have their
// k contiguous: ldmatrix reads them directly. For the other two ldmatrix transposes.
//
// Parameters: BF16 (else f16), STEP (k of the instruction: 8 or 16), FLOATS (A and B are float in memory, rounded on
// loading; else 16-bit). From the problem: A_TRANSPOSED, B_TRANSPOSED.
#include "words/mma.cuh"

static_assert(STEP == 16 || (STEP == 8 && !BF16), "STEP is 16, or 8 with f16");

#if STEP == 8
typedef MmaF16K8 Mma;
#elif BF16
typedef MmaBf16 Mma;
#else
typedef MmaF16 Mma;
#endif

#if FLOATS
typedef float Element;
DEVICE unsigned short narrow(float value) {
#if BF16
  return bf16_of_float(value);
#else
  return f16_of_float(value);
#endif
}
#else
typedef unsigned short Element;
DEVICE unsigned short narrow(unsigned short value) { return value; }
#endif

struct FragmentsArgs {
  const Element* a;
  const Element* b;
  float* c;
  Int64 lda, ldb, ldc;  // elements
  Int64 m, n, k;
  float alpha, beta;
};

constexpr int kTile = 32, kThreads = 64, kRow = kTile + 8;
constexpr int kRows = 2, kColumns = 2;  // instructions per warp

// Stages a tile of a matrix as stored, from (row0, column0) on; zeros outside the matrix.
DEVICE void hold(unsigned short* tile, const Element* from, Int64 ld, Int64 row0, Int64 column0, Int64 rows,
                 Int64 columns) {
  for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
    const int row = i / kTile, column = i % kTile;
    const bool inside = row0 + row < rows && column0 + column < columns;
    tile[row * kRow + column] = inside ? narrow(from[(row0 + row) * ld + column0 + column]) : 0;
  }
}

// Matrix j of a fragment of A: rows 8 (j % 2) .., k 8 (j / 2) ..: the order of mma's operand words.
DEVICE void load_a(unsigned (&a)[Mma::A], const unsigned short* tile, int row, int k, int lane) {
#if A_TRANSPOSED
  load_matrices<Mma::A, true>(a, tile + (k + lane / 16 * (STEP - 8) + lane % 8) * kRow + row + lane / 8 % 2 * 8);
#else
  load_matrices<Mma::A>(a, tile + (row + lane % 16) * kRow + k + lane / 16 * (STEP - 8));  //@ fragments-load-a
#endif
}

// Both columns of instructions at once: matrix j is word j % words of column j / words.
DEVICE void load_b(unsigned (&b)[kColumns][Mma::B], const unsigned short* tile, int column, int k, int lane) {
  auto& words = reinterpret_cast<unsigned(&)[kColumns * Mma::B]>(b);
  const int matrix = lane / 8 % (kColumns * Mma::B), line = lane % 8;
  const int n = column + matrix / Mma::B * 8, part = k + matrix % Mma::B * 8;  //@ fragments-index-b
#if B_TRANSPOSED
  load_matrices<kColumns * Mma::B>(words, tile + (n + line) * kRow + part);
#else
  load_matrices<kColumns * Mma::B, true>(words, tile + (part + line) * kRow + n);  //@ fragments-load-b
#endif
}

KERNEL(kThreads, 1) fragments(ARGUMENTS FragmentsArgs args) {
  unsigned short* tile_a = reinterpret_cast<unsigned short*>(shared_floats());
  unsigned short* tile_b = tile_a + kTile * kRow;
  const int lane = threadIdx.x % 32, warp_column = threadIdx.x / 32 * 16;
  const Int64 tiles_n = (args.n + kTile - 1) / kTile;
  const Int64 row0 = blockIdx.x / tiles_n * kTile, column0 = blockIdx.x % tiles_n * kTile;

  float sums[kRows][kColumns][Mma::C] = {};
  for (Int64 k0 = 0; k0 < args.k; k0 += kTile) {
#if A_TRANSPOSED
    hold(tile_a, args.a, args.lda, k0, row0, args.k, args.m);
#else
    hold(tile_a, args.a, args.lda, row0, k0, args.m, args.k);
#endif
#if B_TRANSPOSED
    hold(tile_b, args.b, args.ldb, column0, k0, args.n, args.k);
#else
    hold(tile_b, args.b, args.ldb, k0, column0, args.k, args.n);
#endif
    barrier();
    UNROLL_ALL
    for (int k = 0; k < kTile; k += STEP) {
      unsigned a[kRows][Mma::A], b[kColumns][Mma::B];
      UNROLL_ALL
      for (int r = 0; r < kRows; ++r) load_a(a[r], tile_a, r * 16, k, lane);
      load_b(b, tile_b, warp_column, k, lane);
      multiply_blocks<Mma>(sums, a, b);  //@ fragments-multiply
    }
    barrier();
  }

  UNROLL_ALL
  for (int r = 0; r < kRows; ++r) {
    UNROLL_ALL
    for (int t = 0; t < kColumns * Mma::C; ++t) {
      const FragmentPlace place = c_place<Mma>(lane, t % Mma::C);
      const Int64 row = row0 + r * 16 + place.row;  //@ fragments-row-c
      const Int64 column = column0 + warp_column + t / Mma::C * 8 + place.column;
      if (row >= args.m || column >= args.n) continue;
      float& c = args.c[row * args.ldc + column];
      const float product = args.alpha * sums[r][t / Mma::C][t % Mma::C];
      c = args.beta == 0.0f ? product : multiply_add(args.beta, c, product);  //@ fragments-store-c
    }
  }
}
