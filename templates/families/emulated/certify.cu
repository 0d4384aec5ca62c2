// certify: raises the number of moduli until the error of every element of C is within the bound, tau |A| |B|. A lower
// bound of |A| |B| is the product of 7-bit magnitudes (planes.cu).
//
// A rounded element of a row is off by half a unit, so that an element of C is off by
// (unit_a |b| + unit_b |a|) / 2 + k unit_a unit_b / 4, where |a| and |b| are the sums of the magnitudes of the row and the
// column; the reconstruction adds at most 2^-76 of the product of the norms, and the rounding of the result.
//
// OF_HALVES: the same with units that do not depend on a number of moduli. Where the bound does not hold, none serves.
//
// Constant: PARTS (1: k has several parts).
#include "families/emulated/operands.cuh"
#include "words/warp.cuh"

struct CertifyArgs {
  const int* magnitudes;  // products: [part][m][ld]
  const RowScale* rows;
  const RowScale* columns;
  Int64 m, first, n, ld;  // of C's columns: those from `first` on
  Int64 k;                // 0: there is no product
  int* needed;
  double tau;
  int parts;
};

constexpr int kTogether = tilewise::residues::kTogether, kDown = tilewise::residues::kDown;

#if OF_HALVES
// Whether the error of halves is within the bound. NaN: no. The unit is above the digits that are lost of small numbers; those
// of others are a part of the product, which the plan's bound leaves room for.
DEVICE bool within(const RowScale& row, const RowScale& column, float bound, float depth) {
  const float a = row.sum == 0 ? 0 : tilewise::residues::kHalfUnit, b = column.sum == 0 ? 0 : tilewise::residues::kHalfUnit;
  // The whole of k a b, not a quarter: the product of the rests is left out, too.
  const float rounded = 0.5f * (a * column.sum + b * row.sum) + a * b * depth;  //@ halves-rounded
  return rounded * (1 + 0x1p-8f) <= bound;
}
// The number of moduli that the element needs: `needed`, or more than there are.
DEVICE int needed_for(const RowScale& row, const RowScale& column, float bound, float depth, int needed) {
  return within(row, column, bound, depth) ? needed : tilewise::residues::kMost + 1;  //@ halves-within
}
#else
// Whether the error with a number of moduli is within the bound. NaN: no.
DEVICE bool within(const RowScale& row, const RowScale& column, float bound, float depth, const tilewise::residues::Scales& scales) {
  const float a = unit_of(row.norm, scales.fits), b = unit_of(column.norm, scales.fits);
  const float rounded = 0.5f * (a * scales.unit_a * column.sum + b * scales.unit_b * row.sum);  //@ residues-rounded
  return (rounded + a * b * (0.25f * depth * scales.together + 0x1p-76f)) * (1 + 0x1p-18f) <= bound;
}
// The number of moduli that the element needs, at least `needed`.
DEVICE int needed_for(const RowScale& row, const RowScale& column, float bound, float depth, int needed) {
  while (needed <= tilewise::residues::kMost && !within(row, column, bound, depth, scales_of(needed))) ++needed;  //@ residues-within
  return needed;
}
#endif

KERNEL(tilewise::residues::kThreads, 3) certify(ARGUMENTS CertifyArgs args) {
  grid_dependency_wait();
  launch_dependents();
  if (args.k == 0) return;
  const Int64 across = (args.n + kTogether - 1) / kTogether;
  const Int64 nth = Int64(blockIdx.x) * tilewise::residues::kThreads + threadIdx.x;
  const Int64 i = nth / across * kDown, j = nth % across * kTogether;
  const int before = raised_so_far(args.needed);  // by other blocks
  int needed = before;
  if (i < args.m) {
    RowScale columns[kTogether];
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) columns[e] = args.columns[args.first + (j + e < args.n ? j + e : j)];
    float sums[kDown][kTogether] = {};
    UNROLL_ALL
    for (int d = 0; d < kDown; ++d) {
      const int* from = args.magnitudes + (i + d < args.m ? i + d : i) * args.ld + j;
      for (int part = 0; part < (PARTS ? args.parts : 1); ++part) {
        int some[kTogether];
        load_vector<kTogether>(some, from + part * args.m * args.ld);
        UNROLL_ALL
        for (int e = 0; e < kTogether; ++e) sums[d][e] += float(some[e]);  //@ residues-lower-bound
      }
    }
    UNROLL_ALL
    for (int d = 0; d < kDown; ++d) {
      if (i + d >= args.m) break;
      const RowScale row = args.rows[i + d];
      UNROLL_ALL
      for (int e = 0; e < kTogether; ++e) {
        if (j + e >= args.n) continue;
        const float bound = float(args.tau) * (sums[d][e] * (row.magnitude * columns[e].magnitude));
        needed = needed_for(row, columns[e], bound, float(args.k), needed);
      }
    }
  }
  UNROLL_ALL
  for (int by = 16; by > 0; by /= 2) {
    const int other = shuffle_xor(needed, by);
    if (other > needed) needed = other;
  }
  if (threadIdx.x % 32 == 0 && needed > before) raise_to(args.needed, needed);
}
