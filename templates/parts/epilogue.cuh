// The epilogue, from sums to C: alpha and beta, conversion, stores of rows at any alignment.
#pragma once
#include "parts/arguments.cuh"

struct Scalars {
  Sum alpha, beta;
#if POINTWISE
  const PointwiseArgs* pointwise;  // null: sums are stored for another step
#endif
#if RESIDUES
  tilewise::residues::Modulus modulus;  // of the product
#endif
};

// Arguments: any type with the fields alpha, beta, alpha_device and beta_device, and with POINTWISE `pointwise`.
template <class Arguments>
DEVICE Scalars scalars_of(const Arguments& args) {
  return {args.alpha_device ? *args.alpha_device : args.alpha,
          args.beta_device ? *args.beta_device : args.beta,
#if POINTWISE
          &args.pointwise
#endif
  };
}

// alpha x sum. Where the sum is 0, +0: whether sums that are padded with zeros become +0 or -0 depends on the kernel.
DEVICE Sum scaled(const Scalars& s, Sum sum) { return multiply_add(s.alpha, sum, Sum(0)); }
// alpha x sum + beta x old.
DEVICE Sum blended(const Scalars& s, Sum sum, Result old) {
  return multiply_add(s.beta, Number<RESULT>::widen(old), scaled(s, sum));
}

// What a kernel's sums are when apply() takes them.
enum SumsAre {
  UNSCALED,
  CLEARED,  // unscaled; 0 where alpha is 0
  BLENDED   // alpha and beta are applied: the kernel needs the place of `old` for something else before
};

// The only way from sums to results: alpha x sum + beta x c, converted to C's type, as BLAS defines it. alpha = 0 drops
// the product (even NaN). beta = 0 does not read C; else read_c(old) reads its elements. One test of beta serves all
// COUNT sums: a test for each makes the code several times as large, and slow to compile.
// RESIDUES: results are the sums' residues by the product's modulus, without alpha, beta and c.
// POINTWISE: the epilogue follows. first: the place of element 0, of a type that pointwise_all() takes; offset_of(e): from
// it to that of element e. It also writes, and therefore leaves out elements that are not stored: those before `begin`,
// from `end` on, and outside of C.
template <SumsAre ARE = UNSCALED, int COUNT, class ReadC, class At, class OffsetOf>
DEVICE void apply(const Scalars& s, const Sum (&sums)[COUNT], Result (&results)[COUNT], const ReadC& read_c,
                  [[maybe_unused]] const At& first, [[maybe_unused]] const OffsetOf& offset_of,
                  [[maybe_unused]] int begin = 0, [[maybe_unused]] int end = COUNT) {
#if RESIDUES
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) results[e] = residue_of_sum(s.modulus, sums[e]);
  return;
#else
  Sum values[COUNT];
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e)
    values[e] = ARE == BLENDED ? sums[e] : (ARE == UNSCALED && s.alpha == Sum(0) ? Sum(0) : scaled(s, sums[e]));
  if (ARE != BLENDED && s.beta != Sum(0)) {
    read_c(results);
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) values[e] = multiply_add(s.beta, Number<RESULT>::widen(results[e]), values[e]);
  }
#if POINTWISE
  if (s.pointwise) return pointwise_all(*s.pointwise, values, results, first, offset_of, begin, end);
#endif
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) results[e] = Number<RESULT>::narrow(values[e]);
#endif
}
// One element of C.
DEVICE void blend(const Scalars& s, Sum sum, Result* c, const Place& place) {
  const Sum sums[1] = {sum};
  Result result[1];
  apply(s, sums, result, [&](Result (&old)[1]) { old[0] = *c; }, place, [](int) { return Offset{0, 0}; });
  *c = result[0];
}
// Elements `begin` to end - 1 of COUNT neighbours of a row, from `place` on. Where these are all, c is aligned to COUNT
// elements.
template <int COUNT>
DEVICE void blend_part(const Scalars& s, const Sum (&sums)[COUNT], Result* c, int begin, int end, const Place& place) {
  Result results[COUNT];
  apply(s, sums, results, [&](Result (&old)[COUNT]) { load_part<COUNT>(old, c, begin, end); }, place,
        [](int e) { return Offset{0, e}; }, begin, end);
  store_part<COUNT>(c, results, begin, end);
}

// The rows of a tile that one warp or thread writes: blended into C; where k is split (Split), unscaled into the
// workspace, for the reduce step.
template <bool Split>
struct OutputOf {
  typedef Result Type;
};
template <>
struct OutputOf<true> {
  typedef Sum Type;
};

template <bool Split>
struct OutputTile : Place {  // of the tile's first element
  typedef typename OutputOf<Split>::Type Out;
  Out* c;  // of the tile's first element
  Int64 ld;
  int rows, columns;  // those inside the matrix; 0 or less where the tile is wholly outside
  Scalars scalars;

  DEVICE_MEMBER Out* row(int nth) const { return opaque_pointer(c + nth * ld); }
  // Writes those of COUNT neighbours of a row that are inside. row: the nth.
  template <int COUNT>
  DEVICE_MEMBER void write(Out* row, int nth, int column, const Sum (&values)[COUNT]) const {
    write_part(row, nth, column, values, 0, columns - column);
  }
  // Writes elements `begin` to end - 1 of COUNT neighbours, from `column` on.
  template <int COUNT>
  DEVICE_MEMBER void write_part(Out* row, [[maybe_unused]] int nth, int column, const Sum (&values)[COUNT], int begin,
                                int end) const {
    if constexpr (Split)
      store_part<COUNT>(row + column, values, begin, end);
    else
      blend_part<COUNT>(scalars, values, row + column, begin, end, Place::below(nth).beside(column));
  }
};

// Reads COUNT neighbouring sums from shared memory.
template <int COUNT>
DEVICE void load_sums(Sum (&values)[COUNT], const Sum* from) {
  constexpr int TOGETHER = COUNT * int(sizeof(Sum)) < 16 ? COUNT : 16 / int(sizeof(Sum));
  UNROLL_ALL
  for (int e = 0; e < COUNT; e += TOGETHER) {
    Sum some[TOGETHER];
    load_vector<TOGETHER>(some, from + e);
    UNROLL_ALL
    for (int i = 0; i < TOGETHER; ++i) values[e + i] = some[i];
  }
}

// A row of Width sums staged in shared memory, and its stores of COUNT elements. Shifted: C's rows may not be aligned
// to COUNT elements; the first store then begins at the aligned address before the row.
template <int Width, int COUNT, bool Shifted>
struct StagedRow {
  static constexpr int STORES = Width / COUNT + Shifted;  // of a row
  // The place of a column's sum. Shifted rows are padded: neighbouring lanes then read single elements that are COUNT
  // columns apart, and these lie in different banks.
  static DEVICE_MEMBER int slot(int column) { return Shifted ? column + column / 8 : column; }
  // Performs the nth store of a row of the tile; `from`: the row's sums.
  template <class Tile>
  static DEVICE_MEMBER void write(const Tile& to, int nth_row, int nth, const Sum* from) {
    typename Tile::Out* row = to.row(nth_row);
    int column = nth * COUNT;
    Sum values[COUNT];
    if constexpr (Shifted) {
      column -= static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(*row) % COUNT);  //@ epilogue-align-column
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e) {
        const int at = column + e;  //@ epilogue-shifted-column
        values[e] = from[slot(at < 0 ? 0 : (at < Width ? at : Width - 1))];
      }
    } else {
      load_sums(values, from + column);
    }
    to.write_part(row, nth_row, column, values, -column, to.columns - column);
  }
};
