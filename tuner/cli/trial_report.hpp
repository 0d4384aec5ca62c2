#pragma once
#include <string>
#include <vector>

#include "tuner/cli/bench.hpp"

namespace tilewise::cli {

/// One candidate tried on one problem, for `tune --only`.
struct TrialReport {
  Problem problem;
  Candidate candidate;
  DeviceInfo device;
  Trial trial;
};
/// Everything known about each: plan, what the compiler used, what validation and timing found.
void print_trials(const std::vector<TrialReport>& reports);
/// {"results":[...]}.
std::string trials_json(const std::vector<TrialReport>& reports);

}  // namespace tilewise::cli
