#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/space_count.hpp"

namespace tilewise::cli {
namespace {

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
  add_list_option(app, "--arch", options.arch,
                  "A typical GPU of this target instead; needs no GPU here")
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

int run_space(const SpaceCommand& options, const Output& output) {
  problems_of(options.problems);  // bad problems are reported first
  refuse_kept_order(options.problems);
  std::vector<SpaceCount> counts;
  for (const DeviceInfo& device : devices_of(options, output))
    for (const Problem& problem : problems_of(options.problems, device, {})) {
      const std::vector<SpaceCount> more = count_space(
          problem, device, templates_of(options.candidates), subspace_of(options.candidates),
          {.draws = options.draws, .seed = options.seed});
      counts.insert(counts.end(), more.begin(), more.end());
    }
  if (output.json)
    print_document(Json{{"spaces", counts_json(counts)}});
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
