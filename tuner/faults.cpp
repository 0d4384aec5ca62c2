#include "tuner/faults.hpp"

#include <algorithm>

namespace tilewise {
namespace {

// Two candidates in a row may both need more memory than the machine has; three rarely do.
constexpr int kMostWaiting = 3;
// Further tries would cost the search more than such a candidate is worth.
constexpr int kMostFaults = 3;

}  // namespace

Faults::Next Faults::add(const Candidate& candidate, Work work, const std::string& why) {
  ++count_;
  last_ = why;
  auto met = std::find_if(met_.begin(), met_.end(),
                          [&](const Met& m) { return m.work == work && m.candidate == candidate; });
  if (met == met_.end()) met = met_.insert(met_.end(), {candidate, work, 0, false});
  if (++met->faults == 1) return Next::try_again;
  if (met->faults >= kMostFaults) return Next::give_up;
  met->waits = true;
  const auto waiting = std::count_if(met_.begin(), met_.end(),
                                     [&](const Met& m) { return m.work == work && m.waits; });
  return waiting < kMostWaiting ? Next::wait : Next::end_search;
}

std::vector<Candidate> Faults::got_through(const Candidate& candidate, Work work) {
  std::erase_if(met_, [&](const Met& m) { return m.work <= work && m.candidate == candidate; });
  std::vector<Candidate> waited;
  for (Met& met : met_) {
    if (met.work != work || !met.waits) continue;
    met.waits = false;
    waited.push_back(met.candidate);
  }
  return waited;
}

}  // namespace tilewise
