#pragma once
// The type casters are included here, for all files: a cast that is compiled with a caster in one
// file and without it in another has two definitions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <string>

#include "python/product.hpp"

namespace tilewise::python {

/// A CUDA stream from a framework: none, or a handle.
using StreamHandle = std::optional<std::uintptr_t>;

/// A view of an array of any framework. Valid as long as this object and the array.
class Array {
 public:
  /// Views `object`, which messages call `name`. Uses DLPack's C interface if its type has that;
  /// otherwise PyTorch's own attributes, __cuda_array_interface__, __array_interface__ or
  /// __dlpack__, in this order; for JAX's arrays __dlpack__. Arrays viewed by __dlpack__ are read
  /// by read(). The caller holds the GIL. Throws nanobind::type_error for an object that is not an
  /// array, whose meaning is not in its memory alone (hidden.hpp), or whose type no product has.
  /// Throws Error(invalid_argument) with the reason for an array that cannot be read.
  Array(nanobind::handle object, const char* name);
  /// Reads an array by __dlpack__. Its producer orders its work before later work on `stream`.
  /// Throws as the constructor does.
  void read(StreamHandle stream);
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  /// Returns a capsule, except in a thread that lost the GIL at the end of the interpreter.
  ~Array();

  const View& view() const { return view_; }
  /// Whether the framework treats its arrays as constants.
  bool is_immutable() const { return jax_; }
  /// Informs the framework that the array has been written.
  void written() const;
  /// The framework's current stream, or the one that the array states; none if it names none.
  StreamHandle current_stream() const;
  /// A new row-major array of the same framework on the same device. Throws nanobind::type_error
  /// for frameworks whose new arrays cannot be written.
  nanobind::object make(const std::vector<std::int64_t>& shape, DType type) const;

 private:
  enum class By : std::uint8_t { exchange, torch, cuda_interface, array_interface, capsule };

  template <class Work>
  void readable(Work work) const;
  void describe();
  nanobind::object capsule_for(StreamHandle stream) const;
  nanobind::dict interface_named(const char* name) const;
  void read_torch();
  void read_cuda_interface(const nanobind::dict& interface);
  void read_capsule(StreamHandle stream);
  void read_interface(const nanobind::dict& interface);

  nanobind::handle object_;
  By by_;
  void read_as_int4();
  bool torch_ = false, jax_ = false;
  bool int4_ = false, int4_transposed_ = false;  ///< of an Int4, whose array this views
  View view_;
  const void* exchange_ = nullptr;  ///< dlpack::Exchange
  StreamHandle stated_;
  std::function<void()> release_;  ///< releases a capsule
};

}  // namespace tilewise::python
