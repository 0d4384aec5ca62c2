#pragma once
#include <utility>

namespace tilewise {

/// Throws the exception that is being handled, as Error where it is a failure of the system:
/// std::bad_alloc is out_of_memory, std::filesystem::filesystem_error io, another std::system_error
/// (a thread that cannot be made) out_of_memory or transient. Other exceptions stay what they are.
[[noreturn]] void rethrow_as_error();

/// What `work` returns. Its failures are those of rethrow_as_error(). For the entry points of the
/// library.
template <class Work>
decltype(auto) with_own_errors(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_as_error();
  }
}

}  // namespace tilewise
