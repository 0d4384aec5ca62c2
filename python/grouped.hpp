#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "python/product.hpp"

namespace tilewise::python {

/// The shape of the result of a grouped product of `groups` products, by the dimensions of a and b:
/// (rows, k) and (groups, k, n) give (rows, n), (groups, m, k) and (groups, k, n) give (groups, m,
/// n), and (m, k) and (k, n) give (groups, m, n). Throws Error(invalid_argument) for shapes that do
/// not fit.
std::vector<std::int64_t> grouped_shape(const View& a, const View& b, std::int64_t groups);

/// One grouped product; `rows` has its numbers of rows. Throws Error(invalid_argument) for shapes,
/// types or strides that do not fit. Operands of the epilogue: name[j] has n elements, or a row of
/// n for each product; a scalar one, or one for each product; name[i] and name[i,j] have out's
/// shape without the dimensions that they lack.
Product grouped_product(const View& a, const View& b, const View& out, const View& rows,
                        MathMode math, Distribution distribution, const Epilogue* epilogue,
                        const std::vector<GivenOperand>& operands, bool invariant);

}  // namespace tilewise::python
