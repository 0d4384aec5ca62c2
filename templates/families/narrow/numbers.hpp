#pragma once
#include "tilewise/problem.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise::narrow {

/// Instructions of a warp that widen eight elements of B, counted.
inline double slots_of_eight(const Problem& problem) {
  if (problem.b.type == DType::e4m3) return 28;
  const double of_zeros = zero_points_of(problem) ? 4 : 0;
  if (problem.b.type == DType::i8) return (problem.a.type == DType::bf16 ? 16 : 10) + of_zeros;
  return 11 + of_zeros;
}

}  // namespace tilewise::narrow
