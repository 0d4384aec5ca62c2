#include "matmul/request.hpp"

#include "matmul/check_call.hpp"
#include "matmul/packed_contents.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

std::uint64_t key_of(const PackedOperand* operand) {
  const PackedOperand::Contents* contents = operand ? operand->contents() : nullptr;
  return contents ? contents->packing_key : 0;
}

// Batches that are one product --------------------------------------------------------------------

/// Whether matrix i + 1 begins where row `rows` of matrix i would be.
bool follow(std::int64_t rows, std::int64_t ld, std::int64_t stride) {
  std::int64_t next = 0;
  return !__builtin_mul_overflow(rows, ld, &next) && next == stride;
}

/// Whether matrix i + 1 begins where column `columns` of matrix i would be, in rows of `all`.
bool side_by_side(std::int64_t columns, std::int64_t all, std::int64_t ld, std::int64_t stride) {
  return stride == columns && ld >= all;
}

/// Whether each matrix has one row. The rows may have any distance, which becomes the leading
/// dimension.
bool rows_apart(const Problem& problem, const Call& call) {
  return problem.m == 1 && !problem.a.transposed && call.stride_a >= problem.k &&
         call.stride_c >= problem.n;
}

/// Whether the matrices of A and C follow one another like the rows of two matrices of m = `all`
/// rows.
bool rows_follow(const Problem& problem, const Call& call, std::int64_t all) {
  const std::int64_t m = problem.m;
  return follow(m, call.ldc, call.stride_c) &&
         (problem.a.transposed ? side_by_side(m, all, call.lda, call.stride_a)
                               : follow(m, call.lda, call.stride_a));
}

/// Whether the matrices of B and C lie next to each other like the columns of two matrices with n =
/// `all`.
bool columns_follow(const Problem& problem, const Call& call, std::int64_t all) {
  const std::int64_t n = problem.n;
  return side_by_side(n, all, call.ldc, call.stride_c) &&
         (problem.b.transposed ? follow(n, call.ldb, call.stride_b)
                               : side_by_side(n, all, call.ldb, call.stride_b));
}

/// Whether operand of the epilogue of a batch is one of the product of all its rows.
bool follows_rows(const Problem& batch, const EpilogueSlot& slot, const EpilogueOperand& given) {
  switch (slot.over) {
    case EpilogueOver::all:
      return !given.data || given.stride == 0;
    case EpilogueOver::rows:
      return given.stride == batch.m;
    case EpilogueOver::columns:
      return given.stride == 0 && slot.use == EpilogueUse::read;
    case EpilogueOver::elements:
      return follow(batch.m, given.ld, given.stride);
    case EpilogueOver::row_blocks:
      return !slot.k_first && follow(batch.m, given.ld, given.stride);
    case EpilogueOver::column_blocks:
    case EpilogueOver::tiles:
    case EpilogueOver::zero_points:
      return given.stride == 0;
  }
  return false;
}

/// The same of the product of all its columns, `all`.
bool follows_columns(const Problem& batch, const EpilogueSlot& slot, const EpilogueOperand& given,
                     std::int64_t all) {
  switch (slot.over) {
    case EpilogueOver::all:
      return !given.data || given.stride == 0;
    case EpilogueOver::rows:
      return given.stride == 0;
    case EpilogueOver::columns:
      return given.stride == batch.n;
    case EpilogueOver::elements:
      return side_by_side(batch.n, all, given.ld, given.stride);
    case EpilogueOver::row_blocks:
      return given.stride == 0;
    case EpilogueOver::column_blocks:
    case EpilogueOver::tiles:
    case EpilogueOver::zero_points:
      return false;  // a batch that shares A and has scales of B remains a batch
  }
  return false;
}

/// Whether each operand of the epilogue follows.
template <class Follows>
bool epilogue_follows(const Problem& batch, const Call& call, const Follows& follows) {
  if (!batch.epilogue) return true;
  for (std::size_t slot = 0; slot < call.operands.size(); ++slot)
    if (!follows(batch.epilogue->operands[slot], call.operands[slot])) return false;
  return true;
}

}  // namespace

Problem as_served(Problem problem) {
  if (problem.k == 0 && problem.math != MathMode::strict)
    set_types(problem, problem.a.type, problem.b.type, problem.c.type, MathMode::strict);
  if (problem.k == 0) problem.order = nullptr;  // there are no sums
  if (!is_grouped(problem)) problem.distribution = Distribution::even;
  return problem;
}

Normalized::Normalized(const Problem& problem, const Call& call) : request(problem) {
  if (problem.k == 0 || problem.distribution != Distribution::even) [[unlikely]]
    request.problem = as_served(problem);
  set_alignment(request.problem, call_alignment(problem, call));
  request.packed_a = key_of(call.packed_a);
  request.packed_b = key_of(call.packed_b);
  request.far = is_far(problem, call);
  if (problem.batch > 1 && (call.stride_a == 0 || call.stride_b == 0)) [[unlikely]]
    fold(call);
}

/// Sets request.product for a batch that is one product: batch x m rows if B is shared, batch x n
/// columns if A is shared. Packed operands are of the batch, so such a call is not folded.
void Normalized::fold(const Call& call) {
  const Problem& batch = request.problem;
  if (batch.pointers || is_grouped(batch) || request.far || call.packed_a || call.packed_b) return;
  std::int64_t m = batch.m, n = batch.n;
  bool apart = false;
  if (call.stride_b == 0 && !__builtin_mul_overflow(batch.m, batch.batch, &m) &&
      ((apart = rows_apart(batch, call)) || rows_follow(batch, call, m)) &&
      epilogue_follows(batch, call, [&](const EpilogueSlot& slot, const EpilogueOperand& given) {
        return follows_rows(batch, slot, given);
      })) {
    n = batch.n;
  } else {
    m = batch.m;
    if (batch.order) return;  // an order is kept for n
    if (call.stride_a != 0 || __builtin_mul_overflow(batch.n, batch.batch, &n) ||
        !columns_follow(batch, call, n) ||
        !epilogue_follows(batch, call, [&](const EpilogueSlot& slot, const EpilogueOperand& given) {
          return follows_columns(batch, slot, given, n);
        }))
      return;
    apart = false;
  }
  Problem& product = request.product.emplace(batch);
  product.m = m, product.n = n, product.batch = 1;
  Call& as_one = of_product.emplace(call);
  if (apart) as_one.lda = call.stride_a, as_one.ldc = call.stride_c;
  as_one.stride_a = as_one.stride_b = as_one.stride_c = 0;
  set_alignment(product, call_alignment(product, as_one));
}

}  // namespace tilewise
