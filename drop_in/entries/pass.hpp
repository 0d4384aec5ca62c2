#pragma once
#include <iostream>
#include <utility>

#include "drop_in/drop_in.hpp"
#include "drop_in/real.hpp"

#define TILEWISE_ENTRY extern "C" __attribute__((visibility("default")))

namespace tilewise::drop_in {

/// True while cuBLAS computes a call. Calls that it makes itself then go to cuBLAS.
inline thread_local bool inside = false;
struct Inside {
  Inside() : before(std::exchange(inside, true)) {}
  ~Inside() { inside = before; }
  const bool before;
};

/// Calls the library's own function. `entry`: the problem to be timed, or null.
template <class... Arguments>
Status pass(Real<Status(Arguments...)>& real, Entry* entry, Stream stream, Arguments... arguments) {
  auto* const function = real.get();
  if (!function) {
    static const bool said = [&] {
      std::cerr << "tilewise: " << real.name()
                << " is in no library of this process; TILEWISE_CUBLAS names a file that has it\n";
      return true;
    }();
    static_cast<void>(said);
    return kNotInitialized;
  }
  const Inside guard;
  Samples::Sample* const sample =
      entry ? DropIn::of_process().begin_timing(*entry, stream) : nullptr;
  const Status status = function(arguments...);
  if (sample) DropIn::of_process().end_timing(*entry, *sample, stream);
  return status;
}

}  // namespace tilewise::drop_in
