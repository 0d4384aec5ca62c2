#pragma once
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <utility>

namespace tilewise::python {

/// Returns the result of `work`, which may wait for the GIL. While the interpreter ends, CPython
/// before 3.14 ends a daemon thread that waits for the GIL by pthread_exit(), which unwinds the
/// thread's stack. Destructors would then run without the GIL, and a noexcept function would end
/// the process. Instead, the thread stays here until the process ends, as in CPython 3.14. Do not
/// use this in exception handlers: C++ cannot catch the unwinding in one.
template <class Work>
decltype(auto) stay_at_the_end(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// All calls that may run Python code, in which a thread waits for the GIL, use these functions.
// Python code runs in unexpected places: NumPy's dtype.name is a Python function.

inline bool has(nanobind::handle object, const char* name) {
  return stay_at_the_end([&] { return PyObject_HasAttrString(object.ptr(), name) == 1; });
}
inline nanobind::object get(nanobind::handle object, const char* name) {
  PyObject* found = stay_at_the_end([&] { return PyObject_GetAttrString(object.ptr(), name); });
  if (!found) throw nanobind::python_error();
  return nanobind::steal(found);
}
inline nanobind::object imported(const char* name) {
  PyObject* found = stay_at_the_end([&] { return PyImport_ImportModule(name); });
  if (!found) throw nanobind::python_error();
  return nanobind::steal(found);
}
template <class... Arguments>
nanobind::object call(const nanobind::object& function, Arguments&&... arguments) {
  return stay_at_the_end(
      [&] { return nanobind::object(function(std::forward<Arguments>(arguments)...)); });
}

/// Releases the GIL during its lifetime.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    stay_at_the_end([this] { PyEval_RestoreThread(thread_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

}  // namespace tilewise::python
