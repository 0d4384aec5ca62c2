#pragma once
#include "tilewise/problem.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise::narrow {

/// Instructions of a warp that widen eight elements of B, counted.
inline double slots_of_eight(const Problem& problem) {
  if (problem.b.type == DType::e4m3) return 28;
  const bool bf16 = problem.a.type == DType::bf16, zeros = zero_points_of(problem) != nullptr;
  if (problem.b.type == DType::i8) return bf16 ? (zeros ? 20 : 16) : 10;
  return bf16 && zeros ? 12 : 11;
}

}  // namespace tilewise::narrow
