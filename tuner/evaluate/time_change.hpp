#pragma once
#include <string_view>

#include "vocabulary/record.hpp"

namespace tilewise {

/// How the time of a kernel differs between two runs.
struct TimeChange {
  double change = 0;       ///< now over before, less 1
  double tolerance = 0;    ///< the largest change, up or down, that counts as none
  std::string_view state;  ///< "same", "faster", "slower"; "not comparable" where a time is missing
};
/// The tolerance is twice both spreads, between 2% and 5%; on the CPU it is 15%.
TimeChange time_change(const Measurement& before, const Measurement& now, bool on_cpu);

}  // namespace tilewise
