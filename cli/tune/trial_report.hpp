#pragma once
#include <string>
#include <vector>

#include "cli/common/gpus.hpp"
#include "tuner/evaluate/trial.hpp"

namespace tilewise::cli {

/// The trial of one candidate on one problem, for `tune --only`.
struct TrialReport {
  Problem problem;
  Candidate candidate;
  DeviceInfo device;
  Trial trial;
  std::string device_name;  ///< in --device's notation
};
/// Prints each trial in full: plan, the compiler's resource usage, results of validation and
/// timing.
void print_trials(const std::vector<TrialReport>& reports);
/// {"left_out":[],"results":[...]}.
Json trials_json(const std::vector<TrialReport>& reports);

}  // namespace tilewise::cli
