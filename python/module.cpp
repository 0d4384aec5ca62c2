// The extension module tilewise._tilewise.
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "python/arrays.hpp"
#include "python/multipliers.hpp"
#include "python/product.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "tilewise/version.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tilewise::python {
namespace {

OnMiss parse_on_miss(const std::string& name) {
  constexpr std::pair<const char*, OnMiss> kNames[] = {{"serve", OnMiss::serve},
                                                       {"record", OnMiss::record},
                                                       {"error", OnMiss::error},
                                                       {"tune", OnMiss::tune}};
  for (const auto& [known, value] : kNames)
    if (name == known) return value;
  throw Error(ErrorKind::invalid_argument,
              "on_miss is one of serve, record, error, tune, not " + name);
}

/// "cuda:1", "1", 1, None.
std::string device_text(nb::handle device) {
  if (device.is_none()) return "";
  std::string text = nb::cast<std::string>(nb::str(device));
  if (text == "cuda") return "current";
  if (text.rfind("cuda:", 0) == 0) return text.substr(5);
  return text;
}

/// A problem from its sizes and names.
Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
                   const std::string& type, const std::optional<std::string>& out,
                   const std::string& math, std::int64_t batch) {
  const DType operand = parse_dtype(type);
  return typed_problem(parse_layout(layout), m, n, k, operand,
                       out ? parse_dtype(*out) : default_result(operand), parse_math_mode(math),
                       batch);
}

nb::dict dict_of(const Problem& problem) {
  nb::dict made;
  made["layout"] = std::string(to_string(problem.layout));
  made["m"] = problem.m, made["n"] = problem.n, made["k"] = problem.k;
  made["dtype"] = std::string(to_string(problem.a));
  made["out"] = std::string(to_string(problem.c));
  made["math"] = std::string(to_string(problem.math));
  made["batch"] = problem.batch;
  return made;
}

nb::dict dict_of(const Match& match) {
  nb::dict made;
  made["match"] = std::string(to_string(match.kind));
  made["problem"] = dict_of(match.problem);
  made["kernel_template"] = match.kernel_template;
  made["configuration"] = nb::module_::import_("json").attr("loads")(match.configuration);
  made["measured_us"] = match.measured_us;
  made["measured_tflops"] = match.measured_tflops;
  made["measured_at"] = match.measured_at;
  made["stale"] = match.stale;
  made["distance"] = match.distance;
  made["predicted_us"] = match.predicted_us;
  made["limited_by"] = match.limited_by;
  made["why"] = match.why;
  return made;
}

Multipliers& multipliers() {
  static auto& all = *new Multipliers;
  return all;
}

/// The device that all three arrays are on.
std::string device_of(const Array& a, const Array& b, const Array& out, nb::handle wanted) {
  const auto place_text = [](const View& view) {
    return view.place == View::Place::host ? std::string("the CPU")
                                           : "cuda:" + std::to_string(view.device);
  };
  for (const Array* other : {&b, &out}) {
    const View &first = a.view(), &view = other->view();
    if (view.place != first.place || view.device != first.device)
      throw Error(ErrorKind::invalid_argument, "a is on " + place_text(first) + " and " +
                                                   view.name + " on " + place_text(view) +
                                                   ": all arrays must be on one device");
  }
  const std::string text = device_text(wanted);
  if (a.view().place == View::Place::host) {
    if (text.empty())
      throw Error(ErrorKind::invalid_argument,
                  "the arrays are in the CPU's memory: device=\"host\" multiplies on the CPU (for "
                  "tests: it is "
                  "slow), and device=0 copies them to the first GPU and back");
    return text;
  }
  const std::string own = std::to_string(a.view().device);
  if (!text.empty() && text != own && text != "current")
    throw Error(ErrorKind::invalid_argument,
                "the arrays are on cuda:" + own + ", but device is " + text);
  return own;
}

StreamHandle stream_of(nb::handle stream) {
  if (stream.is_none()) return std::nullopt;
  for (const char* attribute : {"cuda_stream", "ptr", "handle"}) {
    if (!nb::hasattr(stream, attribute)) continue;
    nb::object value = stream.attr(attribute);
    if (nb::hasattr(value, "value")) value = value.attr("value");  // of ctypes, where 0 is None
    return value.is_none() ? 0 : nb::cast<std::uintptr_t>(nb::int_(value));
  }
  return nb::cast<std::uintptr_t>(nb::int_(stream));
}

/// The stream that the arrays' frameworks name, where it is not given. Then arrays by __dlpack__
/// are read: their producers order their work before what that stream does next.
StreamHandle read_all(std::initializer_list<Array*> arrays, StreamHandle given) {
  StreamHandle common = given;
  for (const Array* array : arrays) {
    const StreamHandle own = given ? given : array->current_stream();
    if (!own) continue;
    if (common && *common != *own)
      throw Error(ErrorKind::invalid_argument,
                  "the arrays' streams differ: pass stream=, and let it wait for the others");
    common = own;
  }
  for (Array* array : arrays) array->read(common);
  return common;
}

/// What pack() returns: an operand b in the form that its kernel needs, the array itself, and the
/// multiplier that made it.
struct Packed {
  nb::object array, device;
  PackedOperand operand;
  std::shared_ptr<Multiplier> multiplier;
};

nb::object multiply(nb::handle a, nb::handle b, nb::handle out, Scalars scalars, const Mode& mode,
                    nb::handle stream, nb::handle device, bool into_immutable) {
  const StreamHandle given = stream_of(stream);
  const Packed* packed = nb::isinstance<Packed>(b) ? nb::inst_ptr<Packed>(b) : nullptr;
  Array left(a, "a"), right(packed ? nb::handle(packed->array) : b, "b");
  if (out.is_none() && scalars.beta != 0)
    throw Error(ErrorKind::invalid_argument,
                "beta is " + std::to_string(scalars.beta) + ", but there is no out to add to");
  if (mode.accuracy && mode.math != "strict")
    throw Error(ErrorKind::invalid_argument,
                "math and accuracy are both given: accuracy chooses the mode");
  std::optional<Array> to;
  if (!out.is_none()) to.emplace(out, "out");
  const StreamHandle common =
      to ? read_all({&left, &right, &*to}, given) : read_all({&left, &right}, given);
  nb::object result = nb::borrow(out);
  if (!to) {
    result = left.make(result_shape(left.view(), right.view()), default_result(left.view().type));
    to.emplace(result, "out");
  } else if (to->is_immutable() && !into_immutable) {
    throw nb::type_error(
        "out is an array of JAX, which must not change: tilewise.jax.matmul makes a new one");
  }
  const std::string where =
      device_of(left, right, *to, packed && device.is_none() ? nb::handle(packed->device) : device);
  const std::shared_ptr<Multiplier> multiplier =
      packed ? packed->multiplier : multipliers().at(where);
  multiplier->multiply(left, right, *to, scalars, mode, common,
                       packed ? &packed->operand : nullptr);
  if (!out.is_none()) to->written();
  return result;
}

nb::object matmul(nb::handle a, nb::handle b, nb::handle out, double alpha, double beta,
                  const std::string& math, std::optional<double> accuracy, nb::handle stream,
                  nb::handle device) {
  return multiply(a, b, out, {alpha, beta}, {math, accuracy}, stream, device, false);
}

Packed* pack(nb::handle b, std::int64_t rows, const std::optional<std::string>& out,
             const std::string& math, nb::handle stream, nb::handle device) {
  const StreamHandle given = stream_of(stream);
  Array right(b, "b");
  const StreamHandle common = read_all({&right}, given);
  const Stored stored = stored_matrix(right.view());
  const DType type = right.view().type;
  const Problem problem =
      typed_problem(stored.transposed ? Layout::nt : Layout::nn, rows, stored.columns, stored.rows,
                    type, out ? parse_dtype(*out) : default_result(type), parse_math_mode(math));
  std::shared_ptr<Multiplier> multiplier = multipliers().at(device_of(right, right, right, device));
  if (right.view().place == View::Place::host && !multiplier->on_host())
    throw Error(ErrorKind::invalid_argument,
                "b is in the CPU's memory, where it cannot be packed for a GPU");
  PackedOperand operand = multiplier->pack(problem, right, stored.leading, common);
  return new Packed{nb::borrow(b), nb::borrow(device), std::move(operand), std::move(multiplier)};
}

MatmulOptions options_of(const nb::kwargs& values) {
  MatmulOptions made;
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;  // the default
    if (name == "database")
      made.database = nb::cast<std::string>(nb::str(value));
    else if (name == "bundle")
      made.bundle = nb::cast<std::string>(nb::str(value));
    else if (name == "compile_missing")
      made.compile_missing = nb::cast<bool>(value);
    else if (name == "nvrtc")
      made.nvrtc = nb::cast<std::string>(nb::str(value));
    else if (name == "trust_files")
      made.trust_files = nb::cast<bool>(value);
    else if (name == "on_miss")
      made.on_miss = parse_on_miss(nb::cast<std::string>(value));
    else if (name == "missed_list")
      made.missed_list = nb::cast<std::string>(nb::str(value));
    else if (name == "tune_seconds")
      made.tune_seconds = nb::cast<double>(value);
    else if (name == "autotune")
      made.autotune = nb::cast<std::string>(nb::str(value));
    else if (name == "host_memory_limit")
      made.host_memory_limit = nb::cast<std::int64_t>(value);
    else
      throw nb::type_error(
          ("there is no option " + name +
           "; options are database, bundle, compile_missing, nvrtc, trust_files, on_miss, "
           "missed_list, tune_seconds, autotune, host_memory_limit")
              .c_str());
  }
  return made;
}

constexpr const char* kMatmulDoc =
    R"(The matrix product alpha a b + beta out, in out or in a new array, which is returned.

a (..., m, k) and b (..., k, n) are arrays of PyTorch, CuPy, Numba, NumPy or of any other library with DLPack,
__cuda_array_interface__ or __array_interface__, on one device. Both are of one type: float32, float64, float16,
bfloat16, int8, float8_e4m3fn or float8_e5m2. Leading dimensions are broadcast. Matrices may be transposed or have
padded rows: the last or the last but one stride is 1. Nothing is copied.

out (..., m, n) is of their type or a wider one; without it a new array is made: of their type, of int32 for int8, of
float32 for 8-bit floats. It must not share memory with a or b. beta = 0 never reads out; beta needs out.

math: of float32 "strict" (each multiply-add rounded once), "tf32" or "f32x3"; of 8-bit floats "strict" or "fast".
accuracy: instead, the fastest mode whose error relative to |a| |b| is at most this.
stream: a CUDA stream (a handle, or an object of PyTorch, CuPy or Numba); None: the current one of the arrays' library.
The product is enqueued. device: of arrays in the CPU's memory, "host" (the CPU; slow, for tests) or a GPU's index (they
are copied there and back, and the product is done on return).

Raises tilewise.Error; TypeError for what is no array or of another type; ValueError for a PyTorch tensor that requires
a gradient (tilewise.torch.matmul has one). Thread-safe; the GIL is released.)";
constexpr const char* kPackDoc =
    R"(b (k, n) in the form that the kernel of a product of `rows` rows needs, for matmul()'s b: weights, for example.

It pays where kernels pack b in every product: where rows of b are not aligned to 16 bytes. Products of other numbers of
rows use it where their kernel needs the same form, and else read the original, which must not change. Keep it until the
products that use it are done. out: the type of the result, by its name ("f32"); None: the usual one. Other arguments and
errors are those of matmul(). Inside a stream capture it is an error.)";

}  // namespace
}  // namespace tilewise::python

NB_MODULE(_tilewise, module) {
  using namespace tilewise;
  using namespace tilewise::python;
  static nb::object& error_type =
      *new nb::object(nb::module_::import_("tilewise.errors").attr("of_kind"));
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const Error& error) {
      const nb::object made = error_type(to_string(error.kind()), error.what());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
  module.def("version", [] { return std::string(version_text()); });
  module.def("matmul", &python::matmul, kMatmulDoc, "a"_a, "b"_a, "out"_a = nb::none(),
             nb::kw_only(), "alpha"_a = 1.0, "beta"_a = 0.0, "math"_a = "strict",
             "accuracy"_a = nb::none(), "stream"_a = nb::none(), "device"_a = nb::none());
  nb::class_<Packed>(module, "Packed",
                     "An operand b of matmul() in the form that its kernel needs; see pack().")
      .def_prop_ro(
          "array", [](const Packed& packed) { return packed.array; },
          "The original, which must not change.")
      .def_prop_ro(
          "nbytes", [](const Packed& packed) { return packed.operand.bytes(); },
          "Bytes of the copy on the device; 0: there is none, and products read the original.");
  module.def(
      "fill",
      [](nb::handle a, nb::handle b, nb::handle out, const std::string& math,
         std::optional<double> accuracy, nb::handle device) {
        return multiply(a, b, out, {1, 0}, {math, accuracy}, nb::none(), device, true);
      },
      "a"_a, "b"_a, "out"_a, "math"_a, "accuracy"_a.none(), "device"_a.none());
  module.def("pack", &python::pack, kPackDoc, "b"_a, "rows"_a, nb::kw_only(), "out"_a = nb::none(),
             "math"_a = "strict", "stream"_a = nb::none(), "device"_a = nb::none(),
             nb::rv_policy::take_ownership);
  module.def("configure", [](const nb::kwargs& values) {
    MatmulOptions made = options_of(values);
    multipliers().options = std::move(made);
    multipliers().renew();
  });
  module.def("renew", [] { multipliers().renew(); });
  module.def("explain",
             [](std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
                const std::string& dtype, const std::optional<std::string>& out,
                const std::string& math, std::int64_t batch, nb::handle device) {
               return dict_of(multipliers()
                                  .at(device_text(device))
                                  ->explain(problem_of(m, n, k, layout, dtype, out, math, batch)));
             });
  module.def(
      "prepare",
      [](std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
         const std::string& dtype, const std::optional<std::string>& out, const std::string& math,
         std::int64_t batch, std::optional<std::int64_t> last_m, nb::handle device) {
        multipliers()
            .at(device_text(device))
            ->prepare(problem_of(m, n, k, layout, dtype, out, math, batch), last_m);
      },
      "m"_a, "n"_a, "k"_a, "layout"_a, "dtype"_a, "out"_a.none(), "math"_a, "batch"_a,
      "last_m"_a.none(), "device"_a.none());
}
