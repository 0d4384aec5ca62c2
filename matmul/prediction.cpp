#include "matmul/prediction.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "matmul/build.hpp"

namespace tilewise {
namespace {

std::vector<KernelSpec> kernels_of(const KernelTemplate& kernel, const Problem& problem,
                                   const Configuration& configuration, const DeviceInfo& device) {
  const Plan plan = kernel.plan(problem, configuration, device);
  std::vector<KernelSpec> kernels;
  for (const LaunchStep& step : plan.steps) kernels.push_back(step.kernel);
  return kernels;
}

/// Whether both problems have the same kernels of a candidate, at the second one's alignment.
bool same_kernels(const KernelTemplate& kernel, const Configuration& configuration, Problem own,
                  const Problem& problem, const DeviceInfo& device) {
  own.alignment = problem.alignment;
  return rejection(kernel, own, configuration, device).empty() &&
         kernels_of(kernel, own, configuration, device) ==
             kernels_of(kernel, problem, configuration, device);
}

bool same_size(Problem x, const Problem& y) {
  x.alignment = y.alignment;
  return x == y;
}

bool reads(const Constraint& constraint, const std::string& parameter) {
  return std::count(constraint.reads.begin(), constraint.reads.end(), parameter) > 0;
}

/// Whether a valid candidate is still valid after a change of the parameter's value.
bool may_set(const KernelTemplate& kernel, const Configuration& changed,
             const std::string& parameter, const Problem& problem, const DeviceInfo& device) {
  for (const Constraint& constraint : kernel.constraints)
    if (!constraint.for_search_only && reads(constraint, parameter) &&
        !constraint.holds({problem, changed, device}))
      return false;
  return true;
}

}  // namespace

std::uint64_t GivenPackings::key() const {
  std::uint64_t key = 0;
  const auto mix = [&key](std::uint64_t value) {  // as boost::hash_combine does
    key ^= value + 0x9e3779b97f4a7c15 + (key << 6) + (key >> 2);
  };
  for (const std::optional<Packing>& packing : {a, b}) {
    if (!packing) continue;
    const Packing& p = *packing;
    mix(static_cast<std::uint64_t>(p.role) * 8 + p.transposed * 4 + p.rounded * 2 + p.split);
    for (const std::int64_t value : {p.rows, p.columns, p.packed_rows, p.ld, p.bytes})
      mix(static_cast<std::uint64_t>(value));
  }
  return none() ? 0 : key | 1;
}

Cost cost_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
             const GivenPackings& given) {
  Plan plan = plan_of(candidate, problem, device);
  std::erase_if(plan.steps, [&](const LaunchStep& step) {
    return !step.packs.empty() &&
           std::all_of(step.packs.begin(), step.packs.end(),
                       [&](const Packing& packing) { return given.has(packing); });
  });
  return estimate(plan, device);
}

bool has_one_of(const RefusedKernels& refused, const Candidate& candidate, const Problem& problem,
                const DeviceInfo& device) {
  if (refused.empty()) return false;
  const std::vector<KernelSpec> kernels = kernels_of(find_template(candidate.kernel_template),
                                                     problem, candidate.configuration, device);
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const KernelSpec& kernel) { return refused.count(kernel) > 0; });
}

std::size_t hash_of(const Candidate& candidate) {
  std::size_t hash = std::hash<std::string>{}(candidate.kernel_template);
  for (const auto& [name, value] : candidate.configuration.values())  // names sorted
    hash ^= static_cast<std::size_t>(value) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash;
}

std::optional<Candidate> form_for(const Record& record, const Problem& problem,
                                  const DeviceInfo& device) {
  Candidate candidate = record.candidate;
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  if (!kernel.specialises.empty() && !same_size(record.problem, problem))
    candidate.configuration.set(kernel.specialises, 0);
  if (!is_valid(kernel, problem, candidate.configuration, device)) return {};
  if (kernel.size_specialised &&
      !same_kernels(kernel, candidate.configuration, record.problem, problem, device))
    return {};
  return candidate;
}

void fit_to_size(Candidate& candidate, double& us, const Problem& problem, const DeviceInfo& device,
                 const ExpectedUs& expected_us) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  std::optional<std::vector<KernelSpec>> kernels;
  for (const Parameter& parameter : kernel.parameters) {
    if (std::count(kernel.of_size.begin(), kernel.of_size.end(), parameter.name) == 0) continue;
    const std::vector<int>& values = parameter.values;
    const auto stored =
        std::find(values.begin(), values.end(), candidate.configuration.at(parameter.name));
    const auto start = static_cast<std::ptrdiff_t>(stored - values.begin());
    const auto count = static_cast<std::ptrdiff_t>(values.size());
    for (const std::ptrdiff_t step : {1, -1})
      for (std::ptrdiff_t i = start + step; 0 <= i && i < count; i += step) {
        Candidate other = candidate;
        other.configuration.set(parameter.name, values[static_cast<std::size_t>(i)]);
        if (!may_set(kernel, other.configuration, parameter.name, problem, device)) continue;
        const double other_us = expected_us(other);
        if (!(other_us < us)) break;
        if (!kernels) kernels = kernels_of(kernel, problem, candidate.configuration, device);
        if (kernels_of(kernel, problem, other.configuration, device) != *kernels) continue;
        candidate = std::move(other);
        us = other_us;
      }
  }
}

double measured_over_modelled(const Record& record, const DeviceInfo& device) {
  constexpr double kMost = 4;
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  if (!record.measurement ||
      !rejection(kernel, record.problem, record.candidate.configuration, device).empty())
    return 1;
  const double model_us = cost_of(record.candidate, record.problem, device).seconds * 1e6;
  return model_us > 0 ? std::clamp(record.measurement->median_us / model_us, 1 / kMost, kMost) : 1;
}

}  // namespace tilewise
