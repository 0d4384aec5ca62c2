#pragma once
#include "tuner/reference/product.hpp"

namespace tilewise {

/// ||got - exact|| / ||exact|| of a strict f32 product (fused multiply-adds in order along k) of
/// f32 operands A (m x k) and B (k x n), over up to 8 rows spread over A; fewer where n k is large.
/// 0 for an empty product.
double strict_f32_error(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
                        const MatrixView& b, int threads);

}  // namespace tilewise
