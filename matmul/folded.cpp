#include "matmul/folded.hpp"

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"

namespace tilewise {
namespace {

/// Whether matrix i + 1 begins where row `rows` of matrix i would be.
bool follow(std::int64_t rows, std::int64_t ld, std::int64_t stride) {
  std::int64_t next = 0;
  return !__builtin_mul_overflow(rows, ld, &next) && next == stride;
}

/// Whether matrix i + 1 begins where column `columns` of matrix i would be, in rows of `all`.
bool side_by_side(std::int64_t columns, std::int64_t all, std::int64_t ld, std::int64_t stride) {
  return stride == columns && ld >= all;
}

/// Matrices of one row each may lie at any distance: that is the leading dimension.
bool rows_apart(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return rows == 1 && stride >= columns;
}

bool fold_rows(Problem& problem, Call& call) {
  const std::int64_t m = problem.m;
  if (call.stride_b != 0 || __builtin_mul_overflow(problem.m, problem.batch, &problem.m))
    return false;
  if (!a_transposed(problem.layout) && rows_apart(m, problem.k, call.stride_a) &&
      rows_apart(m, problem.n, call.stride_c)) {
    call.lda = call.stride_a;
    call.ldc = call.stride_c;
    return true;
  }
  return follow(m, call.ldc, call.stride_c) &&
         (a_transposed(problem.layout) ? side_by_side(m, problem.m, call.lda, call.stride_a)
                                       : follow(m, call.lda, call.stride_a));
}

bool fold_columns(Problem& problem, const Call& call) {
  const std::int64_t n = problem.n;
  if (call.stride_a != 0 || __builtin_mul_overflow(problem.n, problem.batch, &problem.n))
    return false;
  return side_by_side(n, problem.n, call.ldc, call.stride_c) &&
         (b_transposed(problem.layout) ? follow(n, call.ldb, call.stride_b)
                                       : side_by_side(n, problem.n, call.ldb, call.stride_b));
}

}  // namespace

std::optional<FoldedBatch> folded_batch(const Problem& problem, const Call& call) {
  if (problem.batch <= 1 || problem.pointers || call.packed_a || call.packed_b) return {};
  for (const bool rows : {true, false}) {
    FoldedBatch folded{problem, call};
    if (!(rows ? fold_rows(folded.problem, folded.call)
               : fold_columns(folded.problem, folded.call)))
      continue;
    folded.problem.batch = 1;
    folded.call.stride_a = folded.call.stride_b = folded.call.stride_c = 0;
    folded.problem.alignment = alignment_of(folded.problem, folded.call);
    return folded;
  }
  return {};
}

}  // namespace tilewise
