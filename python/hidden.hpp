#pragma once
#include <nanobind/nanobind.h>

#include <string>

namespace tilewise::python {

/// Properties of a type of arrays.
struct ArrayType {
  bool torch = false;  ///< PyTorch's Tensor or a subclass
  /// How a subclass of another library's arrays may give the memory another meaning, such as
  /// "numpy.ma.MaskedArray has its own __array_finalize__". Empty: it does not.
  std::string meaning;
};
/// The properties of the object's type. They are found for the first object of a type and cached.
const ArrayType& array_type_of(nanobind::handle object);

/// Throws if the memory of an array does not contain its whole meaning, because the product would
/// ignore the rest: nanobind::type_error for a subclass with its own meaning, nanobind::value_error
/// for a tensor with a pending negation, or one that requires a gradient (the
/// product would have none).
void refuse_hidden(nanobind::handle object, const ArrayType& type, const std::string& name);

/// The same check for the key "mask" of __array_interface__ and __cuda_array_interface__.
void refuse_mask(const nanobind::dict& interface, const std::string& name);

}  // namespace tilewise::python
