#include <algorithm>

#include "vocabulary/text.hpp"

#include "templates/kernel_template.hpp"

namespace tilewise {

std::string not_one_of(const std::string& name, int value, const std::vector<int>& allowed) {
  return name + "=" + std::to_string(value) + " is not one of " + join(allowed);
}

namespace {

/// Empty unless the configuration has a parameter that the template has not.
std::string unknown_parameter(const KernelTemplate& kernel, const Configuration& configuration) {
  for (const auto& [name, value] : configuration.values()) {
    const auto same_name = [&name = name](const Parameter& p) { return p.name == name; };
    if (std::none_of(kernel.parameters.begin(), kernel.parameters.end(), same_name))
      return "unknown parameter " + name;
  }
  return "";
}

}  // namespace

std::string bad_values(const KernelTemplate& kernel, const Configuration& configuration) {
  std::string bad;
  std::size_t found = 0;
  for (const Parameter& parameter : kernel.parameters) {
    const int* value = configuration.find(parameter.name);
    const std::vector<int>& allowed = parameter.values;
    if (value) ++found;
    if (!bad.empty() || (!value && parameter.added)) continue;
    if (!value)
      bad = "parameter " + parameter.name + " is missing";
    else if (std::find(allowed.begin(), allowed.end(), *value) == allowed.end())
      bad = not_one_of(parameter.name, *value, allowed);
  }
  if (found == configuration.values().size()) return bad;
  return unknown_parameter(kernel, configuration);
}

Configuration with_added(const KernelTemplate& kernel, Configuration configuration) {
  for (const Parameter& parameter : kernel.parameters)
    if (parameter.added && !configuration.find(parameter.name))
      configuration.set(parameter.name, parameter.values.front());
  return configuration;
}

std::string rejection(const KernelTemplate& kernel, const Problem& problem,
                      const Configuration& configuration, const DeviceInfo& device) {
  if (!kernel.supports(problem, device))
    return kernel.name + " does not support " + to_string(problem) + " on " + device.name;
  // Constraints may divide by values: they are evaluated only for values of the parameters.
  if (std::string bad = bad_values(kernel, configuration); !bad.empty()) return bad;
  std::any numbers;
  for (const Constraint& constraint : kernel.constraints)
    if (!constraint.for_search_only &&
        !constraint.holds({problem, configuration, device, &numbers}))
      return "constraint " + constraint.name + ": " + constraint.text;
  return "";
}

bool is_valid(const KernelTemplate& kernel, const Problem& problem,
              const Configuration& configuration, const DeviceInfo& device) {
  return bad_values(kernel, configuration).empty() &&
         meets_constraints(kernel, problem, configuration, device);
}

bool meets_constraints(const KernelTemplate& kernel, const Problem& problem,
                       const Configuration& configuration, const DeviceInfo& device) {
  if (!kernel.supports(problem, device)) return false;
  std::any numbers;
  return std::all_of(kernel.constraints.begin(), kernel.constraints.end(),
                     [&](const Constraint& constraint) {
                       return constraint.for_search_only ||
                              constraint.holds({problem, configuration, device, &numbers});
                     });
}

std::optional<Configuration> default_for(const KernelTemplate& kernel, const Problem& problem,
                                         const DeviceInfo& device) {
  if (!kernel.supports(problem, device)) return std::nullopt;
  const Configuration usual = kernel.default_configuration(problem, device);
  if (is_valid(kernel, problem, usual, device)) return usual;
  if (!problem.order) return std::nullopt;
  std::vector<const Parameter*> changeable;
  for (const Parameter& parameter : kernel.parameters)
    if (std::count(kernel.sum_order_reads.begin(), kernel.sum_order_reads.end(), parameter.name) >
        0)
      changeable.push_back(&parameter);
  for (const bool both : {false, true})
    for (const Parameter* first : changeable)
      for (const Parameter* second : changeable) {
        if (both ? first >= second : first != second) continue;
        for (const int value : first->values)
          for (const int other : both ? second->values : std::vector<int>{value}) {
            Configuration changed = usual;
            changed.set(first->name, value);
            changed.set(second->name, other);
            if (meets_constraints(kernel, problem, changed, device)) return changed;
          }
      }
  return std::nullopt;
}

std::string launch_revision(const KernelTemplate& kernel) {
  return kernel.name + "." + std::to_string(kernel.revision) + " plan." +
         std::to_string(kPlanRevision) + " words." + std::to_string(kWordsRevision);
}

}  // namespace tilewise
