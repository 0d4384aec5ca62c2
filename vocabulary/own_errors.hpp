#pragma once
#include <utility>

namespace tilewise {

/// Rethrows the exception that is being handled; a failure of the system becomes an Error.
/// std::bad_alloc becomes out_of_memory, std::filesystem::filesystem_error io, another
/// std::system_error (such as a refused thread) out_of_memory or transient. Other exceptions are
/// unchanged.
[[noreturn]] void rethrow_as_error();

/// Returns the result of `work`; translates its failures with rethrow_as_error(). For the entry
/// points of the library.
template <class Work>
decltype(auto) with_own_errors(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_as_error();
  }
}

}  // namespace tilewise
