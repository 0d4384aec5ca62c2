#include <algorithm>
#include <chrono>

#include "device/machines.hpp"
#include "tilewise/error.hpp"
#include "tuner/cli/command.hpp"
#include "tuner/cli/inputs.hpp"
#include "tuner/cli/ladder_report.hpp"
#include "tuner/cli/progress.hpp"
#include "tuner/cli/signals.hpp"
#include "tuner/cli/stored.hpp"
#include "tuner/cli/tune_report.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGpuSize = "4096";
constexpr const char* kCpuSize = "256";  // every thread of a GPU is emulated
constexpr double kGpuBudgetSeconds = 45, kCpuBudgetSeconds = 10;
constexpr double kLeastModeSeconds = 5;  // for each mode of tensor cores, else a quarter

struct LadderCommand {
  BenchOptions bench;
  std::string size, budget, database, svg;
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
  app.add_option("--svg", options.svg, "Also draw the figure into this file (needs gnuplot)")
      ->type_name("FILE")
      ->check([](const std::string& path) -> std::string {
        return path.empty() ? "'' is not allowed; give the file to draw the figure into" : "";
      });
  add_database_option(app, options.database);
  app.footer(
      "Each teaching step from a plain loop to the tuned winner, with cuBLAS and the device's "
      "peak "
      "beside them; every rung is validated before it is timed (docs/ladder.md). Exit status 6 "
      "when "
      "one failed.\n\n" +
      examples({"autotune ladder --device 0 --size 4096 --svg ladder.svg",
                "autotune ladder --json > ladder.json",
                "autotune ladder --device host --size 128 --budget 5s"}));
}

void check_kind(const LadderCommand& options) {
  if (options.dtype == "f32" && options.math == "strict") return;
  throw Error(ErrorKind::invalid_argument,
              "the ladder's steps are strict f32, not " + options.dtype + " " + options.math +
                  "; tune for other kinds: autotune --sizes ... --dtype ... --math ...");
}

/// One problem, nn and tightly packed: what the teaching texts multiply.
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
  problem.alignment = natural_alignment(problem.layout, problem.m, problem.n, problem.k, problem.a,
                                        problem.b, problem.c);
  return problem;
}

Gpu gpu_for(const std::string& device, const Output& output) {
  if (device == "all")
    throw Error(ErrorKind::invalid_argument,
                "--device: the ladder takes one GPU (auto, an index, a UUID or host), not all");
  return gpus_to_measure_on(device, output).front();
}

/// What a run works with.
struct Run {
  const LadderCommand& options;
  const Output& output;
  Gpu gpu;
  Problem problem;
  double budget_seconds;
  Database database;
  std::unique_ptr<ImageCache> cache;
  std::unique_ptr<Compiler> compiler;
  Progress progress;
};

std::optional<Candidate> stored_winner(const Run& run, const Problem& problem) {
  const auto winner = run.database.winner(problem, gpu_key(run.gpu.info));
  if (!winner || !winner->quarantined.empty()) return std::nullopt;
  return winner->record.candidate;
}

/// The rung of a problem's winner; tunes for it first where none is stored.
Rung tuned_rung(Run& run, const Problem& problem, const std::string& name, const std::string& how,
                double budget_seconds) {
  Rung rung;
  rung.name = name;
  if (problem.math != MathMode::strict) rung.arithmetic = to_string(problem.math);
  rung.what = "the stored winner, " + how;
  rung.candidate = stored_winner(run, problem);
  if (rung.candidate) return rung;
  rung.what = "the winner, tuned just now, " + how;
  Bench bench(run.gpu, run.options.bench);
  TuneOptions options;
  options.budget_seconds = budget_seconds;
  if (run.gpu.info.target.host)
    options.compile_threads = std::max(1, run.gpu.info.multiprocessors / 2);
  const auto show = [&](const TuneProgress& now) { run.progress.show(progress_line(now)); };
  TuneContext context{run.database, run.cache.get(), run.compiler.get(), bench.evaluator(),
                      show,         &interrupted()};
  const TuneResult result = tune(problem, options, context);
  if (!result.stored) throw Error(*result.failure);
  if (result.winner) {
    rung.candidate = result.winner->record.candidate;
  } else {
    rung.outcome = Outcome::timeout;
    rung.detail = result.failure ? result.failure->what()
                                 : "no valid candidate was found within the budget (--budget)";
  }
  return rung;
}

/// A rung that is tuned for, and the problem it is of.
struct Tuned {
  Problem problem;
  Rung rung;
};

/// Strict f32's winner, then those of the modes that multiply f32 on this device's tensor cores.
std::vector<Tuned> tuned_rungs(Run& run) {
  std::vector<Tuned> all;
  all.push_back(
      {run.problem, tuned_rung(run, run.problem, "tuned", "strict fp32", run.budget_seconds)});
  for (const auto& [math, how] : {std::pair{MathMode::tf32, "operands rounded to 11 bits"},
                                  std::pair{MathMode::f32x3, "operands in two parts of 11 bits"}}) {
    Problem problem = run.problem;
    problem.math = math;
    const bool there = std::any_of(
        catalog().begin(), catalog().end(),
        [&](const KernelTemplate& kernel) { return kernel.supports(problem, run.gpu.info); });
    if (!there || interrupted()) continue;
    all.push_back({problem, tuned_rung(run, problem, "tuned, " + std::string(to_string(math)),
                                       std::string("tensor cores, ") + how,
                                       std::max(run.budget_seconds / 4,
                                                std::min(run.budget_seconds, kLeastModeSeconds)))});
  }
  return all;
}

/// Every rung in order, as long as nobody interrupts.
void climb(Run& run, const std::vector<Tuned>& tuned, Ladder& ladder) {
  const Problem& problem = run.problem;
  run.progress.show("reference");
  const auto reference = std::make_shared<const Reference>(Reference::compute(problem));
  const auto add = [&](const std::string& name, const std::function<Rung()>& measure) {
    if (interrupted()) return;
    run.progress.show("rung " + std::to_string(ladder.rungs.size() + 1) + ", " + name);
    ladder.rungs.push_back(measure());
  };
  add("cpu", [&] { return measure_cpu(problem, *reference); });

  const std::unique_ptr<Device> device = open_device(run.gpu.which);
  const std::unique_ptr<BaselineLibrary> library = load_baseline(*device);
  LocalEvaluator evaluator(*device, {}, timing_on(run.gpu.info, run.options.bench.warm));
  const DeviceInfo info = evaluator.device_info();
  const ImageStore images(&run.database, run.cache.get(), run.compiler.get());
  evaluator.begin(problem, reference);
  const auto measured = [&](const Problem& of, const Rung& rung) {
    return rung.candidate ? measure_candidate(rung, of, info, images, evaluator) : rung;
  };
  for (const KernelRung& kernel : kernel_rungs()) {
    Rung rung;
    rung.name = kernel.name;
    rung.what = kernel.what;
    rung.candidate = candidate_of(kernel, problem, info);
    add(rung.name, [&] { return measured(problem, rung); });
  }
  for (const Tuned& each : tuned)
    add(each.rung.name, [&] {
      if (each.problem != problem)
        evaluator.begin(each.problem,
                        std::make_shared<const Reference>(Reference::compute(each.problem)));
      return measured(each.problem, each.rung);
    });
  if (!library || !library->supports(problem)) return;
  add(library->name(), [&] {
    evaluator.begin(problem, reference);
    return measure_library(problem, *library, evaluator);
  });
}

int report(const Run& run, const Ladder& ladder, const std::string& gnuplot) {
  if (run.output.json)
    print_document(ladder_json(ladder));
  else
    print_ladder(ladder, run.output);
  if (!gnuplot.empty()) draw_figure(ladder, run.options.svg, gnuplot);
  if (ladder.interrupted) return kInterrupted;
  const bool all_ok = std::all_of(ladder.rungs.begin(), ladder.rungs.end(),
                                  [](const Rung& rung) { return rung.outcome == Outcome::ok; });
  return all_ok ? kOk : kNoWinner;
}

int run_ladder(const LadderCommand& options, const Output& output) {
  const auto begin = Clock::now();
  check_kind(options);
  const std::string gnuplot = options.svg.empty() ? "" : find_gnuplot();
  if (!options.svg.empty()) check_writable("--svg", options.svg);
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
  Run run{options,
          output,
          gpu,
          problem,
          budget,
          open_to_write(path),
          nullptr,
          compiler_if_any(gpu.info.target, options.bench.nvrtc),
          Progress(output)};
  run.cache = open_image_cache(path, run.database);
  catch_interrupts();

  const std::vector<Tuned> tuned = tuned_rungs(run);
  Ladder ladder;
  ladder.device = gpu.info;
  ladder.problem = problem;
  ladder.cold = timing_on(gpu.info, options.bench.warm).cold;
  climb(run, tuned, ladder);
  run.progress.clear();
  ladder.interrupted = interrupted();
  ladder.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report(run, ladder, gnuplot);
}

}  // namespace

void add_ladder(CLI::App& app, Selection& selection) {
  add_command<LadderCommand>(app, selection, "ladder",
                             "Measure the teaching steps, the tuned winner and cuBLAS side by side",
                             setup, run_ladder);
}

}  // namespace tilewise::cli
