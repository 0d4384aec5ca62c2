#include <algorithm>

#include "templates/space/candidate_text.hpp"
#include "tuner/cli/bench.hpp"
#include "tuner/cli/command.hpp"
#include "tuner/cli/inputs.hpp"
#include "tuner/cli/problem_list.hpp"
#include "tuner/cli/progress.hpp"
#include "tuner/cli/signals.hpp"
#include "tuner/cli/stored.hpp"
#include "tuner/cli/trial_report.hpp"
#include "tuner/cli/tune_report.hpp"
#include "tuner/reproduce.hpp"
#include "tuner/search/strategy.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

constexpr double kCpuTuneSeconds = 20;

struct TuneCommand {
  ProblemOptions problems;
  CandidateOptions candidates;
  BenchOptions bench;
  TuneOptions tune;
  std::string budget;
  std::string only;
  std::string database;
  bool no_cache = false;
};

std::string strategy_names() {
  std::string names = "{";
  for (const StrategyInfo& strategy : strategies())
    names += (names.size() > 1 ? "," : "") + strategy.name;
  return names + "}";
}

void setup(CLI::App& app, TuneCommand& options) {
  add_problem_options(app, options.problems, "");
  add_bench_options(app, options.bench);
  app.add_option("--budget", options.budget,
                 "Time per problem, compiling counted: 60, 90s, 2m (else 60s; on the CPU 20s). The "
                 "weights of --problems share out this time times their number")
      ->type_name("TIME")
      ->check(time_span());
  app.add_option("--max-evaluations", options.tune.max_evaluations,
                 "Candidates per problem; 0: no limit")
      ->type_name("N")
      ->transform(whole_number(0));
  app.add_option("--strategy", options.tune.strategy, "How candidates are chosen")
      ->type_name(strategy_names())
      ->capture_default_str();
  app.add_option("--seed", options.tune.seed, "Of the strategy's random numbers")
      ->type_name("N")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str();
  app.add_option("--finalists", options.tune.finalists,
                 "How many race, interleaved, for the first place")
      ->type_name("N")
      ->transform(whole_number(1, 64))
      ->capture_default_str();
  app.add_option("--jobs", options.tune.compile_threads, "Compiler threads; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  app.add_flag("--force", options.tune.force, "Measure again what is stored");
  add_candidate_options(app, options.candidates);
  app.add_option(
         "--only", options.only,
         "Validate and time just this candidate, as 'simt 128x128x8 thread=8x8 warp_m=4', or simt "
         "for its default; stores nothing")
      ->type_name("CANDIDATE");
  for (const char* name : {"--templates", "--subspace"}) app.get_option(name)->excludes("--only");
  add_database_option(app, options.database);
  app.add_flag("--no-cache", options.no_cache, "Keep no images but those of winners and finalists");
  app.footer(
      kCandidateLegend + std::string("\n\n") +
      examples({"autotune --device 0 --sizes 1024,4096",
                "autotune tune --sizes 1024x512x2048 --dtype bf16 --layout nn,nt --budget 2m",
                "autotune tune --sizes 4096 --templates simt --subspace 'TILE_M=64,128' "
                "--strategy exhaustive",
                "autotune tune --device host --sizes 512 --only tiled --in-process"}));
}

/// On the CPU a product takes milliseconds, and compilers would disturb the timing: a shorter
/// budget and half of the cores for compiling.
void apply_cpu_defaults(TuneOptions& tune, const Gpu& host, const TuneCommand& options) {
  if (options.budget.empty()) tune.budget_seconds = kCpuTuneSeconds;
  if (tune.compile_threads == 0) tune.compile_threads = std::max(1, host.info.multiprocessors / 2);
}

/// Checks the whole command line before anything is opened.
TuneOptions checked(const TuneCommand& options) {
  TuneOptions tune_options = options.tune;
  if (!options.budget.empty())
    tune_options.budget_seconds = parse_seconds("--budget", options.budget);
  const auto all = strategies();
  const bool known = std::any_of(all.begin(), all.end(), [&](const StrategyInfo& strategy) {
    return strategy.name == tune_options.strategy;
  });
  if (!known)
    throw Error(ErrorKind::invalid_argument, "--strategy: unknown strategy '" +
                                                 tune_options.strategy + "'; there are " +
                                                 strategy_names());
  if (!options.candidates.templates.empty())
    tune_options.templates = templates_of(options.candidates);
  tune_options.subspace = subspace_of(options.candidates);
  return tune_options;
}

/// A GPU and its problems: --accuracy may choose another mode on another GPU.
struct Task {
  Gpu gpu;
  std::vector<Problem> problems;
  std::vector<double> budgets;  ///< seconds of each problem's search
};

struct Run {
  const TuneCommand& options;
  const Output& output;
  TuneOptions tune;
  Database database;
  std::unique_ptr<ImageCache> cache;
  std::unique_ptr<Compiler> compiler;
  std::vector<Gpu> gpus;
  std::size_t warned = 0;  ///< index into the database's warnings
};

std::string reproduce_prefix(const Run& run, const Gpu& gpu, const Problem& problem) {
  return "autotune tune --device " + device_name(gpu) + " " + problem_options(problem) +
         (run.options.bench.warm ? " --warm" : "");
}

Tuned tune_problem(Run& run, const Gpu& gpu, Bench& bench, const Problem& problem,
                   double budget_seconds, Progress& progress) {
  const auto before = run.database.winner(problem, gpu_key(gpu.info));
  TuneOptions tune_options = run.tune;
  tune_options.budget_seconds = budget_seconds;
  tune_options.reproduce = reproduce_prefix(run, gpu, problem);
  const auto show = [&](const TuneProgress& now) {
    if (now.last && run.output.verbose)
      progress.say(record_line(*now.last, tune_options.reproduce));
    progress.show(progress_line(now));
  };
  TuneContext context{run.database, run.cache.get(), run.compiler.get(), bench.evaluator(),
                      show,         &interrupted()};
  return summarize(gpu, problem, tune(problem, tune_options, context), before, run.database);
}

/// Checks memory before anything is tuned, so that a long run cannot fail for its last problem's
/// size.
Task task_for(const Gpu& gpu, const Run& run) {
  const std::vector<Winner> winners = run.database.winners(gpu_key(gpu.info));
  const auto weighted = weighted_problems_of(run.options.problems, gpu.info, winners);
  Task task{gpu, {}, shares_of(run.tune.budget_seconds, weighted)};
  for (const WeightedProblem& one : weighted) task.problems.push_back(one.problem);
  const DeviceStatus status = status_of(gpu);
  for (const Problem& problem : task.problems) check_device_memory(problem, gpu.info, status);
  for (const std::string& doubt : doubts(status)) warn(gpu.info.name + ": " + doubt);
  return task;
}

/// Warns of what the result table omits: faults, and kernels of other processes.
void warn_about(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  const auto candidates = [](std::int64_t count) {
    return std::to_string(count) + (count == 1 ? " candidate" : " candidates");
  };
  std::string text;
  if (result.faults > 0) {
    text = "faults of the system: " + std::to_string(result.faults) +
           "; the candidates were tried again";
    if (result.given_up > 0)
      text += "; without an outcome and a record: " + candidates(result.given_up) +
              ", for the next run to try";
    text += "; the last fault: " + result.last_fault;
  }
  if (result.waited > 0 && result.evaluated == 0)
    text += (text.empty() ? "" : "; ") +
            ("waited until the end for the kernels of " + candidates(result.waited)) +
            ", which another process compiles: a later run finds them compiled";
  if (!text.empty()) warn(to_string(tuned.problem) + ": " + text);
}

/// The error to report: of a database that failed, else the first.
std::optional<Error> failure_of(const std::vector<Tuned>& results) {
  std::optional<Error> failure;
  for (const Tuned& tuned : results)
    if (tuned.result.failure && (!failure || database_failed(tuned.result)))
      failure = tuned.result.failure;
  return failure;
}

int tune_all(Run& run, const std::vector<Task>& tasks) {
  std::vector<Tuned> results;
  std::optional<Error> failure;
  const auto goes_on = [&results] {
    return !interrupted() && (results.empty() || !database_failed(results.back().result));
  };
  try {
    Progress progress(run.output);
    for (const auto& [gpu, problems, budgets] : tasks) {
      if (!goes_on()) break;
      Bench bench(gpu, run.options.bench);
      for (std::size_t i = 0; i < problems.size(); ++i)
        if (goes_on())
          results.push_back(tune_problem(run, gpu, bench, problems[i], budgets[i], progress));
    }
  } catch (const Error& error) {
    if (results.empty()) throw;
    failure = error;  // earlier results are printed first
  }
  std::vector<std::string> warnings = run.database.warnings();
  warnings.erase(warnings.begin(), warnings.begin() + static_cast<std::ptrdiff_t>(run.warned));
  warn_of(warnings);
  if (run.cache) warn_of(run.cache->warnings());
  for (const Tuned& tuned : results) warn_about(tuned);
  if (!failure) failure = failure_of(results);
  if (run.output.json)
    print_document(tuned_json(results, run.gpus, interrupted(), failure));
  else
    print_tuned(results, run.output);
  if (failure) {
    note(Output{}, std::string("autotune: error: ") + failure->what());
    return exit_code(failure->kind());
  }
  if (interrupted()) return kInterrupted;
  const bool all_won = std::all_of(results.begin(), results.end(), [](const Tuned& tuned) {
    return tuned.result.winner.has_value();
  });
  return all_won ? kOk : kNoWinner;
}

/// --only: reports one candidate on every problem and GPU in full, with a command that reproduces a
/// rejection.
int try_only(Run& run, const std::vector<Task>& tasks) {
  const ImageStore images(&run.database, run.cache.get(), run.compiler.get());
  std::vector<TrialReport> reports;
  for (const auto& [gpu, problems, budgets] : tasks) {
    Bench bench(gpu, run.options.bench);
    const DeviceInfo info = bench.evaluator().device_info();
    for (const Problem& problem : problems) {
      if (interrupted()) break;
      const Candidate candidate = parse_candidate(run.options.only, problem, info);
      bench.evaluator().begin(problem,
                              std::make_shared<const Reference>(Reference::compute(problem)));
      reports.push_back({problem, candidate, info,
                         try_candidate(problem, candidate, info, images, bench.evaluator(), true)});
    }
  }
  if (run.output.json)
    print_document(trials_json(reports, run.gpus));
  else
    print_trials(reports);
  if (interrupted()) return kInterrupted;
  const bool all_ok = std::all_of(reports.begin(), reports.end(), [](const TrialReport& report) {
    return report.trial.evaluation.outcome == Outcome::ok;
  });
  return all_ok ? kOk : kNoWinner;
}

int run_tune(const TuneCommand& options, const Output& output) {
  const TuneOptions tune_options = checked(options);
  for (const Problem& problem : problems_of(options.problems)) check_host_memory(problem);
  const auto path = default_database_path(options.database);
  Run run{options, output, tune_options, Database::open(path), nullptr, nullptr, {}};
  const std::vector<std::string> warned = run.database.warnings();
  warn_of(warned);
  run.warned = warned.size();
  const std::vector<Gpu> gpus = run.gpus = gpus_to_measure_on(options.bench.device, output);
  if (gpus.front().info.target.host) apply_cpu_defaults(run.tune, gpus.front(), options);
  std::vector<Task> tasks;
  for (const Gpu& gpu : gpus) tasks.push_back(task_for(gpu, run));
  if (!options.no_cache) run.cache = open_image_cache(path, run.database);
  run.compiler = compiler_if_any(gpus.front().info.target, options.bench.nvrtc);
  catch_interrupts();
  return options.only.empty() ? tune_all(run, tasks) : try_only(run, tasks);
}

}  // namespace

void add_tune(CLI::App& app, Selection& selection) {
  add_command<TuneCommand>(app, selection, "tune",
                           "Find the fastest kernel for each problem and remember it (the default)",
                           setup, run_tune);
}

}  // namespace tilewise::cli
