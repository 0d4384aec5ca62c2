#pragma once
// The type casters are here, for all files: a cast that is compiled with one and without it has two
// definitions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <string>

#include "python/product.hpp"

namespace tilewise::python {

/// A CUDA stream as frameworks give it: none, or a handle.
using StreamHandle = std::optional<std::uintptr_t>;

/// A view of an array of any framework, valid as long as this object and the array.
class Array {
 public:
  /// Of `object`, called `name` in messages: by DLPack's C interface where its type has that, else
  /// PyTorch's own attributes, __cuda_array_interface__, __array_interface__, __dlpack__ in this
  /// order; JAX's arrays by __dlpack__. Those by __dlpack__ are read by read(). The caller holds
  /// the GIL. Throws nanobind::type_error for an object that is no array, that has a meaning beside
  /// its memory (hidden.hpp) or is of a type that no product has; Error(invalid_argument) with the
  /// reason of an array that does not let itself be read.
  Array(nanobind::handle object, const char* name);
  /// Reads an array by __dlpack__, whose producer orders its work before what `stream` does next.
  /// Throws as the constructor does.
  void read(StreamHandle stream);
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  /// Gives a capsule back; not in a thread that lost the GIL to the end of the interpreter.
  ~Array();

  const View& view() const { return view_; }
  /// Whether the framework takes its arrays for constants.
  bool is_immutable() const { return jax_; }
  /// Tells the framework that the array has been written.
  void written() const;
  /// The stream on which the framework works now, or that the array states; none: it names none.
  StreamHandle current_stream() const;
  /// A new array of the same framework on the same device, row-major. Throws nanobind::type_error
  /// for frameworks whose arrays cannot be made to be written.
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
  bool torch_ = false, jax_ = false;
  View view_;
  const void* exchange_ = nullptr;  ///< dlpack::Exchange
  StreamHandle stated_;
  std::function<void()> release_;  ///< of a capsule
};

}  // namespace tilewise::python
