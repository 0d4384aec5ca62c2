// What every multiply kernel takes: the same fields in the same order as multiply_arguments() in
// multiply_plan.cpp. BATCHED: there are several products, whose operands lie `stride` elements apart.
#pragma once
#include "words/types.cuh"

#ifndef BATCHED
#define BATCHED 0
#endif
// The sizes are constants, BAKED_M and so on.
#ifndef BAKE
#define BAKE 0
#endif

struct MultiplyArgs {
  const Element* a;
  const Element* b;
  Result* c;                // or the workspace of partial sums, [batch][split][m][n] of Sum, when SPLIT
  const Sum* alpha_device;  // null: the value below counts
  const Sum* beta_device;
  Int64 lda, ldb, ldc;  // elements
  Int64 stride_a, stride_b, stride_c;
  Int64 m, n, k;
  int raster;  // tile rows walked together, see tile_at()
  int splits;  // how many blocks share the k of one tile
  Sum alpha, beta;

  // 0 where k is below 2^32, which no compiler knows: see transfer_arrive_of_warp() of tma.cuh.
  DEVICE_MEMBER unsigned unknown_zero() const { return static_cast<unsigned>(k >> 32); }

  // The problem's sizes, and how it is cut. Where they are baked in, the call's k still says whether
  // there is a product: it is 0 when alpha is, and then neither A nor B may be touched.
#if BAKE
  DEVICE_MEMBER Int64 rows() const { return BAKED_M; }
  DEVICE_MEMBER Int64 columns() const { return BAKED_N; }
  DEVICE_MEMBER Int64 steps() const { return BAKED_K; }
  DEVICE_MEMBER int parts() const { return BAKED_SPLITS; }
  DEVICE_MEMBER int rows_together() const { return BAKED_RASTER; }
  DEVICE_MEMBER bool has_product() const { return k > 0; }
#else
  DEVICE_MEMBER Int64 rows() const { return m; }
  DEVICE_MEMBER Int64 columns() const { return n; }
  DEVICE_MEMBER Int64 steps() const { return k; }
  DEVICE_MEMBER int parts() const { return splits; }
  DEVICE_MEMBER int rows_together() const { return raster; }
  DEVICE_MEMBER bool has_product() const { return true; }
#endif
};

// Whether it is known now that no tile reaches past an edge along m, n, k.
#if BAKE
constexpr bool kWholeM = BAKED_M % TILE_M == 0, kWholeN = BAKED_N % TILE_N == 0,
               kWholeK = BAKED_K % TILE_K == 0;
#else
constexpr bool kWholeM = false, kWholeN = false, kWholeK = false;
#endif

struct Scalars {
  Sum alpha, beta;
};

// Of anything with those four fields.
template <class Arguments>
DEVICE Scalars scalars_of(const Arguments& args) {
  return {args.alpha_device ? *args.alpha_device : args.alpha,
          args.beta_device ? *args.beta_device : args.beta};
}

// alpha x sum + beta x c, rounded once to C's type, with BLAS's meaning: alpha = 0 drops the product (even NaN),
// beta = 0 never reads c.
DEVICE Sum scaled(const Scalars& s, Sum sum) { return s.alpha == Sum(0) ? Sum(0) : product(s.alpha, sum); }
DEVICE Result blend(const Scalars& s, Sum sum, const Result* c) {
  const Sum of_sum = scaled(s, sum);
  const Sum blended =
      s.beta == Sum(0) ? of_sum : multiply_add(s.beta, Number<RESULT>::widen(*c), of_sum);
  return Number<RESULT>::narrow(blended);
}
// The same in place for those from `begin` to end - 1 of COUNT neighbours, aligned to all of them if that is all. They
// ask for beta together: code that asks for each is several times as large, and takes as much longer to compile.
template <int COUNT>
DEVICE void blend_part(const Scalars& s, const Sum (&sums)[COUNT], Result* c, int begin, int end) {
  Sum blended[COUNT];
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) blended[e] = scaled(s, sums[e]);
  Result results[COUNT];
  if (s.beta != Sum(0)) {
    load_part<COUNT>(results, c, begin, end);
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e)
      blended[e] = multiply_add(s.beta, Number<RESULT>::widen(results[e]), blended[e]);
  }
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) results[e] = Number<RESULT>::narrow(blended[e]);
  store_part<COUNT>(c, results, begin, end);
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

// What a block does: a tile of C of one product, or its part of k of it. Every multiply kernel asks this first.
// A block's number is tile + tiles x (split + splits x batch).
struct Task {
  Tile tile;
  const Element* a;  // the product's operands
  const Element* b;
  Result* c;
  Sum* partial;  // [m][n], this split's sums: instead of c when SPLIT
};

DEVICE Task task_of_block(const MultiplyArgs& args, int tile_m, int tile_n) {
  unsigned index = blockIdx.x;
  Int64 batch = 0;
#if BATCHED
  const unsigned blocks = // of one product
      static_cast<unsigned>(tile_count(args.rows(), args.columns(), tile_m, tile_n)) * unsigned(args.parts());
  batch = index / blocks;
  index %= blocks;
#endif
  const Tile tile = tile_at(args.rows(), args.columns(), args.rows_together(), index, tile_m, tile_n);
  return {tile, args.a + batch * args.stride_a, args.b + batch * args.stride_b,
          args.c + batch * args.stride_c,
          reinterpret_cast<Sum*>(args.c) + (batch * args.parts() + tile.split) * args.rows() * args.columns()};
}
