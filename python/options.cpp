#include "python/options.hpp"

#include <utility>

#include "python/gil.hpp"
#include "tilewise/error.hpp"

namespace nb = nanobind;

namespace tilewise::python {
namespace {

[[noreturn]] void refuse(const std::string& name, const char* is, nb::handle value) {
  throw nb::type_error(("the option " + name + " is " + is + ", not " + text_of(nb::repr(value)) +
                        " (" + text_of(get(value.type(), "__name__")) + ")")
                           .c_str());
}

template <typename T>
T value_of(nb::handle value, const std::string& name, const char* is) {
  T found{};
  if (!nb::try_cast(value, found)) refuse(name, is, value);
  return found;
}

/// True or False of Python or NumPy.
bool flag_of(nb::handle value, const std::string& name) {
  const bool numpy = text_of(get(value.type(), "__module__")) == "numpy" &&
                     text_of(get(value.type(), "__name__")).rfind("bool", 0) == 0;
  if (!PyBool_Check(value.ptr()) && !numpy) refuse(name, "True or False", value);
  return PyObject_IsTrue(value.ptr()) == 1;
}

/// The bytes of a path: str, bytes or os.PathLike.
std::string path_of(nb::handle value, const std::string& name) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(value.ptr(), &bytes)) {
    PyErr_Clear();
    refuse(name, "a path (str, bytes or os.PathLike, without a null character)", value);
  }
  const nb::object held = nb::steal(bytes);
  return std::string(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
}

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

}  // namespace

std::string text_of(nb::handle object) {
  const nb::str text = stay_at_the_end([&] { return nb::str(object); });
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw nb::python_error();
  return std::string(PyBytes_AS_STRING(bytes.ptr()),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

nb::str to_python(std::string_view text) {
  PyObject* made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!made) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

std::optional<std::string> device_text(nb::handle device) {
  if (device.is_none()) return std::nullopt;
  const std::string text = text_of(device);
  if (text == "cuda") return "current";
  if (text.rfind("cuda:", 0) == 0) return text.substr(5);
  if (text.rfind("cpu", 0) == 0) return "host" + text.substr(3);
  return text;
}

MatmulOptions options_of(const nb::kwargs& values) {
  MatmulOptions made;
  const std::pair<const char*, std::string*> paths[] = {{"database", &made.database},
                                                        {"bundle", &made.bundle},
                                                        {"nvrtc", &made.nvrtc},
                                                        {"missed_list", &made.missed_list},
                                                        {"autotune", &made.autotune}};
  const auto path_named = [&](const std::string& name) -> std::string* {
    for (const auto& [known, path] : paths)
      if (name == known) return path;
    return nullptr;
  };
  for (const auto& [key, value] : values) {
    const std::string name = text_of(key);
    if (value.is_none()) continue;  // the default
    if (std::string* path = path_named(name))
      *path = path_of(value, name);
    else if (name == "compile_missing")
      made.compile_missing = flag_of(value, name);
    else if (name == "trust_files")
      made.trust_files = flag_of(value, name);
    else if (name == "on_miss")
      made.on_miss = parse_on_miss(text_of(value));
    else if (name == "tune_seconds")
      made.tune_seconds = value_of<double>(value, name, "a number of seconds");
    else if (name == "host_memory_limit")
      made.host_memory_limit = value_of<std::int64_t>(value, name, "a whole number of bytes");
    else
      throw nb::type_error(
          ("there is no option " + name +
           "; options are database, bundle, compile_missing, nvrtc, trust_files, on_miss, "
           "missed_list, tune_seconds, autotune, host_memory_limit")
              .c_str());
  }
  return made;
}

}  // namespace tilewise::python
