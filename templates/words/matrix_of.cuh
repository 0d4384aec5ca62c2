// One matrix of a batch.
#pragma once
#include "words/dialect.cuh"

// The matrix of the product with number `product`: `stride` elements lie between neighbours. BY_POINTERS: `base` is an array
// of pointers to the matrices instead.
template <bool BY_POINTERS, class T>
DEVICE T* matrix_of(T* base, Int64 stride, Int64 product) {
  if constexpr (BY_POINTERS) {
    return reinterpret_cast<T* const*>(base)[product];  //@ matrix-pointer
  } else {
    return base + product * stride;
  }
}
