// The place of an element of C, and with POINTWISE 1 what the epilogue does there: the program then has a header
// pointwise_source.cuh, the epilogue's text (plan/pointwise.hpp).
#pragma once
#include "words/types.cuh"

#ifndef POINTWISE
#define POINTWISE 0
#endif

// From a place to another one of the same tile.
struct Offset {
  int down, right;
};

#if POINTWISE
struct Place {
  Int64 row, column;  // may lie outside of C
  Int64 product;      // of the batch
  DEVICE_MEMBER Place below(Int64 rows) const { return {row + rows, column, product}; }
  DEVICE_MEMBER Place beside(Int64 columns) const { return {row, column + columns, product}; }
};
#else
// Without state, so that code without an epilogue is not changed by places.
struct Place {
  DEVICE_MEMBER Place(Int64, Int64, Int64) {}
  DEVICE_MEMBER Place below(Int64) const { return *this; }
  DEVICE_MEMBER Place beside(Int64) const { return *this; }
};
#endif

#if POINTWISE
#include "words/functions.cuh"

// An operand of the epilogue.
struct PointwiseOperand {
  void* data;  // null: a scalar, `value`
  Int64 ld, stride;  // elements; `stride` from one product of a batch to the next
  double value;

  DEVICE_MEMBER Int64 of_all(const Place& at) const { return at.product * stride; }
  DEVICE_MEMBER Int64 of_rows(const Place& at) const { return at.product * stride + at.row; }
  DEVICE_MEMBER Int64 of_columns(const Place& at) const { return at.product * stride + at.column; }  //@ pointwise-column
  DEVICE_MEMBER Int64 of_elements(const Place& at) const { return at.product * stride + at.row * ld + at.column; }
  template <int TYPE>
  DEVICE_MEMBER PointwiseNumber read(Int64 at) const {
    return PointwiseNumber(Number<TYPE>::widen(static_cast<const typename Number<TYPE>::Stored*>(data)[at]));
  }
  template <int TYPE>
  DEVICE_MEMBER void write(Int64 at, PointwiseNumber value) const {
    static_cast<typename Number<TYPE>::Stored*>(data)[at] = narrow_pointwise<TYPE>(value);
  }
};
template <int OPERANDS>
struct PointwiseArgsOf {
  Int64 rows, columns;  // of C
  PointwiseOperand of[OPERANDS];

  // From a place to the last row and column of C; negative where the place is outside of C.
  DEVICE_MEMBER Offset last_from(const Place& at) const {
    const auto near = [](Int64 distance) { return distance < 0x40000000 ? static_cast<int>(distance) : 0x40000000; };
    return {near(rows - 1 - at.row), near(columns - 1 - at.column)};  //@ pointwise-edge
  }
  // The place at an offset from `at`, or the nearest one in C. last: last_from(at).
  static DEVICE_MEMBER Place nearest(const Place& at, const Offset& to, const Offset& last) {
    return at.below(to.down < last.down ? to.down : last.down).beside(to.right < last.right ? to.right : last.right);
  }
};

#include "pointwise_source.cuh"

// The results of COUNT sums, and what the epilogue writes besides C; as for apply() (epilogue.cuh). Operands of elements
// that are not stored are read of the nearest one in C: a branch for each element would hold up all loads behind it.
template <int COUNT, class OffsetOf>
DEVICE void pointwise_all(const PointwiseArgs& args, const Sum (&sums)[COUNT], Result (&results)[COUNT], const Place& first,
                          const OffsetOf& offset_of, int begin, int end) {
  const Offset last = args.last_from(first);
  PointwiseValues values[COUNT];
  PointwiseResults more[COUNT];
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e)
    pointwise_read(args, args.nearest(first, offset_of(e >= begin && e < end ? e : begin), last), values[e]);
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e)
    results[e] = narrow_pointwise<RESULT>(pointwise(PointwiseNumber(sums[e]), values[e], more[e]));
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) {
    const Offset to = offset_of(e);
    if (e >= begin && e < end && to.down <= last.down && to.right <= last.right)
      pointwise_write(args, first.below(to.down).beside(to.right), more[e]);
  }
}
#endif
