#pragma once
#include <optional>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// One product that computes what a batch does.
struct FoldedBatch {
  Problem problem;  ///< its alignment is that of `call`
  Call call;
};

/// A batch that shares B (stride 0) is one product of batch x m rows where the matrices of A and C
/// follow one another as the rows of two matrices. One that shares A is one of batch x n columns
/// where those of B and C lie side by side. None for other batches, and where an operand is packed:
/// its pack is of the batch. The call must have passed check_call().
std::optional<FoldedBatch> folded_batch(const Problem& problem, const Call& call);

}  // namespace tilewise
