#include "cli/inspect/explain_profile.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "cli/common/json.hpp"
#include "cli/common/output.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/candidate_text.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

constexpr int kWarmUps = 1;  // launches of the plan
constexpr int kLaunches = 3;
constexpr double kShownStall = 0.005;  // warps per instruction; a table shows fewer as 0.00
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The command line of the hidden subcommand that launches the candidate.
std::vector<std::string> command_for(const Explanation& one, const Candidate& candidate,
                                     const ProfileOptions& options) {
  std::error_code ignored;
  std::vector<std::string> command{
      std::filesystem::read_symlink("/proc/self/exe", ignored).string(), "launch", "--device"};
  if (options.which.empty())
    command.insert(command.end(), {"all", "--key", one.answer.subject.key});
  else
    command.push_back(options.which);
  for (const std::string& word : option_words(problem_options(one.answer.problem)))
    command.push_back(word);
  command.insert(command.end(),
                 {"--only", to_string(candidate), "--times", std::to_string(kWarmUps + kLaunches)});
  if (!options.database.empty()) command.insert(command.end(), {"--db", options.database});
  if (!options.nvrtc.empty()) command.insert(command.end(), {"--nvrtc", options.nvrtc});
  return command;
}

double median_of(std::vector<double> values) {
  if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); }))
    return kUnknown;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ProfiledCandidate profiled(const std::string& ncu, const Explanation& one,
                           const Candidate& candidate, const ProfileOptions& options,
                           const std::vector<Counter>& counters) {
  const Plan plan = plan_of(candidate, one.answer.problem, one.answer.subject.info);
  const std::size_t steps = plan.steps.size();
  std::set<std::string> kernels;
  for (const LaunchStep& step : plan.steps) kernels.insert(step.kernel.entry);
  const std::vector<ProfiledLaunch> launches = profile(ncu,
                                                       {command_for(one, candidate, options),
                                                        {kernels.begin(), kernels.end()},
                                                        kWarmUps * steps,
                                                        kLaunches * steps},
                                                       counters);
  ProfiledCandidate result{candidate, {}};
  for (std::size_t s = 0; s < steps; ++s) {
    ProfiledStep step{plan.steps[s].role, plan.steps[s].kernel.entry, {}};
    for (std::size_t c = 0; c < counters.size(); ++c) {
      std::vector<double> values;
      for (std::size_t i = s; i < launches.size(); i += steps)
        values.push_back(launches[i].values[c]);
      step.values.push_back(median_of(std::move(values)));
    }
    result.steps.push_back(std::move(step));
  }
  return result;
}

/// The fastest other candidate that is valid for the product.
const Candidate* runner_up_of(const Explanation& one) {
  for (const Rival& rival : one.rivals)
    if (const KernelTemplate* kernel = known_template(rival.record.candidate.kernel_template);
        kernel && rejection(*kernel, one.answer.problem, rival.record.candidate.configuration,
                            one.answer.subject.info)
                      .empty())
      return &rival.record.candidate;
  return nullptr;
}

const ProfiledStep* step_of(const ProfiledCandidate& one, StepRole role) {
  for (const ProfiledStep& step : one.steps)
    if (step.role == role) return &step;
  return nullptr;
}

std::string text_of(const Counter& counter, double value) {
  if (std::isnan(value)) return "-";
  switch (counter.unit) {
    case CounterUnit::share:
      return format_percent(value);
    case CounterUnit::microseconds:
      return format_microseconds(value);
    case CounterUnit::bytes:
      return format_bytes(value);
    case CounterUnit::count:
      return format_number(value, 0);
    case CounterUnit::ratio:
      return format_number(value, 2);
  }
  return "-";
}

/// A table row: one counter of a step, for both candidates.
std::vector<std::string> row_of(const Profile& profile, std::size_t counter, StepRole role,
                                std::string title) {
  std::vector<std::string> row{std::move(title)};
  const auto add = [&](const ProfiledCandidate& one) {
    const ProfiledStep* step = step_of(one, role);
    row.push_back(step ? text_of(profile.counters[counter], step->values[counter]) : "-");
  };
  add(profile.serving);
  if (profile.runner_up) add(*profile.runner_up);
  return row;
}

/// The counter's larger value in the multiply steps of both candidates.
double largest(const Profile& profile, std::size_t counter) {
  double found = 0;
  for (const ProfiledCandidate* one :
       {&profile.serving, profile.runner_up ? &*profile.runner_up : nullptr})
    if (const ProfiledStep* step = one ? step_of(*one, StepRole::multiply) : nullptr;
        step && step->values[counter] > found)
      found = step->values[counter];
  return found;
}

/// Stall reasons in descending order, without those below kShownStall.
std::vector<std::size_t> stalls_of(const Profile& profile) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < profile.counters.size(); ++i)
    if (is_stall(profile.counters[i]) && largest(profile, i) >= kShownStall) found.push_back(i);
  std::stable_sort(found.begin(), found.end(), [&](std::size_t x, std::size_t y) {
    return largest(profile, x) > largest(profile, y);
  });
  return found;
}

Json candidate_json(const Profile& profile, const ProfiledCandidate& one) {
  const auto step_json = [&](const ProfiledStep& step) {
    Json json{{"step", to_string(step.role)}, {"kernel", step.kernel}}, stalls = Json::object();
    for (std::size_t i = 0; i < profile.counters.size(); ++i) {
      const Counter& counter = profile.counters[i];
      (is_stall(counter) ? stalls : json)[counter.key] = step.values[i];
    }
    json["stalls"] = std::move(stalls);
    return json;
  };
  return {{"candidate", json_of(one.candidate)}, {"steps", array_of(one.steps, step_json)}};
}

}  // namespace

Profile profile_of(const Explanation& explanation, const ProfileOptions& options) {
  const Subject& subject = explanation.answer.subject;
  if (subject.info.target.host)
    throw Error(ErrorKind::unsupported,
                "--profile reads counters of a GPU, and the CPU's kernels have none");
  const std::string ncu = find_profiler(options.ncu);
  Profile profile{counters_for(subject.info.target), kLaunches, {}, std::nullopt};
  profile.serving = profiled(ncu, explanation, explanation.answer.resolution.candidate, options,
                             profile.counters);
  if (const Candidate* runner_up = runner_up_of(explanation))
    profile.runner_up = profiled(ncu, explanation, *runner_up, options, profile.counters);
  return profile;
}

void print_profile(const Profile& profile) {
  std::vector<Column> columns{{"multiply step"}, {"this", true}};
  if (profile.runner_up) columns.push_back({"runner-up", true});
  Table table(columns);
  for (std::size_t i = 0; i < profile.counters.size(); ++i)
    if (!is_stall(profile.counters[i]))
      table.add(row_of(profile, i, StepRole::multiply, profile.counters[i].title));
  for (const std::size_t i : stalls_of(profile))
    table.add(
        row_of(profile, i, StepRole::multiply, std::string("stall, ") + profile.counters[i].title));
  for (const StepRole role :
       {StepRole::pack_a, StepRole::pack_b, StepRole::pack_both, StepRole::reduce})
    if (step_of(profile.serving, role) || (profile.runner_up && step_of(*profile.runner_up, role)))
      table.add(row_of(profile, 0, role, "time of " + std::string(to_string(role))));
  const int width = terminal_width();
  std::istringstream lines(table.text(width > 2 ? width - 2 : 0, colours(StandardStream::out)));
  for (std::string line; std::getline(lines, line);) print_exact_line("  " + line);
  print_wrapped("  this: " + short_text(profile.serving.candidate));
  print_wrapped("  runner-up: " +
                (profile.runner_up
                     ? short_text(profile.runner_up->candidate)
                     : std::string("none of its rivals is stored and valid for the product")));
  print_wrapped(
      "  medians of " + std::to_string(profile.launches) +
      " launches by ncu, caches flushed before each: shares of each unit's peak, stalls in "
      "warps for each issued instruction");
}

Json profile_json(const Profile& profile) {
  return {{"launches", profile.launches},
          {"serving", candidate_json(profile, profile.serving)},
          {"runner_up", profile.runner_up ? candidate_json(profile, *profile.runner_up) : Json()}};
}

}  // namespace tilewise::cli
