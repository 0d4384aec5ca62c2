#include "tuner/evaluate/time_change.hpp"

#include <algorithm>
#include <cmath>

namespace tilewise {
namespace {

// Two runs of one kernel on a GPU differ by 1 to 2%, more than the spread within a run, since
// clocks and temperature drift. A large spread must not hide a change of more than 5%.
constexpr double kLeastTolerance = 0.02, kMostTolerance = 0.05;
// On an idle CPU two runs differed by up to 11% at spreads of 0.3 to 3%: the spread does not
// predict the difference.
constexpr double kCpuTolerance = 0.15;

double tolerance_of(const Measurement& before, const Measurement& now, bool on_cpu) {
  if (on_cpu) return kCpuTolerance;
  const double spreads = 2 * (before.spread + now.spread);
  return spreads <= kMostTolerance ? std::max(spreads, kLeastTolerance) : kMostTolerance;
}

}  // namespace

TimeChange time_change(const Measurement& before, const Measurement& now, bool on_cpu) {
  TimeChange found;
  found.change = now.median_us / before.median_us - 1;
  found.tolerance = tolerance_of(before, now, on_cpu);
  if (!(before.median_us > 0) || !std::isfinite(found.change))
    found.state = "not comparable";
  else if (std::abs(found.change) <= found.tolerance)
    found.state = "same";
  else
    found.state = found.change > 0 ? "slower" : "faster";
  return found;
}

}  // namespace tilewise
