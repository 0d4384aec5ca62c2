// The arguments of every multiply kernel, in the order of MultiplyPlan (plan/multiply_plan.cpp). BATCHED: there are
// several products, whose operands lie `stride` elements apart.
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

  // 0 where k is below 2^32, which no compiler knows: see transfer_arrive_of_warp() of mbarrier.cuh.
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

// Whether no tile of this many rows, columns or steps of k reaches past the edge, as far as the compiler can tell.
#if BAKE
constexpr bool known_whole_m(int tile) { return BAKED_M % tile == 0; }
constexpr bool known_whole_n(int tile) { return BAKED_N % tile == 0; }
constexpr bool known_whole_k(int tile) { return BAKED_K % tile == 0; }
#else
constexpr bool known_whole_m(int) { return false; }
constexpr bool known_whole_n(int) { return false; }
constexpr bool known_whole_k(int) { return false; }
#endif
