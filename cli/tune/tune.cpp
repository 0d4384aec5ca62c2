#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <set>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/problem_list.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "cli/common/tune_report.hpp"
#include "cli/tune/choose_orders.hpp"
#include "cli/tune/dry_run.hpp"
#include "cli/tune/trial_report.hpp"
#include "cli/tune/tune_tasks.hpp"
#include "db/lock_waits.hpp"
#include "matmul/kept_orders.hpp"
#include "matmul/stored_corrections.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/search/strategy.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/objective.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

/// "time, or energy per product among the fastest (NVML)"
std::string objectives_help() {
  std::string help;
  for (const ObjectiveInfo& info : objectives())
    help += (help.empty() ? "" : ", or ") + std::string(info.help);
  return help;
}

constexpr double kCpuTuneSeconds = 20;

struct TuneCommand {
  ProblemOptions problems;
  CandidateOptions candidates;
  BenchOptions bench;
  TuneOptions tune;
  std::string budget;
  std::string objective = "time";
  std::string only;
  std::string database;
  bool no_cache = false;
  bool dry_run = false;
  double stop_below = 0;
};

std::string strategy_names() { return "{" + join(strategies(), ",", &StrategyInfo::name) + "}"; }

void setup(CLI::App& app, TuneCommand& options) {
  add_problem_options(app, options.problems, "");
  add_bench_options(app, options.bench);
  app.add_option("--budget", options.budget,
                 "Time per problem, compiling counted: 60, 90s, 2m (else 60s; on the CPU 20s); the "
                 "weights of --problems share out half of it")
      ->type_name("TIME")
      ->check(time_span());
  app.add_option("--max-evaluations", options.tune.max_evaluations,
                 "Candidates per problem; 0: no limit")
      ->type_name("N")
      ->transform(whole_number(0));
  app.add_option("--stop-below", options.stop_below,
                 "End where one more candidate is expected to gain less than so many percent (only "
                 "the strategy model can tell); the search is not stored as finished")
      ->type_name("PERCENT")
      ->check(number_above_zero());
  app.add_option("--objective", options.objective, "What is minimised: " + objectives_help())
      ->type_name("{" + tilewise::names_of<Objective>(",") + "}")
      ->capture_default_str();
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
  app.add_option("--jobs", options.tune.compile_threads,
                 "Compiler threads, of all searches together; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  app.add_flag("--force", options.tune.force, "Measure again what is stored");
  add_candidate_options(app, options.candidates);
  app.add_option(
         "--only", options.only,
         "Validate and time just this candidate, as 'simt 128x128x8 thread=8x8 warp_m=4', or simt "
         "for its default; stores nothing")
      ->type_name("CANDIDATE");
  for (const char* name : {"--templates", "--subspace", "--objective"})
    app.get_option(name)->excludes("--only");
  app.add_flag("--dry-run", options.dry_run,
               "Print the spaces, what refuses configurations, and the expected time; measure "
               "nothing, change nothing")
      ->excludes("--only");
  add_database_option(app, options.database);
  app.add_flag("--no-cache", options.no_cache, "Keep no images but those of winners and finalists");
  app.footer(
      kCandidateLegend + std::string("\n\n") +
      examples({"autotune --device 0 --sizes 1024,4096",
                "autotune tune --device all --sizes 4096x512x2048 --dtype bf16 --layout nn,nt "
                "--budget 2m",
                "autotune tune --sizes 4096 --templates simt --subspace 'TILE_M=64,128' "
                "--strategy exhaustive",
                "autotune tune --device host --sizes 512 --only tiled --in-process"}));
}

/// Sets a shorter budget and half of the cores for compiling: on the CPU a product takes
/// milliseconds, and compilers would disturb the timing.
void apply_cpu_defaults(TuneOptions& tune, const TuneCommand& options) {
  if (options.budget.empty()) tune.budget_seconds = kCpuTuneSeconds;
  if (tune.compile_threads == 0)
    tune.compile_threads = cpu_compile_threads(problems_of(options.problems));
}

/// Checks the whole command line before opening anything.
TuneOptions checked(const TuneCommand& options) {
  TuneOptions tune_options = options.tune;
  if (!options.budget.empty())
    tune_options.budget_seconds = parse_seconds("--budget", options.budget);
  tune_options.least_gain = options.stop_below / 100;
  try {
    tune_options.objective = parse_objective(options.objective);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string("--objective: ") + error.what());
  }
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

struct Run {
  const TuneCommand& options;
  const Output& output;
  TuneOptions tune;
  Database database;
  std::unique_ptr<ImageCache> cache;
  std::size_t warned = 0;  ///< number of the database's warnings already printed
};

/// The problems that are tuned for those that are asked for.
std::vector<WeightedProblem> tuned_problems_of(const ProblemOptions& options,
                                               const DeviceInfo& info,
                                               const std::vector<Winner>& winners) {
  std::vector<WeightedProblem> problems = weighted_problems_of(options, info, winners);
  for (WeightedProblem& one : problems) one.problem = tuned_as(one.problem);
  return without_repeats(std::move(problems));
}

/// Checks memory before anything is tuned, so that a long run cannot fail because of its last
/// problem's size.
Task task_for(const std::vector<Gpu>& identical, const Run& run) {
  const DeviceInfo& info = identical.front().info;
  const std::vector<Winner> winners = run.database.winners(gpu_key(info));
  Task task{identical, {}, {}, run.tune, nullptr};
  if (info.target.host) apply_cpu_defaults(task.tune, run.options);
  const auto weighted = tuned_problems_of(run.options.problems, info, winners);
  for (const WeightedProblem& one : weighted) task.problems.push_back(one.problem);
  task.budgets = shares_of(task.tune.budget_seconds, weighted);
  for (const Gpu& gpu : identical) {
    const DeviceStatus status = status_of(gpu);
    for (const Problem& problem : task.problems) check_device_memory(problem, info, status);
    for (const std::string& doubt : doubts(status)) warn(gpu.info.name + ": " + doubt);
  }
  return task;
}

std::vector<Task> tasks_for(const std::vector<Gpu>& gpus, const Run& run) {
  if (gpus.size() > 1 && run.options.bench.in_process)
    throw Error(ErrorKind::invalid_argument, "--in-process measures on one device; --device " +
                                                 run.options.bench.device + " names " +
                                                 std::to_string(gpus.size()));
  std::vector<Task> tasks;
  for (const std::vector<Gpu>& identical : group_identical(gpus))
    tasks.push_back(task_for(identical, run));
  return tasks;
}

/// Throws Error(unsupported) for the first device that cannot measure energy, where the objective
/// needs it.
void require_energy(Objective objective, const std::string& device) {
  if (!objective_info(objective).needs_energy) return;
  for (const Gpu& gpu : choose_gpus(device, true))
    if (!measures_energy(gpu)) throw no_energy("--device " + device_name(gpu), objective);
}

/// Loads the compilers; one serves all GPUs.
void load_compilers(std::vector<Task>& tasks, const std::string& nvrtc) {
  std::shared_ptr<const Compiler> of_gpus;
  bool loaded = false;
  for (Task& task : tasks) {
    const Target& target = task.gpus.front().info.target;
    if (target.host) {
      task.compiler = compiler_if_any(target, nvrtc);
      continue;
    }
    if (!loaded) of_gpus = compiler_if_any(target, nvrtc);
    loaded = true;
    task.compiler = of_gpus;
  }
}

// Warnings of wrong results of one problem.
constexpr std::size_t kMostWrong = 3;

/// Warns about facts that the result table omits: faults, kernels of other processes, wrong
/// results.
void warn_about(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  std::string text;
  if (result.faults > 0) {
    text = "faults of the system: " + std::to_string(result.faults) +
           "; the candidates were tried again";
    if (result.given_up > 0)
      text += "; without an outcome and a record: " + counted(result.given_up, "candidate") +
              ", for the next run to try";
    text += "; the last fault: " + result.last_fault;
  }
  if (result.waited > 0 && result.evaluated == 0)
    append(text,
           "waited until the end for the kernels of " + counted(result.waited, "candidate") +
               ", which another process compiles: a later run finds them compiled",
           "; ");
  if (!text.empty()) warn(to_string(tuned.problem) + ": " + text);
  for (std::size_t i = 0; i < std::min(result.wrong.size(), kMostWrong); ++i)
    warn(to_string(tuned.problem) + ": a kernel gave a wrong result and is not used: " +
         to_string(result.wrong[i].candidate) + ": " + result.wrong[i].detail);
  if (result.wrong.size() > kMostWrong)
    warn(to_string(tuned.problem) + ": so did " + std::to_string(result.wrong.size() - kMostWrong) +
         " others: autotune db list --outcome wrong_result");
}

/// Warns about waits for locks, which no budget counts.
void warn_of_lock_waits() {
  const double seconds = lock_wait_seconds();
  if (seconds < 1) return;
  warn("waited " + format_seconds(seconds) +
       " for locks on the database that another process held; the budgets do not count them");
}

/// The error to report: that of a failed database, otherwise the first.
std::optional<Error> failure_of(const std::vector<Tuned>& results) {
  std::optional<Error> failure;
  for (const Tuned& tuned : results)
    if (tuned.result.failure && (!failure || database_failed(tuned.result)))
      failure = tuned.result.failure;
  return failure;
}

/// Refreshes the corrections of each kind tuned on each GPU model. A failure is only a warning: the
/// measurements are stored.
void refresh_corrections_of(const std::vector<Task>& tasks, Database& database) {
  try {
    for (const Task& task : tasks) {
      std::set<std::string> kinds;
      for (const Problem& problem : task.problems)
        if (kinds.insert(kind_text(problem)).second)
          refresh_corrections(database, problem, task.gpus.front().info);
    }
  } catch (const Error& error) {
    warn(std::string("what the measurements say of other sizes is not stored: ") + error.what());
  }
}

int tune_all(Run& run, std::vector<Task>& tasks) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<ChosenOrder> orders = choose_orders(
      tasks, run.database, run.cache.get(), run.options.bench, run.output, run.tune.force);
  auto [results, failure, lost] =
      tune_tasks(tasks, run.database, run.cache.get(), run.options.bench, run.output);
  if (failure && results.empty()) throw Error(*failure);
  if (!failure && !interrupted()) refresh_corrections_of(tasks, run.database);
  std::vector<std::string> warnings = run.database.warnings();
  warnings.erase(warnings.begin(), warnings.begin() + static_cast<std::ptrdiff_t>(run.warned));
  warn_of(warnings);
  if (run.cache) warn_of(run.cache->warnings());
  warn_of_lock_waits();
  for (const Tuned& tuned : results) warn_about(tuned);
  if (!failure) failure = failure_of(results);
  const DeviceInfo& info = tasks.front().gpus.front().info;
  std::vector<WeightedProblem> weighted =
      tuned_problems_of(run.options.problems, info, run.database.winners(gpu_key(info)));
  for (WeightedProblem& one : weighted)
    one.problem = in_kept_order(one.problem, info, &run.database);
  const std::optional<Gain> gain = gain_of(results, weighted);
  if (run.output.json) {
    Json document = tuned_json(results, lost, interrupted(), failure, gain);
    if (!orders.empty()) document["orders"] = orders_json(orders);
    print_document(document);
  } else {
    note_orders(orders, run.output);
    print_tuned(results, run.output);
    if (gain) print_gain(*gain);
    std::cout.flush();
    note(run.output,
         summary_of(
             results,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  }
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

/// Tries the candidate of --only on one device.
void try_on(Run& run, const Gpu& gpu, const Task& task, std::vector<TrialReport>& reports) {
  const ImageStore images(&run.database, run.cache.get(), task.compiler.get());
  Bench bench(gpu, run.options.bench);
  const DeviceInfo info = bench.evaluator().device_info();
  for (const Problem& problem : task.problems) {
    if (interrupted()) break;
    const Candidate candidate = parse_candidate(run.options.only, problem, info);
    bench.evaluator().begin(problem,
                            std::make_shared<const Reference>(Reference::compute(problem)));
    reports.push_back(
        {problem, candidate, info,
         try_candidate(problem, candidate, info, images, bench.evaluator(), kObserveSeconds),
         device_name(gpu)});
  }
}

/// --only: reports one candidate in full on every problem and device, identical ones included, with
/// a command that reproduces a rejection.
int try_only(Run& run, const std::vector<Task>& tasks) {
  std::vector<TrialReport> reports;
  for (const Task& task : tasks)
    for (const Gpu& gpu : task.gpus) try_on(run, gpu, task, reports);
  if (run.output.json)
    print_document(trials_json(reports));
  else
    print_trials(reports);
  if (interrupted()) return kInterrupted;
  const bool all_ok = std::all_of(reports.begin(), reports.end(), [](const TrialReport& report) {
    return report.trial.evaluation.outcome == Outcome::ok;
  });
  return all_ok ? kOk : kNoWinner;
}

/// Opens the database, if it exists, for reading.
int dry_run(const TuneCommand& options, const TuneOptions& tune_options, const Output& output) {
  std::optional<Database> database;
  if (std::filesystem::exists(default_database_path(options.database)))
    database.emplace(open_to_read(options.database));
  std::vector<PlannedSearch> searches;
  for (const std::vector<Gpu>& identical :
       group_identical(gpus_to_measure_on(options.bench.device, output, false))) {
    const DeviceInfo& info = identical.front().info;
    TuneOptions tune = tune_options;
    if (info.target.host) apply_cpu_defaults(tune, options);
    const auto weighted =
        tuned_problems_of(options.problems, info,
                          database ? database->winners(gpu_key(info)) : std::vector<Winner>{});
    const std::vector<double> budgets = shares_of(tune.budget_seconds, weighted);
    for (std::size_t i = 0; i < weighted.size(); ++i)
      searches.push_back(
          {info, in_kept_order(weighted[i].problem, info, database ? &*database : nullptr),
           budgets[i], tune.max_evaluations,
           tune.templates.empty() ? select_templates() : tune.templates, tune.subspace});
  }
  print_dry_run(searches, database ? &*database : nullptr, tune_options.seed, output);
  return kOk;
}

int run_tune(const TuneCommand& options, const Output& output) {
  const TuneOptions tune_options = checked(options);
  for (const Problem& problem : problems_of(options.problems)) check_host_memory(problem);
  require_energy(tune_options.objective, options.bench.device);
  if (options.dry_run) return dry_run(options, tune_options, output);
  const auto path = default_database_path(options.database);
  Run run{options, output, tune_options, Database::open(path), nullptr};
  const std::vector<std::string> warned = run.database.warnings();
  warn_of(warned);
  run.warned = warned.size();
  std::vector<Task> tasks = tasks_for(gpus_to_measure_on(options.bench.device, output, false), run);
  if (!options.no_cache) run.cache = open_image_cache(path, run.database);
  load_compilers(tasks, options.bench.nvrtc);
  catch_interrupts();
  if (options.only.empty()) return tune_all(run, tasks);
  for (Task& task : tasks) set_kept_orders(task, run.database);
  return try_only(run, tasks);
}

}  // namespace

void add_tune(CLI::App& app, Selection& selection) {
  add_command<TuneCommand>(app, selection, "tune",
                           "Find the fastest kernel for each problem and remember it (the default)",
                           setup, run_tune);
}

}  // namespace tilewise::cli
