#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tuner/cli/bench.hpp"
#include "tuner/cli/command.hpp"
#include "tuner/cli/gpus.hpp"
#include "tuner/cli/inputs.hpp"
#include "tuner/cli/kinds.hpp"

namespace tilewise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SpaceCommand {
  ProblemOptions problems;
  CandidateOptions candidates;
  std::string arch;
  std::string device = "auto";
  int draws = 20'000;
  std::uint64_t seed = 1;
};

void setup(CLI::App& app, SpaceCommand& options) {
  add_problem_options(app, options.problems, "1024");
  add_device_option(app, options.device, "GPU: auto (the first), an index, or a UUID");
  app.add_option("--arch", options.arch, "A typical GPU of this target instead; needs no GPU here")
      ->type_name("{sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_103,sm_120}")
      ->excludes("--device");
  add_candidate_options(app, options.candidates);
  app.add_option(
         "--draws", options.draws,
         "Random configurations of each template: for the refusals, and for an estimated count")
      ->type_name("N")
      ->transform(whole_number(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the draws")
      ->type_name("N")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str();
  app.footer(examples(
      {"autotune space --arch sm_90 --sizes 1024",
       "autotune space --device 0 --sizes 4096 --templates simt --subspace 'PREFETCH=2'"}));
}

/// The size of one template's space for one problem.
struct Count {
  std::string target;
  Problem problem;
  std::string kernel_template;
  double raw = 0;
  PointCount valid;
  std::int64_t draws = 0, refused = 0;          ///< uniform draws of the raw space
  std::map<std::string, std::int64_t> reasons;  ///< constraint -> draws that violate it first

  double acceptance() const {
    return static_cast<double>(draws - refused) / static_cast<double>(draws);
  }
  double share() const { return raw > 0 ? valid.points / raw : 0; }
};

Count count_template(const SearchSpace& space, const SpaceCommand& options) {
  std::mt19937_64 generator(options.seed);
  const KernelTemplate& kernel = *space.templates().front();
  Count count{to_string(space.device().target),
              space.problem(),
              kernel.name,
              space.raw_size(),
              space.count_of(kernel, {.draws = options.draws, .seed = options.seed}),
              options.draws,
              0,
              space.rejections(generator, options.draws)};
  for (const auto& [name, refused] : count.reasons) count.refused += refused;
  return count;
}

std::vector<DeviceInfo> devices_of(const SpaceCommand& options, const Output& output) {
  std::vector<DeviceInfo> devices;
  if (options.arch.empty()) {
    const std::vector<Gpu> gpus = choose_gpus(options.device, true);
    print_left_out(gpus, output);
    for (const Gpu& gpu : gpus) devices.push_back(gpu.info);
    return devices;
  }
  for (const Target& target : parse_targets(options.arch))
    devices.push_back(nominal_device(best_target(target)));
  return devices;
}

std::string json_of(const std::vector<Count>& counts) {
  Json document{{"spaces", Json::array()}};
  for (const Count& count : counts) {
    Json json;
    json["target"] = count.target;
    json["problem"] = Json::parse(to_json(count.problem));
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
    document["spaces"].push_back(json);
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

/// "8.8e10", "8.1e-6".
std::string power_of_ten(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  const std::string_view all = text;
  const std::size_t e = all.find('e');
  return std::string(all.substr(0, e + 1)) + std::to_string(std::atoi(text + e + 1));
}

/// "324", "8.8e10".
std::string count_text(double value) {
  return value < 1e7 ? format_number(value, 0) : power_of_ten(value);
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

/// Most frequent first.
std::vector<std::pair<std::string, std::int64_t>> ranked(const Count& count) {
  std::vector<std::pair<std::string, std::int64_t>> reasons(count.reasons.begin(),
                                                            count.reasons.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  return reasons;
}

void print_counts(const std::vector<Count>& counts, const Output& output) {
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
  for (const Count& count : counts) {
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

int run_space(const SpaceCommand& options, const Output& output) {
  problems_of(options.problems);  // bad problems are reported first
  std::vector<Count> counts;
  for (const DeviceInfo& device : devices_of(options, output))
    for (const Problem& problem : problems_of(options.problems, device, {})) {
      const SearchSpace all(problem, device, templates_of(options.candidates),
                            subspace_of(options.candidates));
      for (const KernelTemplate* kernel : all.templates()) {
        Subspace own;
        for (const auto& [name, values] : subspace_of(options.candidates))
          for (const Parameter& parameter : kernel->parameters)
            if (parameter.name == name) own[name] = values;
        counts.push_back(count_template(SearchSpace(problem, device, {kernel}, own), options));
      }
    }
  if (output.json)
    print_document(json_of(counts));
  else
    print_counts(counts, output);
  return kOk;
}

}  // namespace

void add_space(CLI::App& app, Selection& selection) {
  add_command<SpaceCommand>(app, selection, "space",
                            "How large the search is, and why configurations are refused", setup,
                            run_space);
}

}  // namespace tilewise::cli
