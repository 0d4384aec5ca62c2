#include "matmul/prediction.hpp"

#include <algorithm>
#include <any>
#include <functional>
#include <utility>

#include "templates/kernel_template.hpp"

namespace tilewise {
namespace {

bool same_kernels(const Plan& x, const Plan& y) {
  return std::equal(x.steps.begin(), x.steps.end(), y.steps.begin(), y.steps.end(),
                    [](const LaunchStep& a, const LaunchStep& b) { return a.kernel == b.kernel; });
}

/// Whether a candidate has the same kernels for both problems, at the second one's alignment.
bool same_kernels(const KernelTemplate& kernel, const Configuration& configuration, Problem own,
                  const Problem& problem, const DeviceInfo& device) {
  set_alignment(own, alignment_of(problem));
  own.pointers = problem.pointers;
  own.epilogue = problem.epilogue;
  own.order = nullptr;
  return is_valid(kernel, own, configuration, device) &&
         same_kernels(kernel.plan(own, configuration, device),
                      kernel.plan(problem, configuration, device));
}

bool same_size(Problem x, const Problem& y) {
  set_alignment(x, alignment_of(y));
  x.pointers = y.pointers;
  x.epilogue = y.epilogue;
  x.order = y.order;
  return x == y;
}

bool reads(const Constraint& constraint, const std::string& parameter) {
  return std::count(constraint.reads.begin(), constraint.reads.end(), parameter) > 0;
}

/// Whether a valid candidate stays valid after a change of the parameter's value.
bool may_set(const KernelTemplate& kernel, const Configuration& changed,
             const std::string& parameter, const Problem& problem, const DeviceInfo& device) {
  std::any numbers;
  for (const Constraint& constraint : kernel.constraints)
    if (!constraint.for_search_only && reads(constraint, parameter) &&
        !constraint.holds({problem, changed, device, &numbers}))
      return false;
  return true;
}

}  // namespace

std::uint64_t key_of(const Packing& p) {
  std::uint64_t key =
      static_cast<std::uint64_t>(p.role) * 8 + p.transposed * 4 + p.rounded * 2 + p.split;
  for (const std::int64_t value : {p.rows, p.columns, p.packed_rows, p.ld, p.bytes})
    key ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15 + (key << 6) +
           (key >> 2);  // as boost::hash_combine does
  return key | 1;
}

Cost cost_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
             const GivenPackings& given) {
  return cost_of(plan_of(candidate, problem, device), device, given);
}

Cost cost_of(const Plan& plan, const DeviceInfo& device, const GivenPackings& given) {
  if (given.none()) return estimate(plan, device);
  Plan rest = plan;
  std::erase_if(rest.steps, [&](const LaunchStep& step) {
    return !step.packs.empty() &&
           std::all_of(step.packs.begin(), step.packs.end(),
                       [&](const Packing& packing) { return given.has(packing); });
  });
  return estimate(rest, device);
}

bool is_ruled_out(const Conditions& conditions, const Candidate& candidate, const Problem& problem,
                  const DeviceInfo& device) {
  if (conditions.refused.empty() && !conditions.far) return false;
  const Plan plan = plan_of(candidate, problem, device);
  return (conditions.far && has_maps_of_call(plan)) ||
         std::any_of(plan.steps.begin(), plan.steps.end(), [&](const LaunchStep& step) {
           return conditions.refused.contains(step.kernel);
         });
}

bool has_maps_of_call(const Plan& plan) {
  return std::any_of(plan.tensor_maps.begin(), plan.tensor_maps.end(),
                     [](const TensorMapRecipe& recipe) {
                       return recipe.stride.kind != Argument::Kind::integer64;
                     });
}

std::size_t hash_of(const Candidate& candidate) {
  std::size_t hash = std::hash<std::string>{}(candidate.kernel_template);
  for (const auto& [name, value] : candidate.configuration.values())  // names sorted
    hash ^= static_cast<std::size_t>(value) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash;
}

bool does_in_vain(const KernelTemplate& kernel, const Configuration& configuration,
                  const Problem& problem, const DeviceInfo& device) {
  std::any numbers;
  for (const Constraint& constraint : kernel.constraints) {
    if (constraint.of_work.empty() || constraint.holds({problem, configuration, device, &numbers}))
      continue;
    Configuration without = configuration;
    for (const Parameter& parameter : kernel.parameters)
      if (std::count(constraint.of_work.begin(), constraint.of_work.end(), parameter.name) > 0)
        without.set(parameter.name, parameter.values.front());
    if (constraint.holds({problem, without, device})) return true;
  }
  return false;
}

std::optional<Candidate> form_for(const Record& record, const Problem& problem,
                                  const DeviceInfo& device) {
  Candidate candidate = record.candidate;
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  // Of a record and its form in this version, one is compared.
  candidate.configuration = with_added(kernel, std::move(candidate.configuration));
  if (!kernel.specialises.empty() && !same_size(record.problem, problem))
    candidate.configuration.set(kernel.specialises, 0);
  if (!meets_constraints(kernel, problem, candidate.configuration, device)) return {};
  if (kernel.size_specialised &&
      !same_kernels(kernel, candidate.configuration, record.problem, problem, device))
    return {};
  if (!same_size(record.problem, problem) &&
      does_in_vain(kernel, candidate.configuration, problem, device))
    return {};
  return candidate;
}

Candidate family_of(Candidate candidate) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  for (const std::string& name : kernel.of_size)
    if (const int* value = candidate.configuration.find(name); value && *value > 1)
      candidate.configuration.set(name, 2);
  return candidate;
}

bool fit_to_size(Candidate& candidate, double& us, const Problem& problem, const DeviceInfo& device,
                 const ExpectedUs& expected_us) {
  bool changed = false;
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  std::optional<Plan> plan;
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
        const Plan other_plan = kernel.plan(problem, other.configuration, device);
        const double other_us = expected_us(other, other_plan);
        if (!(other_us < us)) break;
        if (!plan) plan = kernel.plan(problem, candidate.configuration, device);
        if (!same_kernels(*plan, other_plan)) continue;
        candidate = std::move(other);
        us = other_us;
        changed = true;
      }
  }
  return changed;
}

std::optional<Cost> own_cost(const Record& record, const DeviceInfo& device) {
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  if (!record.measurement ||
      !is_valid(kernel, record.problem, record.candidate.configuration, device))
    return {};
  return cost_of(record.candidate, record.problem, device);
}

double measured_over_modelled(const Record& record, const std::optional<Cost>& own) {
  constexpr double kMost = 4;
  const double model_us = own ? own->seconds * 1e6 : 0;
  return model_us > 0 ? std::clamp(record.measurement->median_us / model_us, 1 / kMost, kMost) : 1;
}

}  // namespace tilewise
