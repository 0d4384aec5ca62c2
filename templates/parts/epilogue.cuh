// From sums to C: alpha and beta, conversion, stores of rows at any alignment.
#pragma once
#include "parts/arguments.cuh"

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
// The same in place, for elements `begin` to end - 1 of COUNT neighbours. Where these are all, c is aligned to COUNT
// elements. All test beta once together: code that tests it for each element is several times as large and compiles as much slower.
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

// Rows of a tile of C that one warp or thread writes: blended into C, or where k is split (Split) as they are, to where
// the reduce step reads them.
template <bool Split>
struct OutputOf {
  typedef Result Type;
};
template <>
struct OutputOf<true> {
  typedef Sum Type;
};

template <bool Split>
struct OutputTile {
  typedef typename OutputOf<Split>::Type Out;
  Out* c;  // of the tile's first element
  Int64 ld;
  int rows, columns;  // of the tile that are inside the matrix; below 0 when it is wholly outside
  Scalars scalars;

  DEVICE_MEMBER Out* row(int place) const { return opaque_pointer(c + place * ld); }
  // COUNT neighbours of a row, those of them that are inside.
  template <int COUNT>
  DEVICE_MEMBER void write(Out* row, int column, const Sum (&values)[COUNT]) const {
    write_part(row + column, values, 0, columns - column);
  }
  // Those from `begin` to end - 1 of COUNT neighbours.
  template <int COUNT>
  DEVICE_MEMBER void write_part(Out* to, const Sum (&values)[COUNT], int begin, int end) const {
    if constexpr (Split)
      store_part<COUNT>(to, values, begin, end);
    else
      blend_part<COUNT>(scalars, values, to, begin, end);
  }
};

// Reads COUNT sums that lie side by side in shared memory.
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

// A row's sums in shared memory, Width of them, COUNT to a store. Shifted: C's rows may not be aligned to COUNT
// elements; a row's stores then begin as many elements before it as make them aligned.
template <int Width, int COUNT, bool Shifted>
struct StagedRow {
  static constexpr int STORES = Width / COUNT + Shifted;  // of a row
  // Where a column's sum lies: neighbouring lanes, COUNT apart, must not meet in a bank when each reads one by one.
  static DEVICE_MEMBER int slot(int column) { return Shifted ? column + column / 8 : column; }
  // The nth store of a row, whose sums begin at `from`.
  template <class Tile>
  static DEVICE_MEMBER void write(const Tile& to, typename Tile::Out* row, int nth, const Sum* from) {
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
    to.write_part(row + column, values, -column, to.columns - column);
  }
};
