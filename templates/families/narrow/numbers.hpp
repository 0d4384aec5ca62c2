#pragma once
#include "tilewise/problem.hpp"

namespace tilewise::narrow {

/// Instructions of a warp that widen eight elements of B, counted.
inline double slots_of_eight(const Problem& problem) {
  if (problem.b.type == DType::e4m3) return 28;
  if (problem.b.type == DType::i8) return problem.a.type == DType::bf16 ? 16 : 10;
  return 11;
}

}  // namespace tilewise::narrow
