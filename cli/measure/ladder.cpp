#include <algorithm>
#include <chrono>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "cli/common/tune_report.hpp"
#include "cli/measure/ladder_report.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGpuSize = "4096";
constexpr const char* kCpuSize = "256";  // small: every thread of a GPU is emulated
constexpr double kGpuBudgetSeconds = 45, kCpuBudgetSeconds = 10;

struct LadderCommand {
  BenchOptions bench;
  std::string size, budget, database;
  std::string dtype = "f32", math = "strict";
};

void setup(CLI::App& app, LadderCommand& options) {
  app.add_option("--size,--sizes", options.size, "N or MxNxK (else 4096; on the CPU 256)")
      ->type_name("SIZE");
  app.add_option("--dtype", options.dtype, "The ladder's steps are f32's")
      ->type_name("{f32}")
      ->capture_default_str();
  app.add_option("--math", options.math, "The ladder's steps are strict")
      ->type_name("{strict}")
      ->capture_default_str();
  add_bench_options(app, options.bench);
  app.add_option("--budget", options.budget,
                 "Time to tune for where no winner is stored: 45, 90s, 2m (else 45s; CPU 10s)")
      ->type_name("TIME")
      ->check(time_span());
  add_database_option(app, options.database);
  app.footer(
      "Each teaching step from a plain loop to the tuned winner, with cuBLAS and the device's "
      "peak "
      "beside them; every rung is validated before it is timed (docs/ladder.md). Exit status 6 "
      "when "
      "one failed.\n\n" +
      examples({"autotune ladder --device 0 --size 4096", "autotune ladder --json > ladder.json",
                "autotune ladder --device host --size 128 --budget 5s"}));
}

void check_ladder_kind(const LadderCommand& options) {
  if (options.dtype == "f32" && options.math == "strict") return;
  throw Error(ErrorKind::invalid_argument,
              "the ladder's steps are strict f32, not " + options.dtype + " " + options.math +
                  "; tune for other kinds: autotune --sizes ... --dtype ... --math ...");
}

/// One problem, nn and tightly packed, as in the documentation of the ladder.
Problem problem_for(const LadderCommand& options, const Gpu& gpu) {
  const std::string text = !options.size.empty()  ? options.size
                           : gpu.info.target.host ? kCpuSize
                                                  : kGpuSize;
  const std::vector<Size> sizes = parse_sizes(text);
  if (sizes.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--size: '" + text + "' is " +
                                                 std::to_string(sizes.size()) +
                                                 " sizes; the ladder takes one, N or MxNxK");
  Problem problem;
  problem.m = sizes[0].m, problem.n = sizes[0].n, problem.k = sizes[0].k;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

Gpu gpu_for(const std::string& device, const Output& output) {
  if (device == "all" || device.find(',') != std::string::npos)
    throw Error(
        ErrorKind::invalid_argument,
        "--device: the ladder takes one GPU (auto, an index, a UUID or host), not " + device);
  return gpus_to_measure_on(device, output, true).front();
}

/// Tunes in a separate worker process.
TuneResult tune_for(const Problem& problem, double budget_seconds, const LadderCommand& options,
                    const Gpu& gpu, const LadderContext& context, Progress& progress) {
  Bench bench(gpu, options.bench);
  TuneOptions tune_options;
  tune_options.budget_seconds = budget_seconds;
  if (gpu.info.target.host) tune_options.compile_threads = cpu_compile_threads({problem});
  const auto show = [&](const TuneProgress& now) { progress.show(progress_line(now)); };
  TuneContext tuning{context.database,  context.cache, context.compiler,
                     bench.evaluator(), show,          context.stop};
  return tune(problem, tune_options, tuning);
}

int report(const Ladder& ladder, const Output& output) {
  if (output.json)
    print_document(ladder_json(ladder));
  else
    print_ladder(ladder, output);
  if (ladder.interrupted) return kInterrupted;
  const bool all_ok = std::all_of(ladder.rungs.begin(), ladder.rungs.end(),
                                  [](const Rung& rung) { return rung.outcome == Outcome::ok; });
  return all_ok ? kOk : kNoWinner;
}

int run_ladder(const LadderCommand& options, const Output& output) {
  const auto begin = Clock::now();
  check_ladder_kind(options);
  double budget = options.budget.empty() ? 0 : parse_seconds("--budget", options.budget);
  const Gpu gpu = gpu_for(options.bench.device, output);
  const bool on_cpu = gpu.info.target.host;
  if (!(budget > 0)) budget = on_cpu ? kCpuBudgetSeconds : kGpuBudgetSeconds;
  const Problem problem = problem_for(options, gpu);
  check_host_memory(problem);
  const DeviceStatus status = status_of(gpu);
  check_device_memory(problem, gpu.info, status);
  for (const std::string& doubt : doubts(status)) warn(gpu.info.name + ": " + doubt);
  const auto path = default_database_path(options.database);
  Database database = open_to_write(path);
  const auto compiler = compiler_if_any(gpu.info.target, options.bench.nvrtc);
  Progress progress(output);
  const std::unique_ptr<ImageCache> cache = open_image_cache(path, database);
  catch_interrupts();

  LadderContext context{database, cache.get(), compiler.get(), gpu.which, gpu.info};
  context.timing = timing_on(gpu.info, options.bench.warm);
  context.budget_seconds = budget;
  context.stop = &interrupted();
  context.progress = [&](const std::string& now) { progress.show(now); };
  context.tune = [&](const Problem& of, double budget_seconds) {
    return tune_for(of, budget_seconds, options, gpu, context, progress);
  };
  Ladder ladder = measure_ladder(problem, context);
  progress.clear();
  ladder.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report(ladder, output);
}

}  // namespace

void add_ladder(CLI::App& app, Selection& selection) {
  add_command<LadderCommand>(app, selection, "ladder",
                             "Measure the teaching steps, the tuned winner and cuBLAS side by side",
                             setup, run_ladder);
}

}  // namespace tilewise::cli
