#pragma once
#include <string>
#include <vector>

#include "tuner/cli/gpus.hpp"
#include "tuner/evaluate/trial.hpp"

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
/// {"left_out":[...],"results":[...]}; `gpus` are those that --device chose.
std::string trials_json(const std::vector<TrialReport>& reports, const std::vector<Gpu>& gpus);

}  // namespace tilewise::cli
