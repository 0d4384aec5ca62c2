#include "matmul/resolve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>
#include <utility>

#include "matmul/build.hpp"
#include "templates/cost_model.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

double log_ratio(std::int64_t x, std::int64_t y) {
  const auto at_least_1 = [](std::int64_t v) {
    return static_cast<double>(std::max<std::int64_t>(v, 1));
  };
  return std::abs(std::log2(at_least_1(x) / at_least_1(y)));
}

bool no_more_aligned(const Alignment& tuned, const Alignment& asked) {
  return tuned.a <= asked.a && tuned.b <= asked.b && tuned.c <= asked.c;
}

double alignment_gap(const Alignment& x, const Alignment& y) {
  return log_ratio(x.a, y.a) + log_ratio(x.b, y.b) + log_ratio(x.c, y.c);
}

/// Why this version cannot serve a winner; empty when it can.
std::string unusable(const Winner& winner) {
  const Candidate& candidate = winner.record.candidate;
  if (!winner.quarantined.empty()) return "is quarantined: " + winner.quarantined;
  const KernelTemplate* kernel = known_template(candidate.kernel_template);
  if (!kernel) return "is of a kernel template that this version has not";
  if (const std::string bad = bad_values(*kernel, candidate.configuration); !bad.empty())
    return "has a configuration that this version has not: " + bad + "; tune again";
  return "";
}

std::vector<KernelSpec> kernels_of(const KernelTemplate& kernel, const Problem& problem,
                                   const Configuration& configuration, const DeviceInfo& device) {
  const Plan plan = kernel.plan(problem, configuration, device);
  std::vector<KernelSpec> kernels;
  for (const LaunchStep& step : plan.steps) kernels.push_back(step.kernel);
  return kernels;
}

/// Whether the record's size and the problem have the same kernels, at the problem's alignment. A
/// size-specialised template would need a compile for every other size.
bool same_kernels(const Record& record, const Problem& problem, const DeviceInfo& device) {
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  const Configuration& configuration = record.candidate.configuration;
  Problem own = record.problem;
  own.alignment = problem.alignment;
  return rejection(kernel, own, configuration, device).empty() &&
         kernels_of(kernel, own, configuration, device) ==
             kernels_of(kernel, problem, configuration, device);
}

bool serves(const Winner& winner, const Problem& problem, const DeviceInfo& device) {
  const Record& record = winner.record;
  if (!same_kind(record.problem, problem) ||
      !no_more_aligned(record.problem.alignment, problem.alignment))
    return false;
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  return rejection(kernel, problem, record.candidate.configuration, device).empty() &&
         (!kernel.size_specialised || same_kernels(record, problem, device));
}

Cost cost_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return estimate(plan_of(candidate, problem, device), device);
}

/// Fills in the cost model's prediction, and returns it as text; empty without one.
std::string predict(Resolution& resolution, const Problem& problem, const DeviceInfo& device) {
  const Cost cost = cost_of(resolution.candidate, problem, device);
  resolution.predicted_us = cost.seconds * 1e6;
  resolution.limited_by = cost.seconds > 0 ? to_string(cost.limit) : "";
  return to_string(cost);
}

/// Whether `x` precedes `y`; both serve the problem.
bool nearer(const Winner& x, const Winner& y, const Problem& problem, const DeviceInfo& device) {
  const auto gaps = [&](const Winner& winner) {
    const Problem& of = winner.record.problem;
    return std::tuple(distance_between(of, problem),
                      alignment_gap(of.alignment, problem.alignment));
  };
  if (gaps(x) != gaps(y)) return gaps(x) < gaps(y);
  const auto times = [&](const Winner& winner) {
    const Record& record = winner.record;
    return std::tuple(cost_of(record.candidate, problem, device).seconds,
                      record.measurement ? record.measurement->median_us
                                         : std::numeric_limits<double>::infinity(),
                      record.id);
  };
  return times(x) < times(y);
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// "nn 1024x1024x1024 f32".
std::string short_text(const Problem& problem) {
  std::string text =
      std::string(to_string(problem.layout)) + " " + size_text(problem) + " " + kind_text(problem);
  if (problem.batch != 1) text += " batch " + std::to_string(problem.batch);
  return text;
}

/// "measured on this GPU for nn 1024x1024x1024 f32 on 2026-11-21: 41.2 us (52.1 TFLOP/s)".
std::string measured_text(const Record& record) {
  std::string text = "measured on this GPU for " + short_text(record.problem);
  if (!record.environment.date.empty()) text += " on " + record.environment.date.substr(0, 10);
  if (record.measurement) {
    const double us = record.measurement->median_us;
    text += ": " + format("%.4g us", us) + format(" (%.3g TFLOP/s)", tflops_of(record.problem, us));
  }
  return text;
}

std::string tune_command(const Problem& problem, const DeviceInfo& device) {
  // A UUID's first digits name a device independently of its index.
  const std::string name = device.target == default_host_target() ? "host"
                           : device.target.host                   ? to_string(device.target)
                           : device.uuid.empty()                  ? "0"
                                                                  : device.uuid.substr(0, 12);
  return "autotune --device " + name + tune_options(problem);
}

/// The kinds of products that the device supports: "f32, f32 by tf32, f16".
std::string kinds_done(Problem problem, const DeviceInfo& device) {
  std::string kinds;
  for (const ProductKind& kind : product_kinds()) {
    set_types(problem, kind.operand, kind.c, kind.math);
    const auto can = [&](const KernelTemplate& kernel) { return kernel.supports(problem, device); };
    if (std::any_of(catalog().begin(), catalog().end(), can))
      kinds += (kinds.empty() ? "" : ", ") + kind_text(problem);
  }
  return kinds;
}

/// Why a record's measurement no longer describes its candidate; empty when it does.
std::string staleness(const Record& record, const DeviceInfo& device, const std::string& compiler) {
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  const std::string revision = launch_revision(kernel);
  if (record.launch_revision != revision)
    return "measured with launch revision '" + record.launch_revision + "', this version has '" +
           revision + "' and must compile it";
  if (compiler.empty()) return "";
  if (!rejection(kernel, record.problem, record.candidate.configuration, device).empty())
    return "its configuration is no longer valid for the sizes it was measured with";
  const Plan plan = plan_of(record.candidate, record.problem, device);
  const LaunchStep* multiply = multiply_step(plan);
  if (multiply && source_hash(multiply->kernel, compiler) != record.source_hash)
    return "the kernel's source or the compiler has changed since";
  return "";
}

}  // namespace

bool same_kind(const Problem& x, const Problem& y) {
  return x.layout == y.layout && x.a == y.a && x.b == y.b && x.c == y.c &&
         x.accumulator == y.accumulator && x.math == y.math;
}

double distance_between(const Problem& x, const Problem& y) {
  return log_ratio(x.m, y.m) + log_ratio(x.n, y.n) + log_ratio(x.k, y.k) +
         log_ratio(x.batch, y.batch);
}

Match match_of(const Resolution& resolution, const Problem& problem) {
  Match match;
  match.kind = resolution.kind;
  match.problem = resolution.record ? resolution.record->problem : problem;
  match.kernel_template = resolution.candidate.kernel_template;
  match.configuration = resolution.candidate.configuration.text();
  if (resolution.record) {
    match.measured_at = resolution.record->environment.date;
    if (const auto& measured = resolution.record->measurement) {
      match.measured_us = measured->median_us;
      match.measured_tflops = tflops_of(match.problem, measured->median_us);
      match.spread = measured->spread;
    }
  }
  match.stale = resolution.stale;
  match.distance = resolution.distance;
  match.predicted_us = resolution.predicted_us;
  match.limited_by = resolution.limited_by;
  match.why = resolution.why;
  return match;
}

Resolver::Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler)
    : device_(device), compiler_(std::move(compiler)) {
  std::vector<std::pair<std::string, int>> reasons;  // of notes_, with the winners after the first
  for (Winner& winner : winners) {
    if (winner.record.gpu != gpu_key(device)) continue;
    const std::string why_not = unusable(winner);
    if (why_not.empty()) {
      winners_.push_back(std::move(winner));
      continue;
    }
    const std::string reason = winner.record.candidate.kernel_template + why_not;
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& other) { return other.first == reason; });
    if (known != reasons.end()) {
      ++known->second;
      continue;
    }
    reasons.emplace_back(reason, 0);
    notes_.push_back("the winner for " + to_string(winner.record.problem) + " (record " +
                     std::to_string(winner.record.id) + ", " +
                     winner.record.candidate.kernel_template + ") is not served: it " + why_not);
  }
  for (std::size_t i = 0; i < reasons.size(); ++i)
    if (reasons[i].second > 0)
      notes_[i] += " (and " + std::to_string(reasons[i].second) + " more, for the same reason)";
}

Resolver Resolver::with_compiler(std::string identity) const {
  Resolver other = *this;
  other.compiler_ = std::move(identity);
  return other;
}

Resolution Resolver::resolve(const Problem& problem, const std::vector<Candidate>& refused) const {
  const Winner* winner = best(problem, refused);
  return winner ? answer(problem, *winner) : default_answer(problem, refused);
}

const Winner* Resolver::best(const Problem& problem, const std::vector<Candidate>& refused) const {
  const Winner* best = nullptr;
  for (const Winner& winner : winners_) {
    if (std::count(refused.begin(), refused.end(), winner.record.candidate) > 0) continue;
    // The distance rejects most winners before the costlier constraints.
    if (best && distance_between(winner.record.problem, problem) >
                    distance_between(best->record.problem, problem))
      continue;
    if (!serves(winner, problem, device_)) continue;
    if (!best || nearer(winner, *best, problem, device_)) best = &winner;
  }
  return best;
}

Resolution Resolver::answer(const Problem& problem, const Winner& winner) const {
  const Record& record = winner.record;
  Resolution resolution;
  resolution.kind = record.problem == problem ? MatchKind::exact : MatchKind::nearest;
  resolution.candidate = record.candidate;
  resolution.distance = distance_between(record.problem, problem);
  resolution.record = record;
  resolution.why = measured_text(record);
  if (resolution.kind == MatchKind::nearest) {
    resolution.why = "the nearest of " + std::to_string(winners_.size()) + " stored, " +
                     format("at distance %.2f", resolution.distance) +
                     " in log2 of the sizes: " + resolution.why;
    if (record.problem.alignment != problem.alignment)
      resolution.why += ", tuned for alignment " + alignment_text(record.problem.alignment) +
                        " where this has " + alignment_text(problem.alignment);
  }
  const std::string expected = predict(resolution, problem, device_);
  if (!expected.empty()) resolution.why += "; the cost model expects " + expected;
  const std::string stale = staleness(record, device_, compiler_);
  resolution.stale = !stale.empty();
  if (resolution.stale) resolution.why += "; stale: " + stale;
  return resolution;
}

Resolution Resolver::default_answer(const Problem& problem,
                                    const std::vector<Candidate>& refused) const {
  std::vector<const KernelTemplate*> order;
  for (const KernelTemplate& kernel : catalog()) order.push_back(&kernel);
  std::stable_sort(order.begin(), order.end(),
                   [&](const KernelTemplate* x, const KernelTemplate* y) {
                     return x->default_rank(problem) < y->default_rank(problem);
                   });
  for (const KernelTemplate* kernel : order) {
    if (!kernel->supports(problem, device_)) continue;
    Resolution resolution;
    resolution.candidate = {kernel->name, kernel->default_configuration(problem, device_)};
    if (!rejection(*kernel, problem, resolution.candidate.configuration, device_).empty()) continue;
    if (std::count(refused.begin(), refused.end(), resolution.candidate) > 0) continue;
    const std::string expected = predict(resolution, problem, device_);
    resolution.why = "nothing stored for " + short_text(problem) + " serves it on this GPU, so " +
                     kernel->name + "'s default does" +
                     (expected.empty() ? "" : " (the cost model expects " + expected + ")") +
                     "; to tune it: " + tune_command(problem, device_);
    return resolution;
  }
  const std::string what = to_string(problem) + " on " + device_.name;
  if (!refused.empty())
    throw Error(ErrorKind::unsupported, "every kernel failed that does " + what);
  throw Error(ErrorKind::unsupported,
              "no kernel template does " + what + ", which can do " + kinds_done(problem, device_));
}

}  // namespace tilewise
