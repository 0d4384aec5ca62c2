#include "python/grouped.hpp"

#include <algorithm>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise::python {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

/// One matrix of a view of two or three dimensions.
View matrix_of(const View& view) {
  if (view.dims == 2) return view;
  View one = view;
  one.dims = 2;
  for (std::size_t i = 0; i < 2; ++i)
    one.shape[i] = view.shape[i + 1], one.strides[i] = view.strides[i + 1];
  return one;
}

/// From one matrix to the next.
std::int64_t stride_of(const View& view) {
  if (view.dims == 2 || view.shape[0] <= 1) return 0;
  if (view.strides[0] < 0)
    refuse(view.name +
           " is stored from its last matrix to the first; pass a contiguous copy of it");
  return view.strides[0];
}

/// The leading dimension of a matrix that is stored by rows; `name` says what rows are.
std::int64_t by_rows(const View& view, bool transposed) {
  const std::size_t along = transposed ? 0 : 1, down = 1 - along;
  const bool contiguous = view.strides[along] == 1 || view.shape[along] <= 1;
  const bool apart = view.shape[down] <= 1 || view.strides[down] >= view.shape[along];
  if (!contiguous || !apart)
    refuse(view.name + " of shape " + shape_text(view) +
           " is not stored by k: products of different k need a.T and b with contiguous rows");
  return view.shape[down] > 1 ? view.strides[down] : std::max<std::int64_t>(1, view.shape[along]);
}

/// An epilogue's operand: what its last dimensions have, and maybe one before for each product.
EpilogueOperand bound(const GivenOperand& given, const std::vector<std::int64_t>& own,
                      std::int64_t products, bool written) {
  EpilogueOperand made;
  made.value = given.value;
  if (!given.view) return made;
  const View& view = *given.view;
  if (written && view.read_only) refuse(view.name + " is read-only");
  made.data = view.data;
  const auto dims = static_cast<std::size_t>(view.dims);
  const bool each = dims == own.size() + 1 && view.shape[0] == products;
  const std::size_t before = each ? 1 : 0;
  bool fits = dims == own.size() + before;
  for (std::size_t i = 0; fits && i < own.size(); ++i) fits = view.shape[before + i] == own[i];
  // Rows are contiguous.
  if (fits && !own.empty() && own.back() > 1) fits = view.strides[dims - 1] == 1;
  if (!fits) {
    std::string shape;
    for (const std::int64_t size : own) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    refuse(view.name + " has the shape " + shape_text(view) + "; it is (" + shape +
           ") with contiguous rows, or has one of each product, " + std::to_string(products));
  }
  if (each && products > 1) made.stride = view.strides[0];
  if (made.stride < 0) refuse(view.name + " is stored from its last to its first product");
  if (own.size() == 2) made.ld = own[0] > 1 ? view.strides[before] : own[1];
  return made;
}

}  // namespace

std::vector<std::int64_t> grouped_shape(const View& a, const View& b, std::int64_t groups) {
  const auto of = [](const View& view, int from_last) {
    return view.shape[static_cast<std::size_t>(view.dims - 1 - from_last)];
  };
  const std::string both = "a " + shape_text(a) + " and b " + shape_text(b);
  const bool dims =
      (a.dims == 2 || a.dims == 3) && (b.dims == 2 || b.dims == 3) && !(a.dims == 3 && b.dims == 2);
  if (!dims)
    refuse("shapes do not fit: " + both +
           "; a grouped product takes (rows, k) and (groups, k, n), (groups, m, k) and (groups, k, "
           "n), or (m, k) and (k, n)");
  if (of(a, 0) != of(b, 1))
    refuse("shapes do not fit: " + both + "; the last of a is the last but one of b");
  for (const View* view : {&a, &b})
    if (view->dims == 3 && view->shape[0] != groups)
      refuse("shapes do not fit: " + both + " and " + std::to_string(groups) + " numbers of rows");
  if (a.dims == 2 && b.dims == 3) return {of(a, 1), of(b, 0)};
  return {groups, of(a, 1), of(b, 0)};
}

Product grouped_product(const View& a, const View& b, const View& out, const View& rows,
                        MathMode math, Distribution distribution, const Epilogue* epilogue,
                        const std::vector<GivenOperand>& operands, bool invariant) {
  if (rows.type != DType::i32 || rows.dims != 1 || (rows.shape[0] > 1 && rows.strides[0] != 1))
    refuse("rows is of " + std::string(to_string(rows.type)) + " and shape " + shape_text(rows) +
           "; it is a contiguous vector of 32-bit integers, one of each product");
  const std::int64_t groups = rows.shape[0];
  const std::vector<std::int64_t> shape = grouped_shape(a, b, groups);
  if (out.dims != int(shape.size()) || !std::equal(shape.begin(), shape.end(), out.shape.begin()))
    refuse("out has the shape " + shape_text(out) + ", which is not that of the product of a " +
           shape_text(a) + " and b " + shape_text(b));
  check_types(a, b, out);
  if (out.read_only) refuse("out is read-only");
  const std::int64_t m = shape[shape.size() - 2], n = shape.back(),
                     k = a.shape[std::size_t(a.dims - 1)];
  const bool by_depth = a.dims == 2 && b.dims == 2;
  const Stored result = stored_matrix(matrix_of(out));
  if (result.transposed && m > 1 && n > 1)
    refuse("out is stored by columns; its rows must be contiguous");
  Stored left{m, k, true, 0}, right{k, n, false, 0};
  if (by_depth) {
    left.leading = by_rows(a, true), right.leading = by_rows(b, false);
  } else {
    left = stored_matrix(matrix_of(a)), right = stored_matrix(matrix_of(b));
  }
  const Layout layout = left.transposed ? (right.transposed ? Layout::tt : Layout::tn)
                                        : (right.transposed ? Layout::nt : Layout::nn);
  Product one;
  one.problem = typed_problem(layout, m, n, k, a.type, b.type, out.type, math, groups);
  one.problem.grouping = by_depth      ? Grouping::depth
                         : a.dims == 3 ? Grouping::counts
                                       : Grouping::rows;
  one.problem.distribution = distribution;
  one.call.a = a.data, one.call.b = b.data, one.call.c = out.data;
  one.call.lda = std::max(left.leading, min_lda(one.problem));
  one.call.ldb = std::max(right.leading, min_ldb(one.problem));
  one.call.ldc = std::max(result.leading, min_ldc(one.problem));
  one.call.stride_a = stride_of(a), one.call.stride_b = stride_of(b),
  one.call.stride_c = stride_of(out);
  one.call.group_rows = static_cast<const std::int32_t*>(rows.data);
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    const bool of_rows = is_of_rows(epilogue->over(slot));
    one.operands.push_back(bound(operands[slot], own_shape(*epilogue, slot, m, n, k),
                                 of_rows && out.dims == 2 ? -1 : groups,
                                 epilogue->use(slot) != EpilogueUse::read));
  }
  if (epilogue) one.problem.epilogue = form_with_types(*epilogue, out.type, operands);
  set_invariant(one.problem, invariant);
  return one;
}

}  // namespace tilewise::python
