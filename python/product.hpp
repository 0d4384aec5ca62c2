#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilewise/call.hpp"
#include "tilewise/epilogue.hpp"
#include "tilewise/problem.hpp"
#include "tilewise/quantization.hpp"
#include "tilewise/strided_array.hpp"

namespace tilewise::python {

constexpr int kMostDims = StridedArray::kMostDims;

/// The properties of a framework's array that a product needs. Strides are in elements.
struct View {
  enum class Place : std::uint8_t { host, cuda };

  std::string name;  ///< "a", "b", "out": for messages
  void* data = nullptr;
  DType type = DType::f32;
  int dims = 0;
  std::array<std::int64_t, kMostDims> shape{}, strides{};
  Place place = Place::host;
  int device = 0;  ///< CUDA's index
  bool read_only = false;
};

/// "(2, 3)".
std::string shape_text(const View& view);
/// The shape of the product of a and b: their leading dimensions, broadcast as in NumPy, then m and
/// n. Throws Error(invalid_argument) with both shapes if they do not match, and for views with
/// fewer than two dimensions.
std::vector<std::int64_t> result_shape(const View& a, const View& b);

/// The storage of one matrix.
struct Stored {
  std::int64_t rows, columns;  ///< of the view
  bool transposed;
  std::int64_t leading;  ///< leading dimension in elements
};
/// Throws Error(invalid_argument) if the view is not a matrix, or if its strides do not fit.
Stored stored_matrix(const View& view);

/// An operand of an epilogue: an array, or the value of a scalar.
struct GivenOperand {
  std::optional<View> view;
  double value = 0;
};
/// The sizes that an operand of an epilogue has besides those of a batch.
std::vector<std::int64_t> own_shape(const Epilogue& epilogue, std::size_t slot, std::int64_t m,
                                    std::int64_t n, std::int64_t k);
/// The epilogue with the types of the arrays, where its text states none, for results of type `c`.
/// Throws Error(invalid_argument) for an array of another type than stated. Thread-safe.
const EpilogueForm* form_with_types(const Epilogue& epilogue, DType c,
                                    const std::vector<GivenOperand>& operands);

/// A quantization, without stream, of the rows of x (m, k) to `numbers` (m, k) and `scales` (m, k /
/// 128), rounded up, whose rows or columns are contiguous. Throws Error(invalid_argument) for other
/// shapes and strides.
Quantization quantization_of(const View& x, const View& numbers, const View& scales);

/// Throws Error(invalid_argument) where no product has an a and a b of these types.
void check_types(const View& a, const View& b, const View& out);

/// One product, or a batch of products at equal distances.
struct Product {
  Problem problem;
  Call call;  ///< without stream, alpha, beta and operands
  std::vector<EpilogueOperand> operands;
};
/// Splits out = a b into few products. Leading dimensions over which all three arrays have equal
/// distances are merged, and the longest one along which no operand is stored backwards becomes the
/// batch. Operands and results that are transposed in memory are used as stored. Throws
/// Error(invalid_argument) for shapes, types or strides that do not fit. If `reads` (a and b are
/// read), it also throws for an `out` that shares or may share an element with a or b.
///
/// `epilogue`, if not null: of all products, with its operands by slot. Their last dimensions are
/// those of out for name[i,j], n for name[j], m for name[i], none for scalars; dimensions before
/// are broadcast to those of out, unless the operand is written. Rows of out and of operands are
/// contiguous then.
///
/// `invariant`: as by set_invariant(); rows of out are contiguous then.
std::vector<Product> products_of(const View& a, const View& b, const View& out, MathMode math,
                                 bool reads, const Epilogue* epilogue = nullptr,
                                 const std::vector<GivenOperand>& operands = {},
                                 bool invariant = false);

}  // namespace tilewise::python
