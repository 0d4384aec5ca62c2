#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/common/output.hpp"
#include "cli/inspect/explanation.hpp"
#include "cli/inspect/profiler.hpp"

/// Counters of the configuration that serves a product and of the runner-up, for explain.
namespace tilewise::cli {

struct ProfileOptions {
  std::string ncu;
  std::string which;     ///< the GPU; empty: the first with the subject's key
  std::string database;  ///< the argument of --db
  std::string nvrtc;
};

/// The median of each counter over the launches of a step.
struct ProfiledStep {
  StepRole role;
  std::string kernel;
  std::vector<double> values;  ///< in the order of Profile::counters; NaN: ncu has none
};
struct ProfiledCandidate {
  Candidate candidate;
  std::vector<ProfiledStep> steps;
};
struct Profile {
  std::vector<Counter> counters;
  int launches = 0;
  ProfiledCandidate serving;
  std::optional<ProfiledCandidate> runner_up;  ///< empty without another valid candidate
};

/// Runs ncu on this program, once for each candidate. Throws Error(unsupported) for the CPU, and
/// the errors of find_profiler() and profile().
Profile profile_of(const Explanation& explanation, const ProfileOptions& options);

void print_profile(const Profile& profile);
Json profile_json(const Profile& profile);

}  // namespace tilewise::cli
