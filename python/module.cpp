// The extension module tilewise._tilewise.
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "python/arrays.hpp"
#include "python/gil.hpp"
#include "python/grouped.hpp"
#include "python/multipliers.hpp"
#include "python/options.hpp"
#include "python/product.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "tilewise/version.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tilewise::python {
namespace {

/// A problem from its sizes and names.
Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
                   const std::string& type, const std::optional<std::string>& out,
                   const std::string& math, std::int64_t batch,
                   const std::optional<std::string>& epilogue, bool invariant,
                   const std::string& grouped = "none", const std::string& distribution = "even",
                   const std::optional<std::string>& type_b = std::nullopt) {
  const DType operand = parse_dtype(type);
  Problem problem = typed_problem(
      parse_layout(layout), m, n, k, operand, type_b ? parse_dtype(*type_b) : operand,
      out ? parse_dtype(*out) : default_result(operand), parse_math_mode(math), batch);
  problem.grouping = parse_grouping(grouped);
  if (is_grouped(problem)) {
    problem.distribution = parse_distribution(distribution);
    set_alignment(problem, natural_alignment(problem));
  }
  if (epilogue) set_epilogue(problem, Epilogue(*epilogue));
  set_invariant(problem, invariant);
  return problem;
}

nb::dict dict_of(const Problem& problem) {
  nb::dict made;
  made["layout"] = std::string(to_string(layout_of(problem)));
  made["m"] = problem.m, made["n"] = problem.n, made["k"] = problem.k;
  made["dtype"] = std::string(to_string(problem.a.type));
  made["dtype_b"] = std::string(to_string(problem.b.type));
  made["out"] = std::string(to_string(problem.c.type));
  made["math"] = std::string(to_string(problem.math));
  made["batch"] = problem.batch;
  made["epilogue"] = epilogue_text(problem);
  made["order"] = order_text(problem);
  made["grouped"] = std::string(to_string(problem.grouping));
  made["distribution"] = std::string(to_string(problem.distribution));
  return made;
}

nb::dict dict_of(const Match& match) {
  nb::dict made;
  made["match"] = std::string(to_string(match.kind));
  made["problem"] = dict_of(match.problem);
  made["kernel_template"] = match.kernel_template;
  made["configuration"] = call(get(imported("json"), "loads"), match.configuration);
  made["measured_us"] = match.measured_us;
  made["measured_tflops"] = match.measured_tflops;
  made["measured_at"] = match.measured_at;
  made["stale"] = match.stale;
  made["distance"] = match.distance;
  made["predicted_us"] = match.predicted_us;
  made["limited_by"] = match.limited_by;
  made["why"] = match.why;
  made["order"] = match.order;
  made["emulated_runs"] = match.emulated_runs;
  made["native_runs"] = match.native_runs;
  return made;
}

Multipliers& multipliers() {
  static auto& all = *new Multipliers;
  return all;
}

/// The device of all arrays.
std::string device_of(const Array& a, const std::vector<Array*>& others, nb::handle wanted) {
  const auto place_text = [](const View& view) {
    return view.place == View::Place::host ? std::string("the CPU")
                                           : "cuda:" + std::to_string(view.device);
  };
  for (const Array* other : others) {
    const View &first = a.view(), &view = other->view();
    if (view.place != first.place || view.device != first.device)
      throw Error(ErrorKind::invalid_argument, "a is on " + place_text(first) + " and " +
                                                   view.name + " on " + place_text(view) +
                                                   ": all arrays must be on one device");
  }
  const std::optional<std::string> text = device_text(wanted);
  if (a.view().place == View::Place::host) {
    if (!text)
      throw Error(ErrorKind::invalid_argument,
                  "the arrays are in the CPU's memory: device=\"host\" multiplies on the CPU (for "
                  "tests: it is "
                  "slow), and device=0 copies them to the first GPU and back");
    return *text;
  }
  const std::string own = std::to_string(a.view().device);
  if (text && *text != own && *text != "current")
    throw Error(ErrorKind::invalid_argument,
                "the arrays are on cuda:" + own + ", but device is \"" + *text + "\"");
  return own;
}

StreamHandle stream_of(nb::handle stream) {
  if (stream.is_none()) return std::nullopt;
  for (const char* attribute : {"cuda_stream", "ptr", "handle"}) {
    if (!has(stream, attribute)) continue;
    nb::object value = get(stream, attribute);
    if (has(value, "value")) value = get(value, "value");  // in ctypes 0 is None
    return value.is_none() ? 0 : nb::cast<std::uintptr_t>(nb::int_(value));
  }
  return nb::cast<std::uintptr_t>(nb::int_(stream));
}

/// The stream of the arrays' frameworks, unless one is given. Then reads the arrays viewed by
/// __dlpack__: their producers order their work before later work on that stream.
StreamHandle read_all(const std::vector<Array*>& arrays, StreamHandle given) {
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

/// The result of pack(): an operand b in the form that its kernel needs, the array itself, and the
/// multiplier that made it.
struct Packed {
  nb::object array, device;
  PackedOperand operand;
  std::shared_ptr<Multiplier> multiplier;
};

/// An epilogue by its text. Parsed texts are kept.
const Epilogue& epilogue_of(const std::string& text) {
  constexpr std::size_t kMostKept = 1000;
  static auto& known = *new std::unordered_map<std::string, Epilogue>;
  if (const auto found = known.find(text); found != known.end()) return found->second;
  if (known.size() >= kMostKept) known.clear();
  return known.emplace(text, Epilogue(text)).first->second;
}

/// Whether a keyword of this name is an argument of matmul() or grouped() and no operand.
bool is_argument(const std::string& name) {
  constexpr const char* kArguments[] = {
      "a",      "b",        "rows",   "out",      "alpha",     "beta",        "math",
      "stream", "accuracy", "device", "epilogue", "invariant", "distribution"};
  return std::find(std::begin(kArguments), std::end(kArguments), name) != std::end(kArguments);
}

/// The epilogue of a product, and its operands by name.
struct NamedOperands {
  std::optional<Epilogue> epilogue;
  std::vector<std::unique_ptr<Array>> arrays;  // by slot; null: a number
  std::vector<double> numbers;

  NamedOperands() = default;
  NamedOperands(nb::handle wanted, nb::object named_by) {
    nb::dict named = nb::cast<nb::dict>(named_by);
    std::optional<std::string> text;
    if (PyUnicode_Check(wanted.ptr())) {
      text = text_of(wanted);
    } else if (PyCallable_Check(wanted.ptr())) {
      const nb::object traced = call(get(imported("tilewise.epilogues"), "trace"), wanted, named);
      text = text_of(traced[0]);
      named = nb::cast<nb::dict>(nb::object(traced[1]));
    } else if (!wanted.is_none()) {
      throw nb::type_error("epilogue is a text, a function or None");
    }
    if (!text && named.size() > 0)
      throw nb::type_error(("there is no argument '" +
                            nb::cast<std::string>(nb::str((*named.begin()).first)) +
                            "'; operands of an epilogue need epilogue=")
                               .c_str());
    if (!text) return;
    epilogue.emplace(epilogue_of(*text));
    for (const auto& [name, value] : named)
      epilogue->slot(nb::cast<std::string>(nb::str(name)));  // throws for another name
    for (std::size_t slot = 0; slot < epilogue->operands(); ++slot) {
      const std::string& name = epilogue->names()[slot];
      if (!named.contains(name.c_str()))
        throw Error(
            ErrorKind::invalid_argument,
            is_argument(name)
                ? "the operand " + name +
                      " of the epilogue has the name of an argument; give it another"
                : "the operand " + name + " of the epilogue is missing: pass " + name + "=");
      const nb::object value = named[name.c_str()];
      const bool number = PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr());
      if (number && epilogue->over(slot) != EpilogueOver::all)
        throw Error(ErrorKind::invalid_argument,
                    name + " is a number, but the epilogue reads an array");
      numbers.push_back(number ? nb::cast<double>(value) : 0);
      arrays.push_back(number ? nullptr : std::make_unique<Array>(value, name.c_str()));
      if (!number && epilogue->use(slot) != EpilogueUse::read && arrays.back()->is_immutable())
        throw nb::type_error((name + " is an array of JAX, which must not change").c_str());
    }
  }
  std::vector<GivenOperand> given() const {
    std::vector<GivenOperand> all;
    for (std::size_t slot = 0; slot < arrays.size(); ++slot) {
      GivenOperand& one = all.emplace_back();
      one.value = numbers[slot];
      if (arrays[slot]) one.view = arrays[slot]->view();
    }
    return all;
  }
  void written() const {
    for (std::size_t slot = 0; slot < arrays.size(); ++slot)
      if (arrays[slot] && epilogue->use(slot) != EpilogueUse::read) arrays[slot]->written();
  }
};

nb::object multiply(nb::handle a, nb::handle b, nb::handle out, Scalars scalars, const Mode& mode,
                    nb::handle stream, nb::handle device, bool into_immutable,
                    const NamedOperands& operands = {}) {
  const StreamHandle given = stream_of(stream);
  const Packed* packed = nb::isinstance<Packed>(b) ? nb::inst_ptr<Packed>(b) : nullptr;
  Array left(a, "a"), right(packed ? nb::handle(packed->array) : b, "b");
  if (out.is_none() && scalars.beta != 0)
    throw Error(ErrorKind::invalid_argument,
                "beta is " + nb::cast<std::string>(nb::repr(nb::float_(scalars.beta))) +
                    ", but there is no out to add to");
  if (mode.accuracy && mode.math != "strict")
    throw Error(ErrorKind::invalid_argument,
                "math and accuracy are both given: accuracy chooses the mode");
  if (mode.accuracy && mode.invariant)
    throw Error(ErrorKind::invalid_argument,
                "accuracy chooses the mode by the size, of which an invariant product must not "
                "depend: give math instead");
  std::optional<Array> to;
  if (!out.is_none()) to.emplace(out, "out");
  std::vector<Array*> all{&left, &right};
  if (to) all.push_back(&*to);
  for (const std::unique_ptr<Array>& array : operands.arrays)
    if (array) all.push_back(array.get());
  const StreamHandle common = read_all(all, given);
  nb::object result = nb::borrow(out);
  if (!to) {
    result = left.make(result_shape(left.view(), right.view()), default_result(left.view().type));
    to.emplace(result, "out");
  } else if (to->is_immutable() && !into_immutable) {
    throw nb::type_error(
        "out is an array of JAX, which must not change: tilewise.jax.matmul makes a new one");
  }
  all.erase(all.begin());
  if (out.is_none()) all.push_back(&*to);
  const std::string where =
      device_of(left, all, packed && device.is_none() ? nb::handle(packed->device) : device);
  const std::shared_ptr<Multiplier> multiplier =
      packed ? packed->multiplier : multipliers().at(where);
  multiplier->multiply(left, right, *to, scalars, mode, common, packed ? &packed->operand : nullptr,
                       operands.epilogue ? &*operands.epilogue : nullptr, operands.given());
  if (!out.is_none()) to->written();
  operands.written();
  return result;
}

nb::object matmul(nb::handle a, nb::handle b, nb::handle out, double alpha, double beta,
                  const std::string& math, std::optional<double> accuracy, nb::handle stream,
                  nb::handle device, nb::handle epilogue, bool invariant,
                  const nb::kwargs& operands) {
  return multiply(a, b, out, {alpha, beta}, {math, accuracy, invariant}, stream, device, false,
                  NamedOperands(epilogue, operands));
}

nb::object grouped(nb::handle a, nb::handle b, nb::handle rows, nb::handle out, double alpha,
                   double beta, const std::string& math, const std::string& distribution,
                   nb::handle stream, nb::handle device, nb::handle epilogue, bool invariant,
                   const nb::kwargs& named) {
  const StreamHandle given = stream_of(stream);
  const NamedOperands operands(epilogue, named);
  Array left(a, "a"), right(b, "b"), numbers(rows, "rows");
  if (out.is_none() && beta != 0)
    throw Error(ErrorKind::invalid_argument, "beta is not 0, but there is no out to add to");
  std::optional<Array> to;
  if (!out.is_none()) to.emplace(out, "out");
  std::vector<Array*> all{&left, &right, &numbers};
  if (to) all.push_back(&*to);
  for (const std::unique_ptr<Array>& array : operands.arrays)
    if (array) all.push_back(array.get());
  const StreamHandle common = read_all(all, given);
  nb::object result = nb::borrow(out);
  if (!to) {
    const View& of_rows = numbers.view();
    result =
        left.make(grouped_shape(left.view(), right.view(), of_rows.dims > 0 ? of_rows.shape[0] : 0),
                  default_result(left.view().type));
    to.emplace(result, "out");
    all.push_back(&*to);
  } else if (to->is_immutable()) {
    throw nb::type_error("out is an array of JAX, which must not change");
  }
  all.erase(all.begin());
  const std::shared_ptr<Multiplier> multiplier = multipliers().at(device_of(left, all, device));
  if (left.view().place == View::Place::host && !multiplier->on_host())
    throw Error(
        ErrorKind::invalid_argument,
        "the arrays are in the CPU's memory; a grouped product on a GPU takes arrays in its "
        "memory");
  multiplier->multiply(grouped_product(left.view(), right.view(), to->view(), numbers.view(),
                                       parse_math_mode(math), parse_distribution(distribution),
                                       operands.epilogue ? &*operands.epilogue : nullptr,
                                       operands.given(), invariant),
                       {alpha, beta}, common);
  if (!out.is_none()) to->written();
  operands.written();
  return result;
}

void quantize(nb::handle matrix, nb::handle to, nb::handle of_blocks, nb::handle stream,
              nb::handle device) {
  const StreamHandle given = stream_of(stream);
  Array x(matrix, "x"), numbers(to, "numbers"), scales(of_blocks, "scales");
  if (numbers.is_immutable() || scales.is_immutable())
    throw nb::type_error("numbers and scales are arrays of JAX, which must not change");
  const StreamHandle common = read_all({&x, &numbers, &scales}, given);
  const std::shared_ptr<Multiplier> multiplier =
      multipliers().at(device_of(x, {&numbers, &scales}, device));
  if (x.view().place == View::Place::host && !multiplier->on_host())
    throw Error(ErrorKind::invalid_argument,
                "the arrays are in the CPU's memory; a GPU quantizes arrays in its memory");
  multiplier->quantize(quantization_of(x.view(), numbers.view(), scales.view()), common);
  numbers.written(), scales.written();
}

Packed* pack(nb::handle b, std::int64_t rows, const std::optional<std::string>& out,
             const std::string& math, nb::handle stream, nb::handle device, bool invariant) {
  const StreamHandle given = stream_of(stream);
  Array right(b, "b");
  const StreamHandle common = read_all({&right}, given);
  const Stored stored = stored_matrix(right.view());
  const DType type = right.view().type;
  Problem problem =
      typed_problem(stored.transposed ? Layout::nt : Layout::nn, rows, stored.columns, stored.rows,
                    type, out ? parse_dtype(*out) : default_result(type), parse_math_mode(math));
  set_invariant(problem, invariant);
  std::shared_ptr<Multiplier> multiplier = multipliers().at(device_of(right, {}, device));
  if (right.view().place == View::Place::host && !multiplier->on_host())
    throw Error(ErrorKind::invalid_argument,
                "b is in the CPU's memory, where it cannot be packed for a GPU");
  PackedOperand operand = multiplier->pack(problem, right, stored.leading, common);
  return new Packed{nb::borrow(b), nb::borrow(device), std::move(operand), std::move(multiplier)};
}

void configure(const nb::kwargs& values) {
  MatmulOptions made = options_of(values);
  multipliers().options = std::move(made);
  multipliers().renew();
}

nb::dict explain(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
                 const std::string& dtype, const std::optional<std::string>& out,
                 const std::string& math, std::int64_t batch, nb::handle device,
                 const std::optional<std::string>& epilogue, bool invariant,
                 const std::string& grouped, const std::string& distribution,
                 const std::optional<std::string>& dtype_b) {
  return dict_of(multipliers()
                     .at(device_text(device).value_or("current"))
                     ->explain(problem_of(m, n, k, layout, dtype, out, math, batch, epilogue,
                                          invariant, grouped, distribution, dtype_b)));
}

/// A problem as tuple of problem_of()'s arguments without m, batch, invariant and groups.
using KeyOfOrder =
    std::tuple<std::int64_t, std::int64_t, std::string, std::string, std::optional<std::string>,
               std::string, std::optional<std::string>, std::optional<std::string>>;

std::string fingerprint(const std::vector<KeyOfOrder>& products, nb::handle device) {
  std::vector<Problem> problems;
  for (const auto& [n, k, layout, dtype, out, math, epilogue, dtype_b] : products)
    problems.push_back(
        problem_of(1, n, k, layout, dtype, out, math, 1, epilogue, true, "none", "even", dtype_b));
  return multipliers().at(device_text(device).value_or("current"))->fingerprint(problems);
}

void prepare(std::int64_t m, std::int64_t n, std::int64_t k, const std::string& layout,
             const std::string& dtype, const std::optional<std::string>& out,
             const std::string& math, std::int64_t batch, std::optional<std::int64_t> last_m,
             nb::handle device, const std::optional<std::string>& epilogue, bool invariant,
             const std::string& grouped, const std::string& distribution,
             const std::optional<std::string>& dtype_b) {
  multipliers()
      .at(device_text(device).value_or("current"))
      ->prepare(problem_of(m, n, k, layout, dtype, out, math, batch, epilogue, invariant, grouped,
                           distribution, dtype_b),
                last_m);
}

nb::object fill(nb::handle a, nb::handle b, nb::handle out, const std::string& math,
                std::optional<double> accuracy, nb::handle device) {
  return multiply(a, b, out, {1, 0}, {math, accuracy}, nb::none(), device, true);
}

[[noreturn]] void raise(const Error& error) {
  static nb::object& of_kind = *new nb::object(get(imported("tilewise.errors"), "of_kind"));
  const nb::object made = call(of_kind, to_string(error.kind()), to_python(error.what()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

/// Wraps a function for Python. Error, and lack of memory (C++'s and Python's), become errors of
/// tilewise.errors. A thread that the ending interpreter stops does not leave the function.
template <class Result, class... Arguments>
auto entry(Result (*function)(Arguments...)) {
  return [function](Arguments... arguments) -> Result {
    std::optional<Error> error;
    std::optional<nb::python_error> no_memory;
    try {
      return stay_at_the_end(
          [&]() -> Result { return function(std::forward<Arguments>(arguments)...); });
    } catch (const Error& thrown) {
      error.emplace(thrown);
    } catch (const std::bad_alloc&) {
      error.emplace(ErrorKind::out_of_memory, "the host's memory does not suffice for a call");
    } catch (nb::python_error& thrown) {
      if (!thrown.matches(PyExc_MemoryError)) throw;
      no_memory.emplace(std::move(thrown));
    }
    // After the handlers, in which stay_at_the_end() cannot hold a thread.
    if (no_memory) error.emplace(ErrorKind::out_of_memory, text_of(no_memory->value()));
    raise(*error);
  };
}

constexpr const char* kMatmulDoc =
    R"doc(The matrix product alpha a b + beta out, in out or in a new array, which is returned.

a (..., m, k) and b (..., k, n) are arrays of PyTorch, CuPy, Numba, NumPy or of any other library with DLPack,
__cuda_array_interface__ or __array_interface__, on one device. Both are of one type: float32, float64, float16,
bfloat16, int8, float8_e4m3fn or float8_e5m2. Leading dimensions are broadcast. Matrices may be transposed or have
padded rows: the last or the last but one stride is 1. Nothing is copied.

out (..., m, n) is of their type or a wider one; without it a new array is made: of their type, of int32 for int8, of
float32 for 8-bit floats. It must not share memory with a or b. beta = 0 never reads out; beta needs out.

math: of float32 "strict" (each multiply-add rounded once), "tf32" or "f32x3"; of 8-bit floats "strict" or "fast"; of
float64 and float32 also "emulated" (docs/emulation.md).
accuracy: instead, the fastest mode whose error relative to |a| |b| is at most this. Emulated float64 uses what it allows.
stream: a CUDA stream (a handle, or an object of PyTorch, CuPy or Numba); None: the current one of the arrays' library.
The product is enqueued.
epilogue: what becomes of the sums (acc) before they are stored in out, as text (docs/epilogues.md) or as a function
(tilewise.epilogues):
matmul(a, b, epilogue="x = acc + bias[j]; u[i,j] = x; gelu(x)", bias=bias, u=u). operands: its operands by name, arrays
of any of the types above or numbers. The last dimensions of an array are those of out for [i,j], n for [j], m for [i],
none for a scalar; those before are broadcast. Rows are contiguous. Not for arrays that are copied to a GPU.
invariant: the bits of a row of out depend on that row of a, on b and on the epilogue's operands alone, not on m or the
batch (docs/invariance.md). Rows of out are contiguous. Not for arrays that are copied to a GPU.
device: of arrays in the CPU's memory, "host" (the CPU, also "cpu"; slow, for tests) or a GPU's
index (they are copied there and back, and the product is done on return).

Raises tilewise.Error; TypeError for what is no array, of another type, masked, or of a subclass whose meaning is not in
its memory alone (units); ValueError for a PyTorch tensor that requires
a gradient (tilewise.torch.matmul has one). Thread-safe; the GIL is released.)doc";
constexpr const char* kGroupedDoc =
    R"(Multiplies groups of rows, each by its own matrix, as a mixture of experts does.

a (rows, k), b (groups, k, n), rows the end of each group's rows of a, as a vector of 32-bit integers: out (rows, n). Rows
behind the last end are not written. a (groups, m, k), b (groups, k, n), rows how many rows of each group count: out
(groups, m, n). a (m, k), b (k, n), rows the end of each group's k: out (groups, m, n), the product of each group's columns
of a and rows of b; a.T and b are contiguous then. rows is in the memory of the other arrays: the host does not read it, so
a CUDA graph can be replayed with other numbers. distribution ("even", "zipf", "one_hot"): how uneven the groups are
expected to be, for the choice of the kernel. epilogue and its operands: see matmul(); name[j] has n elements, or (groups, n),
and sums over rows are errors. Other arguments, errors and thread-safety are those of matmul().)";

constexpr const char* kQuantizeDoc =
    R"(The rows of a matrix as 8-bit floats with a scale for each 128 neighbours of a row, as products with an epilogue
acc(a[i,k/128]) multiply them.

x (m, k): of float32, float16 or bfloat16. numbers (m, k), of float8_e4m3fn or float8_e5m2, and scales (m, k / 128), rounded up, of
float32, are written. A scale is the largest magnitude of its block over the type's largest number, at least 2^-126; a number is the
element over the scale, rounded to nearest. NaN counts in no magnitude and stays NaN; an infinite element makes its scale infinite.
The arrays share no memory. The kernel is compiled at the first call: before a capture, call it once. Rows are contiguous; of scales the columns may
be instead. Other arguments, errors and thread-safety are those of matmul().)";

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
  // Daemon threads keep the objects that they use until the process ends.
  nb::set_leak_warnings(false);
  module.def("version", [] { return std::string(version_text()); });
  module.def("matmul", entry(&python::matmul), kMatmulDoc, "a"_a, "b"_a, "out"_a = nb::none(),
             nb::kw_only(), "alpha"_a = 1.0, "beta"_a = 0.0, "math"_a = "strict",
             "accuracy"_a = nb::none(), "stream"_a = nb::none(), "device"_a = nb::none(),
             "epilogue"_a = nb::none(), "invariant"_a = false, "operands"_a);
  module.def("grouped", entry(&python::grouped), kGroupedDoc, "a"_a, "b"_a, "rows"_a,
             "out"_a = nb::none(), nb::kw_only(), "alpha"_a = 1.0, "beta"_a = 0.0,
             "math"_a = "strict", "distribution"_a = "even", "stream"_a = nb::none(),
             "device"_a = nb::none(), "epilogue"_a = nb::none(), "invariant"_a = false,
             "operands"_a);
  nb::class_<Packed>(module, "Packed",
                     "An operand b of matmul() in the form that its kernel needs; see pack().")
      .def_prop_ro(
          "array", [](const Packed& packed) { return packed.array; },
          "The original, which must not change.")
      .def_prop_ro(
          "nbytes", [](const Packed& packed) { return packed.operand.bytes(); },
          "Bytes of the copy on the device; 0: there is none, and products read the original.");
  module.def("fill", entry(&python::fill), "a"_a, "b"_a, "out"_a, "math"_a, "accuracy"_a.none(),
             "device"_a.none());
  module.def("pack", entry(&python::pack), kPackDoc, "b"_a, "rows"_a, nb::kw_only(),
             "out"_a = nb::none(), "math"_a = "strict", "stream"_a = nb::none(),
             "device"_a = nb::none(), "invariant"_a = false, nb::rv_policy::take_ownership);
  module.def("quantize", entry(&python::quantize), kQuantizeDoc, "x"_a, "numbers"_a, "scales"_a,
             nb::kw_only(), "stream"_a = nb::none(), "device"_a = nb::none());
  module.def("configure", entry(&python::configure));
  module.def("renew", [] { multipliers().renew(); });
  module.def("explain", entry(&python::explain), "m"_a, "n"_a, "k"_a, "layout"_a, "dtype"_a,
             "out"_a.none(), "math"_a, "batch"_a, "device"_a.none(), "epilogue"_a.none(),
             "invariant"_a, "grouped"_a, "distribution"_a, "dtype_b"_a.none());
  module.def("fingerprint", entry(&python::fingerprint), "products"_a, "device"_a.none());
  module.def("prepare", entry(&python::prepare), "m"_a, "n"_a, "k"_a, "layout"_a, "dtype"_a,
             "out"_a.none(), "math"_a, "batch"_a, "last_m"_a.none(), "device"_a.none(),
             "epilogue"_a.none(), "invariant"_a, "grouped"_a, "distribution"_a, "dtype_b"_a.none());
}
