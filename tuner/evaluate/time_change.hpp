#pragma once
#include <string_view>

#include "vocabulary/record.hpp"

namespace tilewise {

/// The difference of a kernel's times in two runs.
struct TimeChange {
  double change = 0;       ///< current over earlier time, minus 1
  double tolerance = 0;    ///< the largest change, up or down, that has the state "same"
  std::string_view state;  ///< "same", "faster", "slower"; "not comparable" where a time is missing
};
/// The tolerance is twice both spreads, from 2% to 5%; on the CPU it is 15%.
TimeChange time_change(const Measurement& before, const Measurement& now, bool on_cpu);

}  // namespace tilewise
