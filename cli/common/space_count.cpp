#include "cli/common/space_count.hpp"

#include <algorithm>

#include "cli/common/json.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/record.hpp"

namespace tilewise::cli {
namespace {

SpaceCount count_template(const SearchSpace& space, const CountLimits& limits) {
  std::mt19937_64 generator(limits.seed);
  const KernelTemplate& kernel = *space.templates().front();
  SpaceCount count{to_string(space.device().target),
                   space.problem(),
                   kernel.name,
                   space.raw_size(),
                   space.count_of(kernel, limits),
                   limits.draws,
                   0,
                   space.rejections(generator, limits.draws)};
  for (const auto& [name, refused] : count.reasons) count.refused += refused;
  return count;
}

/// "8.8e10", "8.1e-6".
std::string power_of_ten(double value) {
  const std::string text = in_exponent_form(value, 1);
  const std::size_t digits = text.find('e') + 1;
  return text.substr(0, digits) + std::to_string(std::stoi(text.substr(digits)));
}

/// "exact", "+- 1.1%"; "+- 3200" when the count is 0.
std::string error_text(const PointCount& valid) {
  if (valid.exact) return "exact";
  return "+- " + (valid.points > 0 ? format_percent(valid.standard_error / valid.points)
                                   : count_text(valid.standard_error));
}

/// "3.4%", "8.1e-6".
std::string share_text(double share) {
  return share > 0 && share < 0.001 ? power_of_ten(share) : format_percent(share);
}

/// Constraints and refused draws, most frequent first.
std::vector<std::pair<std::string, std::int64_t>> ranked(const SpaceCount& count) {
  std::vector<std::pair<std::string, std::int64_t>> reasons(count.reasons.begin(),
                                                            count.reasons.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  return reasons;
}

}  // namespace

std::string count_text(double value) {
  return value < 1e7 ? format_number(value, 0) : power_of_ten(value);
}

std::vector<SpaceCount> count_space(const Problem& problem, const DeviceInfo& device,
                                    const std::vector<const KernelTemplate*>& templates,
                                    const Subspace& subspace, const CountLimits& limits) {
  std::vector<SpaceCount> counts;
  const SearchSpace all(problem, device, templates, subspace);
  for (const KernelTemplate* kernel : all.templates()) {
    Subspace own;
    for (const auto& [name, values] : subspace)
      for (const Parameter& parameter : kernel->parameters)
        if (parameter.name == name) own[name] = values;
    counts.push_back(count_template(SearchSpace(problem, device, {kernel}, own), limits));
  }
  return counts;
}

Json counts_json(const std::vector<SpaceCount>& counts) {
  return array_of(counts, [](const SpaceCount& count) {
    Json json;
    json["target"] = count.target;
    json["problem"] = json_of(count.problem);
    json["template"] = count.kernel_template;
    json["raw"] = count.raw;
    json["draws"] = count.draws;
    json["acceptance"] = count.acceptance();
    json["valid"] = count.valid.points;
    json["valid_is_exact"] = count.valid.exact;
    json["valid_standard_error"] = count.valid.standard_error;
    json["share"] = count.share();
    json["rejections"] = Json::object();
    for (const auto& [name, refused] : count.reasons) json["rejections"][name] = refused;
    return json;
  });
}

void print_counts(const std::vector<SpaceCount>& counts, const Output& output) {
  Table table({{"target", false, false, 2},
               {"problem", false, false, 1},
               {"template"},
               {"raw", true},
               {"valid", true},
               {"error"},
               {"share", true}});
  Table reasons({{"target", false, false, 2},
                 {"problem", false, false, 1},
                 {"template"},
                 {"refused first by"},
                 {"draws", true},
                 {"of draws", true}});
  for (const SpaceCount& count : counts) {
    table.add({count.target, table_text(count.problem), count.kernel_template,
               count_text(count.raw), count_text(count.valid.points), error_text(count.valid),
               share_text(count.share())});
    for (const auto& [name, refused] : ranked(count))
      if (refused > 0)
        reasons.add(
            {count.target, table_text(count.problem), count.kernel_template, name,
             std::to_string(refused),
             format_percent(static_cast<double>(refused) / static_cast<double>(count.draws))});
  }
  table.print(output);
  if (reasons.empty()) return;
  print_line("\nOf " + std::to_string(counts.front().draws) +
             " uniform draws of each template's raw space:");
  reasons.print(output);
}

}  // namespace tilewise::cli
