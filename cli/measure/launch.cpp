#include <vector>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/stored.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "matmul/executable.hpp"
#include "matmul/kept_orders.hpp"
#include "tuner/evaluate/extra_operands.hpp"
#include "tuner/evaluate/staging.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

/// The hidden subcommand that launches one candidate several times, for a profiler. It launches no
/// other kernels. `explain --profile` starts it.
struct LaunchCommand {
  ProblemOptions problems;
  std::string device = "auto", key, only, nvrtc, database;
  int times = 1;
};

void setup(CLI::App& app, LaunchCommand& options) {
  add_device_option(app, options.device, "The GPU");
  app.add_option("--key", options.key, "The first chosen GPU of this name, capability and size");
  add_problem_options(app, options.problems, "");
  app.add_option("--only", options.only, "The candidate")->required();
  app.add_option("--times", options.times, "Launches of its plan")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.group("");  // hidden
}

Gpu gpu_of(const LaunchCommand& options) {
  const std::vector<Gpu> gpus = choose_gpus(options.device, false);
  for (const Gpu& gpu : gpus)
    if (options.key.empty() || gpu_key(gpu.info) == options.key) return gpu;
  throw Error(ErrorKind::no_device,
              "there is no " + options.key + " in this machine, which has " +
                  join(gpus, ", ", [](const Gpu& gpu) { return gpu_key(gpu.info); }));
}

Built built_on(const Gpu& gpu, const LaunchCommand& options, const Problem& problem) {
  const Candidate candidate = parse_candidate(options.only, problem, gpu.info);
  std::optional<Database> database = open_if_there(options.database);
  const auto compiler = compiler_if_any(gpu.info.target, options.nvrtc);
  const ImageStore images(database ? &*database : nullptr, nullptr, compiler.get());
  Built built =
      build(candidate, find_template(candidate.kernel_template), problem, gpu.info, images);
  if (built.fault) throw Error(*built.fault);
  if (!built.refusal.empty())
    throw Error(ErrorKind::compiler, to_string(candidate) + " does not compile:\n" + built.refusal);
  return built;
}

/// Launches the candidate with the data of a timing.
void launch(const Gpu& gpu, const Problem& problem, const Built& built, int times) {
  const auto device = open_device(gpu.which);
  const Executable executable(*device, problem, built.plan, built.images);
  const OwnedStream stream(*device);
  std::vector<Placement> places{
      tight_placement(rows_a(problem), min_lda(problem), problem.a, matrices_a(problem)),
      tight_placement(rows_b(problem), min_ldb(problem), problem.b, matrices_b(problem)),
      tight_placement(problem.m, problem.n, problem.c, matrices_c(problem))};
  const DeviceMatrix a(*device, places[0]), b(*device, places[1]), c(*device, places[2]);
  const auto tight = ExtraOperands::Kind::tight;
  const std::vector<Placement> others = ExtraOperands::placements(problem, tight);
  places.insert(places.end(), others.begin(), others.end());
  Staging staging(*device, places);
  constexpr std::uint64_t kSeed = 1;
  staging.upload(stream.get(), a, {problem, DataSet::bounded, DataOf::a, kSeed});
  staging.upload(stream.get(), b, {problem, DataSet::bounded, DataOf::b, kSeed});
  staging.upload(stream.get(), c, {problem, DataSet::bounded, DataOf::c0, kSeed});
  const ExtraOperands operands(*device, problem, tight);
  operands.upload(staging, stream.get(), problem, kSeed);
  Call call = call_on(a, b, c, stream.get());
  operands.bind(call);
  for (int i = 0; i < times; ++i) executable.launch(call);
  device->synchronize(stream.get());
}

int run_launch(const LaunchCommand& options, const Output& output) {
  const Gpu gpu = gpu_of(options);
  const std::vector<Problem> problems = problems_of(options.problems, gpu.info, {});
  if (problems.size() != 1) throw Error(ErrorKind::invalid_argument, "one product is needed");
  const std::optional<Database> database = open_if_there(options.database);
  const Problem problem =
      in_kept_order(problems.front(), gpu.info, database ? &*database : nullptr);
  launch(gpu, problem, built_on(gpu, options, problem), options.times);
  note(output, "launched " + std::to_string(options.times) + " times on " + gpu.info.name);
  return kOk;
}

}  // namespace

void add_launch(CLI::App& app, Selection& selection) {
  add_command<LaunchCommand>(app, selection, "launch", "Launches one candidate, for a profiler",
                             setup, run_launch);
}

}  // namespace tilewise::cli
