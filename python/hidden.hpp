#pragma once
#include <nanobind/nanobind.h>

#include <string>

namespace tilewise::python {

/// What is known of a type of arrays.
struct ArrayType {
  bool torch = false;  ///< PyTorch's Tensor or a subclass
  /// "numpy.ma.MaskedArray has its own __array_finalize__": how a subclass of another library's
  /// arrays may give the memory another meaning. Empty: it has none.
  std::string meaning;
};
/// Of the object's type. The first object of a type is looked at, later ones are looked up.
const ArrayType& array_type_of(nanobind::handle object);

/// Throws where the memory of an array does not show all that it means, which the product would
/// lose: nanobind::type_error for a subclass with a meaning of its own, nanobind::value_error for a
/// tensor whose sign is pending or that requires a gradient (the product would have none).
void refuse_hidden(nanobind::handle object, const ArrayType& type, const std::string& name);

/// The same for the key "mask" of __array_interface__ and __cuda_array_interface__.
void refuse_mask(const nanobind::dict& interface, const std::string& name);

}  // namespace tilewise::python
