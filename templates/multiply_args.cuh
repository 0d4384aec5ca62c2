// What every multiply kernel takes: the same fields in the same order as multiply_arguments() in
// multiply_plan.cpp.
#pragma once
#include "dialect.cuh"

struct MultiplyArgs {
  const float* a;
  const float* b;
  float* c;  // or the workspace of partial sums when SPLIT
  const float* alpha_device;  // null: the value below counts
  const float* beta_device;
  Int64 lda, ldb, ldc;  // elements
  Int64 m, n, k;
  int raster;  // tile rows walked together, see tile_of_block()
  int splits;  // how many blocks share the k of one tile
  float alpha, beta;
};

struct Scalars {
  float alpha, beta;
};

DEVICE Scalars scalars_of(const MultiplyArgs& args) {
  return {args.alpha_device ? *args.alpha_device : args.alpha,
          args.beta_device ? *args.beta_device : args.beta};
}

// alpha x sum + beta x c with BLAS's meaning: alpha = 0 drops the product (even NaN), beta = 0 never
// reads c.
DEVICE float blend(const Scalars& s, float sum, const float* c) {
  const float product = s.alpha == 0.0f ? 0.0f : s.alpha * sum;
  return s.beta == 0.0f ? product : multiply_add(s.beta, *c, product);
}

// Which output tile is the index-th, as a block of the one-dimensional grid works on it. Tiles are walked in groups of
// `raster` tile rows, down each column of the group before going right, so that blocks running at the
// same time share operand tiles in L2. The grid is one-dimensional since its x alone may pass 65535.
struct Tile {
  Int64 row, column;  // of the tile's first element
  int split;
};

DEVICE Int64 tile_count(Int64 m, Int64 n, int tile_m, int tile_n) {
  return (m + tile_m - 1) / tile_m * ((n + tile_n - 1) / tile_n);
}

DEVICE Tile tile_at(Int64 m, Int64 n, int rows_together, unsigned index, int tile_m, int tile_n) {
  const unsigned tiles_m = static_cast<unsigned>((m + tile_m - 1) / tile_m);
  const unsigned tiles_n = static_cast<unsigned>((n + tile_n - 1) / tile_n);
  const unsigned split = index / (tiles_m * tiles_n);
  index -= split * tiles_m * tiles_n;
  const unsigned raster = static_cast<unsigned>(rows_together);
  const unsigned group = index / (raster * tiles_n);
  const unsigned first = group * raster;
  const unsigned rows = tiles_m - first < raster ? tiles_m - first : raster;
  const unsigned inside = index - first * tiles_n;
  return {static_cast<Int64>(first + inside % rows) * tile_m,
          static_cast<Int64>(inside / rows) * tile_n, static_cast<int>(split)};
}

DEVICE Tile tile_of_block(const MultiplyArgs& args, int tile_m, int tile_n) {
  return tile_at(args.m, args.n, args.raster, blockIdx.x, tile_m, tile_n);
}
