#include "python/arrays.hpp"

#include <algorithm>
#include <unordered_map>

#include "python/dlpack.hpp"
#include "python/gil.hpp"
#include "python/hidden.hpp"
#include "python/options.hpp"
#include "tilewise/error.hpp"

namespace nb = nanobind;

namespace tilewise::python {
namespace {

std::string type_text(nb::handle object) {
  return nb::cast<std::string>(nb::str(get(object.type(), "__module__"))) + "." +
         nb::cast<std::string>(nb::str(get(object.type(), "__name__")));
}

[[noreturn]] void refuse(const std::string& message) { throw nb::type_error(message.c_str()); }

std::string type_list() {
  std::string text;
  for (const DTypeInfo& info : dtypes())
    if (info.bits >= 8) text += (text.empty() ? "" : ", ") + std::string(info.name);
  return text;
}

/// A type in DLPack, and its name in PyTorch, NumPy and ml_dtypes.
struct TypeRow {
  DType type;
  dlpack::TypeCode code;
  const char* name;
};
constexpr TypeRow kTypes[] = {{DType::f32, dlpack::kFloat, "float32"},
                              {DType::f64, dlpack::kFloat, "float64"},
                              {DType::f16, dlpack::kFloat, "float16"},
                              {DType::bf16, dlpack::kBfloat, "bfloat16"},
                              {DType::i8, dlpack::kInt, "int8"},
                              {DType::i32, dlpack::kInt, "int32"},
                              {DType::e4m3, dlpack::kFloat8E4m3fn, "float8_e4m3fn"},
                              {DType::e5m2, dlpack::kFloat8E5m2, "float8_e5m2"}};

const TypeRow& row_of(DType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row;
  throw Error(ErrorKind::unsupported, "arrays have no type " + std::string(to_string(type)));
}
dlpack::DataType dlpack_type(DType type) {
  return {row_of(type).code, static_cast<std::uint8_t>(8 * bytes_of(type)), 1};
}
DType type_of(const dlpack::DataType& type, const std::string& name) {
  for (const TypeRow& row : kTypes)
    if (type.lanes == 1 && type.code == row.code && type.bits == 8 * bytes_of(row.type))
      return row.type;
  refuse(name + " is of DLPack's type (code " + std::to_string(type.code) + ", " +
         std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) +
         " lanes); products have " + type_list());
}
DType type_of_name(const std::string& text, const std::string& name) {
  for (const TypeRow& row : kTypes)
    if (text == row.name) return row.type;
  refuse(name + " is of the type " + text + "; products have " + type_list());
}

int dims_of(std::int64_t count, const std::string& name) {
  if (count > kMostDims)
    refuse(name + " has " + std::to_string(count) + " dimensions; at most " +
           std::to_string(kMostDims) + " are taken");
  return static_cast<int>(count);
}

void row_major_strides(View& view) {
  std::int64_t step = 1;
  for (int i = view.dims - 1; i >= 0; --i) {
    view.strides[std::size_t(i)] = step;
    step *= std::max<std::int64_t>(1, view.shape[std::size_t(i)]);
  }
}

void read_tensor(View& view, const dlpack::Tensor& tensor) {
  view.dims = dims_of(tensor.dims, view.name);
  view.type = type_of(tensor.type, view.name);
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  for (int i = 0; i < view.dims; ++i) {
    view.shape[std::size_t(i)] = tensor.shape[i];
    if (tensor.strides) view.strides[std::size_t(i)] = tensor.strides[i];
  }
  if (!tensor.strides) row_major_strides(view);
  switch (tensor.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      view.place = View::Place::host;
      break;
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      view.place = View::Place::cuda;
      break;
    default:
      refuse(view.name + " is on a device that is neither a CPU nor CUDA's (DLPack's device type " +
             std::to_string(tensor.device.type) + ")");
  }
  view.device = tensor.device.index;
}

/// The table of functions of an object's type, or null. Types are kept alive, so that their
/// addresses are not reused.
const dlpack::Exchange* exchange_of(nb::handle object) {
  static auto& known = *new std::unordered_map<PyTypeObject*, const dlpack::Exchange*>;
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (const auto found = known.find(type); found != known.end()) return found->second;
  const dlpack::Exchange* table = nullptr;
  const nb::handle of_type(reinterpret_cast<PyObject*>(type));
  if (has(of_type, "__dlpack_c_exchange_api__")) {
    const nb::object capsule = get(of_type, "__dlpack_c_exchange_api__");
    table = static_cast<const dlpack::Exchange*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    PyErr_Clear();
    if (table && (table->version.major != 1 || !table->view_of || !table->current_stream))
      table = nullptr;
  }
  Py_INCREF(type);
  known.emplace(type, table);
  return table;
}

[[noreturn]] void raise_python() { throw nb::python_error(); }

/// The name of the type that __array_interface__ states. For ml_dtypes it states "V" only.
std::string numpy_name(nb::handle object, const std::string& typestr, const std::string& name) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"f4", "float32"}, {"f8", "float64"}, {"f2", "float16"}, {"i1", "int8"}, {"i4", "int32"}};
  for (const auto& [text, known] : kNames)
    if (typestr.substr(std::min<std::size_t>(1, typestr.size())) == text) return known;
  if (has(object, "dtype") && has(get(object, "dtype"), "name"))
    return text_of(get(get(object, "dtype"), "name"));
  refuse(name + " is of the type " + typestr + "; products have " + type_list());
}

}  // namespace

Array::Array(nb::handle object, const char* name) : object_(object) {
  view_.name = name;
  if (has(object, "__tilewise_int4__")) {
    int4_ = true;
    int4_transposed_ = nb::cast<bool>(get(object, "transposed"));
    object_ = get(object, "array");  // which the Int4 holds
  }
  readable([this] { describe(); });
  if (by_ != By::capsule) read_as_int4();
}

/// A byte of the last dimension is two numbers.
void Array::read_as_int4() {
  if (!int4_) return;
  const auto last = std::size_t(view_.dims - 1);
  if (view_.type != DType::i8 || view_.dims < 2 ||
      (view_.shape[last] > 1 && view_.strides[last] != 1))
    refuse(view_.name + " is an Int4 of an array of " + std::string(to_string(view_.type)) +
           ", shape " + shape_text(view_) +
           "; it is of bytes, which are contiguous along the last of two or more dimensions");
  view_.type = DType::i4;
  for (int i = 0; i < view_.dims; ++i) view_.strides[std::size_t(i)] *= 2;
  view_.strides[last] = 1;
  view_.shape[last] *= 2;
  if (!int4_transposed_) return;
  std::swap(view_.shape[last], view_.shape[last - 1]);
  std::swap(view_.strides[last], view_.strides[last - 1]);
}

/// Turns a failure to read an array into an Error with the array's name.
template <class Work>
void Array::readable(Work work) const {
  std::optional<nb::python_error> failure;
  try {
    return work();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
    failure.emplace(std::move(error));
  } catch (const nb::cast_error&) {
  }
  // After the handlers, in which stay_at_the_end() cannot hold a thread.
  const std::string what = view_.name + ", a " + type_text(object_) + ", cannot be read: ";
  if (!failure) refuse(what + "it describes itself by a value of an unexpected type");
  throw Error(ErrorKind::invalid_argument,
              what + text_of(get(failure->type(), "__name__")) + ": " + text_of(failure->value()));
}

void Array::describe() {
  const ArrayType& type = array_type_of(object_);
  torch_ = type.torch;
  refuse_hidden(object_, type, view_.name);
  if (const dlpack::Exchange* table = exchange_of(object_)) {
    by_ = By::exchange;
    exchange_ = table;
    dlpack::Tensor tensor{};
    if (table->view_of(object_.ptr(), &tensor) != 0) raise_python();
    read_tensor(view_, tensor);
  } else if (torch_) {
    by_ = By::torch;
    read_torch();
  } else if (type_text(object_).rfind("jaxlib.", 0) == 0) {
    // JAX's __cuda_array_interface__ does not have all types.
    by_ = By::capsule;
    jax_ = true;
  } else if (has(object_, "__cuda_array_interface__")) {
    by_ = By::cuda_interface;
    read_cuda_interface(interface_named("__cuda_array_interface__"));
  } else if (has(object_, "__array_interface__")) {
    by_ = By::array_interface;
    read_interface(interface_named("__array_interface__"));
  } else if (has(object_, "__dlpack__")) {
    by_ = By::capsule;
  } else {
    refuse(view_.name + " is a " + type_text(object_) +
           "; it must be an array with DLPack, __cuda_array_interface__ or __array_interface__, as "
           "those of "
           "PyTorch, CuPy, Numba, JAX and NumPy");
  }
}

void Array::read(StreamHandle stream) {
  if (by_ != By::capsule) return;
  readable([&] { read_capsule(stream); });
  read_as_int4();
}

void Array::written() const {
  if (!torch_) return;
  static const nb::handle increment = [] {
    const nb::object graph = imported("torch.autograd.graph");
    nb::object found =
        has(graph, "increment_version") ? get(graph, "increment_version") : nb::none();
    return found.release();
  }();
  if (!increment.is_none()) call(nb::borrow(increment), object_);
}

Array::~Array() {
  if (release_ && PyGILState_Check()) release_();
}

void Array::read_torch() {
  const nb::object shape = get(object_, "shape"), strides = call(get(object_, "stride"));
  view_.dims = dims_of(static_cast<std::int64_t>(nb::len(shape)), view_.name);
  for (int i = 0; i < view_.dims; ++i) {
    view_.shape[std::size_t(i)] = nb::cast<std::int64_t>(shape[i]);
    view_.strides[std::size_t(i)] = nb::cast<std::int64_t>(strides[i]);
  }
  const nb::object dtype = get(object_, "dtype");
  const auto type = nb::cast<std::string>(nb::str(nb::handle(dtype)));  // "torch.float32"
  view_.type = type_of_name(type.substr(type.find('.') + 1), view_.name);
  const nb::object device = get(object_, "device");
  const auto kind = nb::cast<std::string>(get(device, "type"));
  if (kind == "cuda") {
    view_.place = View::Place::cuda;
    view_.device = nb::cast<int>(get(device, "index"));
  } else if (kind != "cpu") {
    refuse(view_.name + " is on the device " + kind + ", which is neither cpu nor cuda");
  }
  view_.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(call(get(object_, "data_ptr"))));
}

nb::dict Array::interface_named(const char* name) const {
  return nb::cast<nb::dict>(get(object_, name));
}

void Array::read_interface(const nb::dict& interface) {
  refuse_mask(interface, view_.name);
  const nb::object shape = interface["shape"];
  view_.dims = dims_of(static_cast<std::int64_t>(nb::len(shape)), view_.name);
  for (int i = 0; i < view_.dims; ++i)
    view_.shape[std::size_t(i)] = nb::cast<std::int64_t>(shape[i]);
  const nb::object stated = interface["typestr"];
  const auto typestr = nb::cast<std::string>(stated);
  view_.type = type_of_name(numpy_name(object_, typestr, view_.name), view_.name);
  if (typestr.starts_with('>')) refuse(view_.name + " has big-endian elements (" + typestr + ")");
  row_major_strides(view_);
  if (interface.contains("strides") && !nb::object(interface["strides"]).is_none()) {
    const nb::object strides = interface["strides"];
    for (int i = 0; i < view_.dims; ++i) {
      if (view_.shape[std::size_t(i)] <= 1) continue;  // its stride may be any number
      const auto bytes = nb::cast<std::int64_t>(strides[i]);
      if (bytes % bytes_of(view_.type) != 0)
        refuse(view_.name + " has a stride of " + std::to_string(bytes) +
               " bytes, no multiple of its elements' " + std::to_string(bytes_of(view_.type)));
      view_.strides[std::size_t(i)] = bytes / bytes_of(view_.type);
    }
  }
  const nb::object data = interface["data"];
  view_.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
  view_.read_only = nb::cast<bool>(data[1]);
}

void Array::read_cuda_interface(const nb::dict& interface) {
  read_interface(interface);
  view_.place = View::Place::cuda;
  if (has(object_, "device") && has(get(object_, "device"), "id"))
    view_.device = nb::cast<int>(get(get(object_, "device"), "id"));
  else if (type_text(object_).rfind("numba.", 0) == 0)
    view_.device =
        nb::cast<int>(get(call(get(imported("numba.cuda"), "get_current_device")), "id"));
  if (interface.contains("stream") && !nb::object(interface["stream"]).is_none())
    stated_ = nb::cast<std::uintptr_t>(interface["stream"]);
}

/// Requests version 1 of DLPack if the producer has it, because version 0 cannot express read-only
/// memory.
nb::object Array::capsule_for(StreamHandle stream) const {
  const nb::object device = call(get(object_, "__dlpack_device__")),
                   producer = get(object_, "__dlpack__");
  const int kind = nb::cast<int>(nb::int_(device[0]));
  nb::dict arguments;
  // 1 is CUDA's legacy default stream in this protocol, 0 is ambiguous.
  if (kind == dlpack::kCuda || kind == dlpack::kCudaManaged)
    arguments["stream"] = stream.value_or(0) == 0 ? 1 : *stream;
  const nb::object before_version_1 = call(get(arguments, "copy"));
  arguments["max_version"] = nb::make_tuple(1, 0);
  try {
    return call(producer, **arguments);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // no argument max_version
  }
  return call(producer, **nb::borrow<nb::dict>(before_version_1));
}

void Array::read_capsule(StreamHandle stream) {
  const nb::object capsule = capsule_for(stream);
  if (auto* held =
          static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))) {
    read_tensor(view_, held->tensor);
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    release_ = [held] {
      if (held->deleter) held->deleter(held);
    };
    return;
  }
  PyErr_Clear();
  auto* held = static_cast<dlpack::VersionedTensor*>(
      PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
  if (!held) raise_python();
  if (held->version.major != 1)
    refuse(view_.name + " has version " + std::to_string(held->version.major) +
           " of DLPack; 1 is read");
  read_tensor(view_, held->tensor);
  // Results written into a copy would be lost. JAX's arrays have is_immutable().
  view_.read_only = !jax_ && (held->flags & (dlpack::kReadOnly | dlpack::kCopied)) != 0;
  PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
  release_ = [held] {
    if (held->deleter) held->deleter(held);
  };
}

StreamHandle Array::current_stream() const {
  if (view_.place == View::Place::host || by_ == By::capsule) return std::nullopt;
  if (by_ == By::exchange) {
    void* stream = nullptr;
    const auto* table = static_cast<const dlpack::Exchange*>(exchange_);
    if (table->current_stream(dlpack::kCuda, view_.device, &stream) != 0) raise_python();
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  if (by_ == By::torch) {
    static const nb::handle current =
        get(get(imported("torch"), "_C"), "_cuda_getCurrentRawStream").release();
    return nb::cast<std::uintptr_t>(call(nb::borrow(current), view_.device));
  }
  // CUDA's numbers of its default streams in this protocol: 1 legacy, 2 per thread.
  return stated_ == StreamHandle(1) ? StreamHandle(0) : stated_;
}

nb::object Array::make(const std::vector<std::int64_t>& shape, DType type) const {
  if (by_ == By::exchange) {
    const auto* table = static_cast<const dlpack::Exchange*>(exchange_);
    if (table->allocate && table->object_of) {
      std::vector<std::int64_t> sizes = shape, strides(shape.size());
      std::int64_t step = 1;
      for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
      dlpack::Tensor prototype{};
      prototype.device = {view_.place == View::Place::cuda ? dlpack::kCuda : dlpack::kCpu,
                          view_.device};
      prototype.dims = static_cast<std::int32_t>(shape.size());
      prototype.type = dlpack_type(type);
      prototype.shape = sizes.data();
      prototype.strides = strides.data();
      dlpack::VersionedTensor* made = nullptr;
      const auto set_error = [](void*, const char*, const char* message) {
        PyErr_SetString(PyExc_RuntimeError, message);
      };
      if (table->allocate(&prototype, &made, nullptr, set_error) != 0) raise_python();
      void* object = nullptr;
      if (table->object_of(made, &object) != 0) raise_python();
      return nb::steal(static_cast<PyObject*>(object));
    }
  }
  const nb::tuple size = nb::tuple(nb::cast(shape));
  const char* const type_name = row_of(type).name;
  if (torch_)
    return call(get(object_, "new_empty"), size,
                nb::arg("dtype") = get(imported("torch"), type_name));
  const std::string library = type_text(object_).substr(0, type_text(object_).find('.'));
  if (library == "cupy") return call(get(imported("cupy"), "empty"), size, type_name);
  if (library == "numba")
    return call(get(imported("numba.cuda"), "device_array"), size, nb::arg("dtype") = type_name);
  if (by_ == By::array_interface) {
    const bool own = type == DType::bf16 || is_fp8(type);  // types of ml_dtypes
    const nb::object numpy = imported("numpy");
    const nb::object of =
        own ? get(imported("ml_dtypes"), type_name) : nb::object(nb::str(type_name));
    return call(get(numpy, "empty"), size, nb::arg("dtype") = of);
  }
  refuse("out is needed: no array that may be written can be made for " + type_text(object_));
}

}  // namespace tilewise::python
