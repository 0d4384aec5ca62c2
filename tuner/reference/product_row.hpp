#pragma once
#include <cstdint>

#include "tuner/reference/generate.hpp"

namespace tilewise {

/// Row i (of matrix b of a batch: b m + i) of A B and of |A| |B| in f64, n elements each. Test data
/// are generated on the fly: no operand is stored. Takes some 2 ns for each of the row's n k
/// multiply-adds, on `threads` threads (0 = all cores).
void product_row(const Problem& problem, DataSet set, std::uint64_t seed, std::int64_t i,
                 double* plain, double* absolute, int threads);

}  // namespace tilewise
