// combine: C from the residues of its integers, or with OF_HALVES from sums of scaled rows and columns; alpha, beta and the
// epilogue. A thread takes neighbours of a row.
// Constants: VECTOR_C (elements of a store), PARTS (1: k has several parts), the types of C.
//
// The integer x of an element has |x| < P / 2, P the product of the moduli. It is the sum of w_l r_l less a multiple of P,
// w_l the weight of a modulus and r_l the residue (tilewise::residues::Weights): "Ozaki scheme II", Ozaki, Uchino and
// Imamura, 2025. Parts of k have residues of their own, which are added.
#include "families/emulated/operands.cuh"
#include "parts/epilogue.cuh"

#if OF_HALVES
typedef float Product;
#else
typedef signed char Product;
#endif

struct CombineArgs {
  const Product* products;  // [modulus][part][m][ld]; of halves [m][ld]
  const RowScale* rows;
  const RowScale* columns;
  Result* c;
  const Sum* alpha_device;
  const Sum* beta_device;
  Int64 ldc;
  Int64 m, first, n, ld;  // of C's columns: those from `first` on
  Int64 k;                // 0: sums are 0
  // Of products that this step serves, and of those that the native step does; null: not counted.
  unsigned long long* counts;
  ModuliArgs moduli;
  Sum alpha, beta;
#if POINTWISE
  PointwiseArgs pointwise;
#endif
};

constexpr int kTogether = tilewise::residues::kTogether, kDown = tilewise::residues::kDown;

#if OF_HALVES
// The sums of the elements of `down` rows, before rows and columns are scaled back.
DEVICE void sums_of(double (&sums)[kDown][kTogether], const CombineArgs& args, const float* from, int down, int) {
  UNROLL_ALL
  for (int d = 0; d < kDown; ++d) {
    float some[kTogether];
    load_vector<kTogether>(some, from + (d < down ? d : 0) * args.ld);
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) sums[d][e] = some[e];
  }
}
// The exponents of the units of a row of A and of a column of B.
struct UnitExponents {
  DEVICE_MEMBER UnitExponents(int) {}
  DEVICE_MEMBER int of_row(const RowScale& row) const { return unit_exponent(row); }
  DEVICE_MEMBER int of_column(const RowScale& column) const { return unit_exponent(column); }
};
#else
CONSTANTS tilewise::residues::Table<tilewise::residues::Weights, tilewise::residues::kMost - tilewise::residues::kLeast + 1>
    kWeights = tilewise::residues::weights_by_count();
CONSTANTS tilewise::residues::Table<tilewise::residues::Modulus, tilewise::residues::kMost> kModuli =
    tilewise::residues::all_moduli();

// The residues of sums of all parts of k plus 128, of neighbours.
DEVICE unsigned sum_of_parts(const CombineArgs& args, const signed char* from, int nth, Int64 matrix) {
  int sums[kTogether] = {};
  for (int part = 0; part < args.moduli.parts; ++part) {
    signed char some[kTogether];
    load_vector<kTogether>(some, from + (Int64(nth) * args.moduli.parts + part) * matrix);
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) sums[e] += some[e];
  }
  unsigned bytes = 0;
  UNROLL_ALL
  for (int e = 0; e < kTogether; ++e)
    bytes |= (static_cast<unsigned>(residue_of_sum(kModuli.of[nth], sums[e])) & 255u) << 8 * e;
  return bytes ^ 0x80808080u;
}

// The integers of the elements of `down` rows, before rows and columns are scaled back.
DEVICE void sums_of(double (&integers)[kDown][kTogether], const CombineArgs& args, const signed char* from, int down,
                    int count) {
  const tilewise::residues::Weights& weights = kWeights.of[count - tilewise::residues::kLeast];
  double high[kDown][kTogether] = {}, low[kDown][kTogether] = {};
  const Int64 matrix = args.m * args.ld;
  UNROLL_BY(4)
  for (int l = 0; l < count; ++l) {
    const double of_high = weights.high[l], of_low = weights.low[l];
    UNROLL_ALL
    for (int d = 0; d < kDown; ++d) {
      const signed char* at = from + (d < down ? d : 0) * args.ld;
      // Residues plus 128, four bytes.
      unsigned bytes =
          *reinterpret_cast<const unsigned*>(at + Int64(l) * (PARTS ? args.moduli.parts : 1) * matrix) ^ 0x80808080u;  //@ residues-of-modulus
      if constexpr (PARTS != 0) bytes = sum_of_parts(args, at, l, matrix);
      UNROLL_ALL
      for (int e = 0; e < kTogether; ++e) {
        const double residue = f64_of_byte(bytes, e);
        high[d][e] = multiply_add(of_high, residue, high[d][e]);
        low[d][e] = multiply_add(of_low, residue, low[d][e]);
      }
    }
  }
  UNROLL_ALL
  for (int d = 0; d < kDown; ++d) {
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) {
      const double multiple = nearest_whole(high[d][e] * weights.reciprocal);
      const double rest = multiply_add(-weights.product_high, multiple, high[d][e]);
      integers[d][e] = rest + multiply_add(-weights.product_low, multiple, low[d][e]);  //@ residues-integer
    }
  }
}

struct UnitExponents {
  tilewise::residues::Scales scales;
  DEVICE_MEMBER UnitExponents(int count) : scales(scales_of(count)) {}
  DEVICE_MEMBER int of_row(const RowScale& row) const { return unit_exponent(row, scales.fits, scales.bits_a); }
  DEVICE_MEMBER int of_column(const RowScale& column) const { return unit_exponent(column, scales.fits, scales.bits_b); }
};
#endif

KERNEL(tilewise::residues::kThreads, 2) combine(ARGUMENTS CombineArgs args) {
  grid_dependency_wait();
  launch_dependents();
  const int count = args.moduli.count();
  if (args.counts && blockIdx.x == 0 && threadIdx.x == 0) add_one(args.counts + (count == 0));
  if (count == 0) return;
  const Int64 across = (args.n + kTogether - 1) / kTogether;
  const Int64 nth = Int64(blockIdx.x) * tilewise::residues::kThreads + threadIdx.x;
  const Int64 i = nth / across * kDown, j = nth % across * kTogether;
  if (i >= args.m) return;
  const int down = args.m - i < kDown ? int(args.m - i) : kDown;
  double sums[kDown][kTogether] = {};
  if (args.k > 0) {
    sums_of(sums, args, args.products + i * args.ld + j, down, count);
    const UnitExponents exponents(count);
    UNROLL_ALL
    for (int e = 0; e < kTogether; ++e) {
      const Int64 column = args.first + (j + e < args.n ? j + e : j);
      const int of_column = exponents.of_column(args.columns[column]);
      UNROLL_ALL
      for (int d = 0; d < kDown; ++d) {
        const int of_row = exponents.of_row(args.rows[d < down ? i + d : i]);
        sums[d][e] *= f64_power_of_2(of_row + of_column);  //@ residues-scaled-back
      }
    }
  }
  const Scalars scalars = scalars_of(args);
  UNROLL_ALL
  for (int d = 0; d < kDown; ++d) {
    if (d >= down) break;
    Result* c = args.c + (i + d) * args.ldc + args.first + j;
    UNROLL_ALL
    for (int e = 0; e < kTogether; e += VECTOR_C) {
      Sum some[VECTOR_C];
      UNROLL_ALL
      for (int v = 0; v < VECTOR_C; ++v) some[v] = Sum(sums[d][e + v]);
      const Int64 left = args.n - j - e;
      if (left > 0)
        blend_part<VECTOR_C>(scalars, some, c + e, 0, left < VECTOR_C ? int(left) : VECTOR_C,
                             {i + d, args.first + j + e, 0});
    }
  }
}
