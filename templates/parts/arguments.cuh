// The arguments of every multiply kernel, in the order of MultiplyPlan (plan/multiply_plan.cpp). BATCHED 1: a batch of
// several products, whose operands lie stride_a, stride_b and stride_c elements apart. POINTERS_A (POINTERS_B, POINTERS_C)
// 1: `a` is an array of pointers to them instead. GROUPED: the products have different numbers of rows, which only the
// device knows (parts/groups.cuh).
#pragma once
#include "parts/moduli.cuh"
#include "parts/pointwise.cuh"
#include "words/matrix_of.cuh"
#include "words/types.cuh"

#ifndef BATCHED
#define BATCHED 0
#endif
#ifndef POINTERS_A
#define POINTERS_A 0
#endif
#ifndef POINTERS_B
#define POINTERS_B 0
#endif
#ifndef POINTERS_C
#define POINTERS_C 0
#endif
// SPECIALIZE_SIZE 1: the sizes are constants, SIZE_M and so on.
#ifndef SPECIALIZE_SIZE
#define SPECIALIZE_SIZE 0
#endif

// Division by a number that the host knows, of a number below 2^31 (plan/divisor.hpp). Division by one that it does not
// know takes some 100 cycles, and a block divides before its first copy.
struct Divisor {
  unsigned multiplier, shift;
  DEVICE_MEMBER unsigned quotient(unsigned number) const {
    return static_cast<unsigned>(static_cast<UInt64>(number) * multiplier >> shift);
  }
};

// How C is cut into tiles (those of whole clusters), and their order: see parts/schedule.cuh.
struct TileOrder {
  int splits;                 // blocks that share the k of one tile
  unsigned tiles_m, tiles_n;
  unsigned group_m;           // tile rows of a group; the last group may have fewer
  Divisor by_tiles_of_product;  // GROUPED: by tiles_n, as is the next one
  Divisor by_tiles, by_tiles_of_group, by_group_m, by_last_group_m;
};

struct MultiplyArgs {
  const Element* a;
  const ElementB* b;
  Result* c;                // when SPLIT, the workspace of partial sums: Sum [batch][split][m][n]
  const Sum* alpha_device;  // null: `alpha` counts
  const Sum* beta_device;
  Int64 lda, ldb, ldc;  // elements
  Int64 stride_a, stride_b, stride_c;
  Int64 m, n, k;
  Int64 part_tiles;     // tiles of k of a part; the last part may be short or empty
  TileOrder order;
#if GROUPED || GROUPED_DEPTH
  const int* group_rows;
  Int64 groups;  // products
#endif
#if RESIDUES || OF_HALVES || CONDITIONAL
  ModuliArgs moduli;
#endif
  Sum alpha, beta;
#if POINTWISE
  PointwiseArgs pointwise;
#endif

  // The problem's sizes, and how it is cut. The argument k is 0 where alpha is 0: then neither A nor B may be read.
  // Where sizes are constants, has_product() tests that.
#if SPECIALIZE_SIZE
  DEVICE_MEMBER Int64 rows() const { return SIZE_M; }
  DEVICE_MEMBER Int64 columns() const { return SIZE_N; }
  DEVICE_MEMBER Int64 steps() const { return SIZE_K; }
  DEVICE_MEMBER int parts() const { return SPLITS; }
  DEVICE_MEMBER bool has_product() const { return k > 0; }
#else
  DEVICE_MEMBER Int64 rows() const { return m; }
  DEVICE_MEMBER Int64 columns() const { return n; }
  DEVICE_MEMBER Int64 steps() const { return k; }
  DEVICE_MEMBER int parts() const { return order.splits; }
  DEVICE_MEMBER bool has_product() const { return true; }
#endif
};

// Whether it is known at compile time that no tile of this many rows, columns or steps of k reaches past the edge.
#if SPECIALIZE_SIZE
constexpr bool known_whole_m(int tile) { return SIZE_M % tile == 0; }
constexpr bool known_whole_n(int tile) { return SIZE_N % tile == 0; }
constexpr bool known_whole_k(int tile) { return SIZE_K % tile == 0; }
#else
constexpr bool known_whole_m(int) { return false; }
constexpr bool known_whole_n(int) { return false; }
constexpr bool known_whole_k(int) { return false; }
#endif
