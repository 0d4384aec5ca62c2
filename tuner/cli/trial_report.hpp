#pragma once
#include <string>
#include <vector>

#include "tuner/cli/gpus.hpp"
#include "tuner/evaluate/trial.hpp"

namespace tilewise::cli {

/// The trial of one candidate on one problem, for `tune --only`.
struct TrialReport {
  Problem problem;
  Candidate candidate;
  DeviceInfo device;
  Trial trial;
};
/// Prints each trial in full: plan, compiler's resource usage, results of validation and timing.
void print_trials(const std::vector<TrialReport>& reports);
/// {"left_out":[...],"results":[...]}; `gpus` are those chosen by --device.
std::string trials_json(const std::vector<TrialReport>& reports, const std::vector<Gpu>& gpus);

}  // namespace tilewise::cli
