#pragma once
#include <string>

#include "vocabulary/epilogue.hpp"

namespace tilewise {

/// An epilogue in the kernel dialect, by the words of words/functions.cuh, which a source includes
/// before this text:
///
///     struct PointwiseValues { PointwiseNumber p0; };   // of operands that are read, by slot
///     struct PointwiseResults { PointwiseNumber p1; };  // of those that are written or summed
///     DEVICE PointwiseNumber pointwise(PointwiseNumber acc, const PointwiseValues& values,
///                                      PointwiseResults& results);  // returns C's element
///
/// A function of the epilogue alone: equal epilogues have equal texts.
std::string pointwise_source(const EpilogueForm& epilogue);

/// The header pointwise_source.cuh of a kernel with POINTWISE 1 (parts/pointwise.cuh): the same,
/// and how operands are read and results written at a place of C. What is summed over rows is
/// written as a matrix of the arithmetic's numbers, which the step column_sums adds.
std::string pointwise_header(const EpilogueForm& epilogue);

}  // namespace tilewise
