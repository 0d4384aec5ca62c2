#pragma once
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <utility>

namespace tilewise::python {

/// What `work` returns, which may wait for the GIL. While the interpreter ends, CPython before 3.14
/// ends a daemon thread that waits for the GIL by pthread_exit(), which unwinds the thread's stack.
/// Destructors would then run without the GIL, and a function that is noexcept would end the
/// process. The thread stays here instead until the process ends, as in CPython 3.14. Not for the
/// handlers of exceptions: C++ has no way to catch the unwinding in one.
template <class Work>
decltype(auto) stay_at_the_end(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// What may run Python's code, in which a thread waits for the GIL, goes through these. Python's
// code is behind more than it seems: NumPy's dtype.name is a function of Python.

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

/// Releases the GIL during its life.
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
