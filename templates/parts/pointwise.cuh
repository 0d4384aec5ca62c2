// The place of an element of C, and with POINTWISE 1 what the epilogue does there: the program then has a header
// pointwise_source.cuh, the epilogue's text (plan/pointwise.hpp).
#pragma once
#include "words/types.cuh"

#ifndef POINTWISE
#define POINTWISE 0
#endif

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

  DEVICE_MEMBER bool has(const Place& at) const {
    return at.row >= 0 && at.row < rows && at.column >= 0 && at.column < columns;  //@ pointwise-edge
  }
};

#include "pointwise_source.cuh"
#endif
