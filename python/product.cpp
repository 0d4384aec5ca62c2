#include "python/product.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "tilewise/strided_array.hpp"

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

/// How the matrices of a view are stored.
struct Storage {
  bool transposed = false;
  std::int64_t leading = 1;  ///< leading dimension in elements
};

/// Whether lines of `length` elements, `between` apart, are those of a matrix with `count` lines.
bool lines_fit(std::int64_t count, std::int64_t length, std::int64_t between, std::int64_t step) {
  return (step == 1 || length == 1) && (count == 1 || between >= length);
}

/// The storage of a view; row-major if the strides allow both.
Storage storage_of(const View& view) {
  const std::int64_t m = rows(view), n = columns(view);
  const std::int64_t down = view.strides[std::size_t(view.dims - 2)];
  const std::int64_t across = view.strides[std::size_t(view.dims - 1)];
  if (m == 0 || n == 0) return {false, std::max<std::int64_t>(1, n)};
  // Rows of i4 begin at bytes: neighbours are along the dimension whose stride is 1.
  const bool by_columns = view.type == DType::i4 && down == 1 && across != 1;
  if (!by_columns && lines_fit(m, n, down, across)) return {false, m == 1 ? n : down};
  if (lines_fit(n, m, across, down)) return {true, n == 1 ? m : across};
  refuse(view.name + " of shape " + shape_text(view) + " has strides " +
         text_of(view.strides, std::size_t(view.dims)) +
         " in elements: the last or the last but one must be 1, and the other at least as large as "
         "a row or column "
         "is long; pass a contiguous copy of it");
}

/// The arrays of a product: a, b and out, then those of the epilogue by slot, null for values.
struct Arrays {
  const View *a, *b, *out;
  std::vector<const View*> operands;
  std::vector<int> own_dims;  ///< of operands: dimensions besides the leading ones

  std::size_t count() const { return 3 + operands.size(); }
};
constexpr std::size_t kMostArrays = 3 + 8;
using Strides = std::array<std::int64_t, kMostArrays>;  // of Arrays

/// A leading dimension of the result, with the strides of all arrays along it.
struct Leading {
  std::int64_t size = 1;
  Strides strides{};
};

std::int64_t stride_along(const View& view, int own_dims, int from_last) {
  const int at = view.dims - own_dims - 1 - from_last;
  if (at < 0 || view.shape[std::size_t(at)] == 1) return 0;
  return view.strides[std::size_t(at)];
}

Strides strides_along(const Arrays& arrays, int from_last) {
  Strides strides{stride_along(*arrays.a, 2, from_last), stride_along(*arrays.b, 2, from_last),
                  stride_along(*arrays.out, 2, from_last)};
  for (std::size_t slot = 0; slot < arrays.operands.size(); ++slot)
    if (const View* view = arrays.operands[slot])
      strides[3 + slot] = stride_along(*view, arrays.own_dims[slot], from_last);
  return strides;
}

/// The leading dimensions, the last one first. Neighbours at equal distances in all arrays are
/// merged, and those of one element are left out. If `out` is stored from the last index to the
/// first, all arrays are traversed that way, and `begins` move to the last index.
std::vector<Leading> leading_of(const Arrays& arrays, Strides& begins) {
  const View& out = *arrays.out;
  std::vector<Leading> all;
  for (int i = 0; i < out.dims - 2; ++i) {
    Leading one{out.shape[std::size_t(out.dims - 3 - i)], strides_along(arrays, i)};
    if (one.size == 1) continue;
    if (one.strides[2] < 0) {
      for (std::size_t of = 0; of < arrays.count(); ++of) {
        begins[of] += (one.size - 1) * one.strides[of];
        one.strides[of] = -one.strides[of];
      }
    }
    if (!all.empty()) {
      Leading& inner = all.back();
      bool even = true;
      for (std::size_t of = 0; of < arrays.count(); ++of)
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

/// Removes the longest dimension that a batch can have from `leading`; a batch of one if there is
/// none.
Leading take_batch(std::vector<Leading>& leading) {
  const auto length = [](const Leading& one) {
    const bool backwards = std::any_of(one.strides.begin(), one.strides.end(),
                                       [](std::int64_t stride) { return stride < 0; });
    return backwards ? 0 : one.size;
  };
  const auto longest =
      std::max_element(leading.begin(), leading.end(),
                       [&](const Leading& x, const Leading& y) { return length(x) < length(y); });
  if (longest == leading.end() || length(*longest) == 0) return {};
  const Leading batch = *longest;
  leading.erase(longest);
  return batch;
}

void check_shapes(const View& a, const View& b, const View& out) {
  const std::vector<std::int64_t> shape = result_shape(a, b);
  if (out.dims == int(shape.size()) && std::equal(shape.begin(), shape.end(), out.shape.begin()))
    return;
  refuse("out has the shape " + shape_text(out) + ", but the product of a " + shape_text(a) +
         " and b " + shape_text(b) + " has " + text_of(shape, shape.size()));
}

}  // namespace

Quantization quantization_of(const View& x, const View& numbers, const View& scales) {
  for (const View* one : {&x, &numbers, &scales})
    if (one->dims != 2)
      refuse(one->name + " has the shape " + shape_text(*one) + "; a matrix has two dimensions");
  const std::int64_t blocks = (columns(x) + kScaledSteps - 1) / kScaledSteps;
  if (numbers.shape != x.shape)
    refuse("numbers have the shape " + shape_text(numbers) + "; that of x is " + shape_text(x));
  if (rows(scales) != rows(x) || columns(scales) != blocks)
    refuse("scales have the shape " + shape_text(scales) + "; with one for each " +
           std::to_string(kScaledSteps) + " columns of x they have (" + std::to_string(rows(x)) +
           ", " + std::to_string(blocks) + ")");
  if (scales.type != DType::f32)
    refuse("scales are of " + std::string(to_string(scales.type)) + "; they are of f32");
  for (const View* one : {&x, &numbers})
    if (storage_of(*one).transposed)
      refuse(one->name + " is transposed in memory: pass one whose rows are contiguous");
  const Storage of_scales = storage_of(scales);
  return {.from = x.type,
          .to = numbers.type,
          .rows = rows(x),
          .columns = columns(x),
          .matrix = x.data,
          .ld = storage_of(x).leading,
          .numbers = numbers.data,
          .ld_numbers = storage_of(numbers).leading,
          .scales = static_cast<float*>(scales.data),
          .ld_scales = of_scales.leading,
          .k_first = of_scales.transposed};
}

void check_types(const View& a, const View& b, const View& out) {
  if (a.type == b.type) return;
  std::string narrow;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == a.type && kind.c == out.type && kind.b != kind.a) {
      if (kind.b == b.type) return;
      narrow += (narrow.empty() ? ", or b is of " : ", ") + std::string(to_string(kind.b));
    }
  refuse("a is of " + std::string(to_string(a.type)) + " and b of " +
         std::string(to_string(b.type)) + ": both must have one type" + narrow);
}

namespace {

StridedArray elements_of(const View& view) {
  StridedArray elements;
  elements.data = view.data;
  elements.element_bytes = bytes_of(view.type);
  for (int i = 0; i < view.dims; ++i) {
    const auto at = std::size_t(i);
    const bool in_bytes = view.type == DType::i4;  // of two
    const bool contiguous = in_bytes && view.strides[at] == 1;
    elements.add(contiguous ? (view.shape[at] + 1) / 2 : view.shape[at],
                 in_bytes && !contiguous ? view.strides[at] / 2 : view.strides[at]);
  }
  return elements;
}

/// Whether two views are the same elements in the same order.
bool are_same(const View& x, const View& y) {
  return x.data == y.data && x.type == y.type && x.dims == y.dims && x.shape == y.shape &&
         x.strides == y.strides;
}

/// Checks all memory that an epilogue writes, and what it reads against what is written, over all
/// products of a call.
void check_memory_of(const Epilogue& epilogue, const std::vector<GivenOperand>& operands,
                     const View& a, const View& b, const View& out) {
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    if (!operands[slot].view) continue;
    const View& view = *operands[slot].view;
    const bool writes = epilogue.use(slot) != EpilogueUse::read;
    if (writes && !has_distinct_elements(elements_of(view)))
      refuse(view.name + " has elements that share memory, or may: strides " +
             text_of(view.strides, std::size_t(view.dims)) + "; pass a contiguous array");
    const auto apart = [&](const View& other) {
      if (share_elements(elements_of(view), elements_of(other)))
        refuse(view.name + " overlaps " + other.name +
               ": they share elements, or may, and one of them is written; pass another array");
    };
    const bool by_element = epilogue.over(slot) == EpilogueOver::elements;
    if (writes || !by_element || !are_same(view, out)) apart(out);
    if (!writes) continue;
    apart(a);
    apart(b);
    for (std::size_t other = 0; other < operands.size(); ++other)
      if (other != slot && operands[other].view) apart(*operands[other].view);
  }
}

/// Checks all memory that the products write before the first of them is served.
void check_memory(const View& a, const View& b, const View& out, bool reads) {
  const StridedArray written = elements_of(out);
  if (!has_distinct_elements(written))
    refuse("out has elements that share memory, or may: strides " +
           text_of(out.strides, std::size_t(out.dims)) + "; pass a contiguous array");
  for (const View* view : {&a, &b})
    if (reads && share_elements(written, elements_of(*view)))
      refuse("out overlaps " + view->name + ": they share elements, or may; pass another out");
}

/// Checks an array of an epilogue against out.
void check_operand(const View& view, const std::vector<std::int64_t>& own, EpilogueUse use,
                   const View& out) {
  const int own_dims = int(own.size()), leading = view.dims - own_dims;
  const auto size = [&](int at) { return view.shape[std::size_t(at)]; };
  bool fits = leading >= 0 && leading <= out.dims - 2;
  for (int i = 0; fits && i < own_dims; ++i) fits = size(leading + i) == own[std::size_t(i)];
  for (int i = 0; fits && i < out.dims - 2; ++i) {
    const int at = leading - 1 - i;
    const std::int64_t wanted = out.shape[std::size_t(out.dims - 3 - i)];
    const std::int64_t found = at < 0 ? 1 : size(at);
    fits = found == wanted || (found == 1 && use == EpilogueUse::read);
  }
  if (!fits)
    refuse(view.name + " has the shape " + shape_text(view) + "; with an out of " +
           shape_text(out) + " its last dimensions must be " + text_of(own, own.size()) +
           ", and those before must be out's" +
           (use == EpilogueUse::read ? " or 1, or be left out" : ""));
  const auto stride = [&](int at) { return view.strides[std::size_t(at)]; };
  const bool contiguous = own_dims == 0 || size(view.dims - 1) <= 1 || stride(view.dims - 1) == 1;
  const bool apart =
      own_dims < 2 || size(view.dims - 2) <= 1 || stride(view.dims - 2) >= size(view.dims - 1);
  if (!contiguous || !apart)
    refuse(view.name + " has strides " + text_of(view.strides, std::size_t(view.dims)) +
           " in elements: the last must be 1, and rows must not overlap");
  if (use != EpilogueUse::read && view.read_only) refuse(view.name + " is read-only");
}

Arrays arrays_of(const View& a, const View& b, const View& out, const Epilogue* epilogue,
                 const std::vector<GivenOperand>& operands) {
  Arrays arrays{&a, &b, &out, {}, {}};
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    const auto own = own_shape(*epilogue, slot, rows(out), columns(out), columns(a));
    arrays.operands.push_back(operands[slot].view ? &*operands[slot].view : nullptr);
    arrays.own_dims.push_back(int(own.size()));
    if (operands[slot].view) check_operand(*operands[slot].view, own, epilogue->use(slot), out);
  }
  return arrays;
}

const void* moved(const void* data, std::int64_t elements, DType type) {
  // Of i4 all strides but that of neighbours are even.
  return static_cast<const char*>(data) + elements * bits_of(type) / 8;
}

}  // namespace

std::vector<std::int64_t> own_shape(const Epilogue& epilogue, std::size_t slot, std::int64_t m,
                                    std::int64_t n, std::int64_t k) {
  const EpilogueOver over = epilogue.over(slot);
  const auto [rows, columns] = epilogue.shape(slot, m, n, k);
  if (over == EpilogueOver::all) return {};
  if (over == EpilogueOver::rows || over == EpilogueOver::columns) return {columns};
  return {rows, columns};
}

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

const EpilogueForm* form_with_types(const Epilogue& epilogue, DType c,
                                    const std::vector<GivenOperand>& operands) {
  // Calls repeat their types: the forms that a thread has used are kept.
  using Key = std::pair<const EpilogueForm*, std::array<int, kMostArrays>>;
  constexpr std::size_t kMostKept = 256;
  thread_local std::map<Key, const EpilogueForm*> kept;
  Key key{epilogue.form(), {static_cast<int>(c)}};
  for (std::size_t slot = 0; slot < operands.size(); ++slot)
    key.second[slot + 1] =
        operands[slot].view ? 1 + static_cast<int>(operands[slot].view->type) : 0;
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  Epilogue typed = epilogue;
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    if (!operands[slot].view) continue;
    const View& view = *operands[slot].view;
    typed = typed.with_type(slot, view.type);
    if (typed.type(slot) != view.type)
      refuse(view.name + " is of " + std::string(to_string(view.type)) + "; the epilogue states " +
             std::string(to_string(*typed.type(slot))));
  }
  Problem problem;
  problem.c.type = c;
  set_epilogue(problem, typed);
  if (kept.size() >= kMostKept) kept.clear();
  return kept[key] = problem.epilogue;
}

std::vector<Product> products_of(const View& a, const View& b, const View& out, MathMode math,
                                 bool reads, const Epilogue* epilogue,
                                 const std::vector<GivenOperand>& operands, bool invariant) {
  check_shapes(a, b, out);
  check_types(a, b, out);
  if (out.read_only) refuse("out is read-only");
  // Without rows an epilogue's sums over rows are zeros, which a product writes.
  for (int i = 0; i < out.dims; ++i)
    if (out.shape[std::size_t(i)] == 0 && !(epilogue && i == out.dims - 2)) return {};
  check_memory(a, b, out, reads);
  if (epilogue) check_memory_of(*epilogue, operands, a, b, out);
  // One leading dimension is the batch; the others are a loop.
  const Arrays arrays = arrays_of(a, b, out, epilogue, operands);
  Strides begins{};
  std::vector<Leading> leading = leading_of(arrays, begins);
  const Leading batch = take_batch(leading);
  Storage left = storage_of(a), right = storage_of(b);
  const Storage result = storage_of(out);
  const View *first = &a, *second = &b;
  std::size_t of_first = 0, of_second = 1;
  std::int64_t m = rows(a), n = columns(b);
  if (result.transposed && epilogue)
    refuse("out is stored by columns; with an epilogue its rows must be contiguous");
  if (result.transposed && a.type != b.type)
    refuse(
        "out is stored by columns; where b has another type than a, its rows must be contiguous");
  if (result.transposed && invariant)
    refuse("out is stored by columns; in an invariant product its rows must be contiguous");
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
  one.problem = typed_problem(layout, m, n, columns(a), a.type, b.type, out.type, math, batch.size);
  one.call.a = moved(first->data, begins[of_first], first->type);
  one.call.b = moved(second->data, begins[of_second], second->type);
  one.call.c = const_cast<void*>(moved(out.data, begins[2], out.type));
  one.call.lda = std::max(left.leading, min_lda(one.problem));
  one.call.ldb = std::max(right.leading, min_ldb(one.problem));
  one.call.ldc = std::max(result.leading, min_ldc(one.problem));
  if (batch.size > 1) {
    one.call.stride_a = batch.strides[of_first];
    one.call.stride_b = batch.strides[of_second];
    one.call.stride_c = batch.strides[2];
  }
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    EpilogueOperand& bound = one.operands.emplace_back();
    bound.value = operands[slot].value;
    const View* view = arrays.operands[slot];
    if (!view) continue;
    bound.data = moved(view->data, begins[3 + slot], view->type);
    bound.stride = batch.strides[3 + slot];
    if (arrays.own_dims[slot] == 2)
      bound.ld = std::max(view->shape[std::size_t(view->dims - 1)],
                          view->strides[std::size_t(view->dims - 2)]);
  }
  if (epilogue) one.problem.epilogue = form_with_types(*epilogue, out.type, operands);
  set_invariant(one.problem, invariant);
  std::vector<Product> all{one};
  for (const Leading& loop : leading) {
    const std::size_t before = all.size();
    for (std::int64_t i = 1; i < loop.size; ++i)
      for (std::size_t j = 0; j < before; ++j) {
        Product next = all[j];
        next.call.a = moved(next.call.a, i * loop.strides[of_first], first->type);
        next.call.b = moved(next.call.b, i * loop.strides[of_second], second->type);
        next.call.c = const_cast<void*>(moved(next.call.c, i * loop.strides[2], out.type));
        for (std::size_t slot = 0; slot < next.operands.size(); ++slot)
          if (const View* view = arrays.operands[slot])
            next.operands[slot].data =
                moved(next.operands[slot].data, i * loop.strides[3 + slot], view->type);
        all.push_back(next);
      }
  }
  return all;
}

}  // namespace tilewise::python
