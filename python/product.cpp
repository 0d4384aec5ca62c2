#include "python/product.hpp"

#include <algorithm>

#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::python {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

template <typename Numbers>
std::string text_of(const Numbers& numbers, std::size_t count) {
  std::string text = "(";
  for (std::size_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + (count == 1 ? ",)" : ")");
}

std::int64_t rows(const View& view) { return view.shape[std::size_t(view.dims - 2)]; }
std::int64_t columns(const View& view) { return view.shape[std::size_t(view.dims - 1)]; }

/// How the matrices of a view lie in memory.
struct Storage {
  bool transposed = false;
  std::int64_t leading = 1;  ///< dimension, elements
};

/// Whether lines of `length` elements, `between` apart, are those of a matrix with `count` lines.
bool lines_fit(std::int64_t count, std::int64_t length, std::int64_t between, std::int64_t step) {
  return (step == 1 || length == 1) && (count == 1 || between >= length);
}

/// Row-major, where the strides allow both.
Storage storage_of(const View& view) {
  const std::int64_t m = rows(view), n = columns(view);
  const std::int64_t down = view.strides[std::size_t(view.dims - 2)];
  const std::int64_t across = view.strides[std::size_t(view.dims - 1)];
  if (m == 0 || n == 0) return {false, std::max<std::int64_t>(1, n)};
  if (lines_fit(m, n, down, across)) return {false, m == 1 ? n : down};
  if (lines_fit(n, m, across, down)) return {true, n == 1 ? m : across};
  refuse(view.name + " of shape " + shape_text(view) + " has strides " +
         text_of(view.strides, std::size_t(view.dims)) +
         " in elements: the last or the last but one must be 1, and the other at least as large as "
         "a row or column "
         "is long; pass a contiguous copy of it");
}

/// A leading dimension of the result, with the distances of all three arrays along it.
struct Leading {
  std::int64_t size = 1;
  std::array<std::int64_t, 3> strides{};  ///< a, b, out
};

std::int64_t stride_along(const View& view, int from_last) {
  const int at = view.dims - 3 - from_last;
  if (at < 0 || view.shape[std::size_t(at)] == 1) return 0;
  return view.strides[std::size_t(at)];
}

/// The leading dimensions, the last one first; neighbours that are at even distances in all arrays
/// are one, and those of one element are left out.
std::vector<Leading> leading_of(const View& a, const View& b, const View& out) {
  std::vector<Leading> all;
  for (int i = 0; i < out.dims - 2; ++i) {
    Leading one{out.shape[std::size_t(out.dims - 3 - i)],
                {stride_along(a, i), stride_along(b, i), stride_along(out, i)}};
    if (one.size == 1) continue;
    if (!all.empty()) {
      Leading& inner = all.back();
      bool even = true;
      for (std::size_t of = 0; of < 3; ++of)
        even = even && one.strides[of] == inner.strides[of] * inner.size;
      if (even) {
        inner.size *= one.size;
        continue;
      }
    }
    all.push_back(one);
  }
  return all;
}

void check_shapes(const View& a, const View& b, const View& out) {
  const std::vector<std::int64_t> shape = result_shape(a, b);
  if (out.dims == int(shape.size()) && std::equal(shape.begin(), shape.end(), out.shape.begin()))
    return;
  refuse("out has the shape " + shape_text(out) + ", but the product of a " + shape_text(a) +
         " and b " + shape_text(b) + " has " + text_of(shape, shape.size()));
}

/// The bytes from the first to behind the last element of a view that has elements. Strides are 0
/// or more.
struct Extent {
  const char *begin, *end;
};
Extent extent_of(const View& view) {
  std::int64_t last = 0;
  for (int i = 0; i < view.dims; ++i)
    last +=
        (view.shape[std::size_t(i)] - 1) * std::max<std::int64_t>(0, view.strides[std::size_t(i)]);
  const char* begin = static_cast<const char*>(view.data);
  return {begin, begin + (last + 1) * bytes_of(view.type)};
}

/// Whether no two elements are one: each stride is longer than what the smaller ones span.
bool is_without_overlap(const View& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (int i = 0; i < view.dims; ++i)
    if (view.shape[std::size_t(i)] > 1)
      dims.emplace_back(view.strides[std::size_t(i)], view.shape[std::size_t(i)]);
  std::sort(dims.begin(), dims.end());
  std::int64_t span = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < span) return false;
    span += (size - 1) * stride;
  }
  return true;
}

/// Several products, one after the other: the library checks each by itself.
void check_loop(const View& a, const View& b, const View& out) {
  if (!is_without_overlap(out))
    refuse("out has elements that share memory, or may: strides " +
           text_of(out.strides, std::size_t(out.dims)) + "; pass a contiguous array");
  const Extent to = extent_of(out);
  if (columns(a) == 0) return;  // k = 0: a and b have no elements
  for (const View* view : {&a, &b}) {
    const Extent from = extent_of(*view);
    if (from.begin < to.end && to.begin < from.end)
      refuse("out and " + view->name +
             " overlap, or may: their leading dimensions are at uneven distances in one piece of "
             "memory; pass another out");
  }
}

const void* moved(const void* data, std::int64_t elements, DType type) {
  return static_cast<const char*>(data) + elements * bytes_of(type);
}

}  // namespace

std::string shape_text(const View& view) { return text_of(view.shape, std::size_t(view.dims)); }

Stored stored_matrix(const View& view) {
  if (view.dims != 2)
    refuse(view.name + " has the shape " + shape_text(view) + "; a matrix has two dimensions");
  const Storage storage = storage_of(view);
  return {rows(view), columns(view), storage.transposed, storage.leading};
}

std::vector<std::int64_t> result_shape(const View& a, const View& b) {
  for (const View* view : {&a, &b})
    if (view->dims < 2)
      refuse(view->name + " has the shape " + shape_text(*view) +
             ": matrices have two dimensions or more; give a vector one of size 1, as in "
             "reshape(1, -1)");
  const std::string both = "a " + shape_text(a) + " and b " + shape_text(b);
  if (columns(a) != rows(b))
    refuse("shapes do not fit: " + both + "; the last size of a must be the last but one of b");
  const int dims = std::max(a.dims, b.dims);
  std::vector<std::int64_t> shape(std::size_t(dims), 1);
  for (int i = 0; i < dims - 2; ++i) {
    std::int64_t& size = shape[std::size_t(dims - 3 - i)];
    for (const View* view : {&a, &b}) {
      const int at = view->dims - 3 - i;
      const std::int64_t own = at < 0 ? 1 : view->shape[std::size_t(at)];
      if (own == 1) continue;
      if (size != 1 && size != own)
        refuse("shapes do not fit: " + both + "; leading dimensions must be equal or 1");
      size = own;
    }
  }
  shape[std::size_t(dims - 2)] = rows(a);
  shape[std::size_t(dims - 1)] = columns(b);
  return shape;
}

std::vector<Product> products_of(const View& a, const View& b, const View& out, MathMode math) {
  check_shapes(a, b, out);
  if (a.type != b.type)
    refuse("a is of " + std::string(to_string(a.type)) + " and b of " +
           std::string(to_string(b.type)) + ": both must have one type");
  if (out.read_only) refuse("out is read-only");
  for (int i = 0; i < out.dims; ++i)
    if (out.shape[std::size_t(i)] == 0) return {};
  std::vector<Leading> leading = leading_of(a, b, out);
  if (leading.size() > 1) check_loop(a, b, out);
  // The innermost even distance is the batch, what is left is a loop.
  Leading batch;
  if (!leading.empty()) {
    batch = leading.front();
    leading.erase(leading.begin());
  }
  Storage left = storage_of(a), right = storage_of(b);
  const Storage result = storage_of(out);
  if (batch.size > 1 && batch.strides[2] == 0)
    refuse("out has a stride of 0: its matrices would share elements");
  const View *first = &a, *second = &b;
  std::size_t of_first = 0, of_second = 1;
  std::int64_t m = rows(a), n = columns(b);
  if (result.transposed) {  // out^T = b^T a^T
    std::swap(first, second);
    std::swap(of_first, of_second);
    std::swap(left, right);
    std::swap(m, n);
    left.transposed = !left.transposed, right.transposed = !right.transposed;
  }
  const Layout layout = left.transposed ? (right.transposed ? Layout::tt : Layout::tn)
                                        : (right.transposed ? Layout::nt : Layout::nn);
  Product one;
  one.problem = typed_problem(layout, m, n, columns(a), a.type, out.type, math, batch.size);
  one.call.a = first->data, one.call.b = second->data, one.call.c = out.data;
  one.call.lda = std::max(left.leading, min_lda(one.problem));
  one.call.ldb = std::max(right.leading, min_ldb(one.problem));
  one.call.ldc = std::max(result.leading, min_ldc(one.problem));
  if (batch.size > 1) {
    one.call.stride_a = batch.strides[of_first];
    one.call.stride_b = batch.strides[of_second];
    one.call.stride_c = batch.strides[2];
  }
  std::vector<Product> all{one};
  for (const Leading& loop : leading) {
    const std::size_t before = all.size();
    for (std::int64_t i = 1; i < loop.size; ++i)
      for (std::size_t j = 0; j < before; ++j) {
        Product next = all[j];
        next.call.a = moved(next.call.a, i * loop.strides[of_first], a.type);
        next.call.b = moved(next.call.b, i * loop.strides[of_second], b.type);
        next.call.c = const_cast<void*>(moved(next.call.c, i * loop.strides[2], out.type));
        all.push_back(next);
      }
  }
  return all;
}

}  // namespace tilewise::python
