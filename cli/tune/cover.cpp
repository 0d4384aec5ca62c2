#include "tuner/cover.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/kinds.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "cli/common/tune_report.hpp"
#include "cli/tune/choose_orders.hpp"
#include "cli/tune/cover_report.hpp"
#include "cli/tune/range_list.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

/// With more pairs of n and k, the invariant products of each have the default order.
constexpr std::size_t kMostPairs = 32;

struct CoverCommand {
  ProblemOptions problems;  ///< without sizes
  std::string m = "1..8192", n = "1..8192", k = "1..65536";
  BenchOptions bench;
  std::string budget = "10m";
  CoverOptions cover;
  std::string templates;
  std::string database;
  bool invariant = false;
};

void setup(CLI::App& app, CoverCommand& options) {
  options.problems.layout = "all";
  add_kind_options(app, options.problems);
  const auto extent = [&app](const char* name, std::string& value, const char* what) {
    add_list_option(app, name, value, what)->type_name("SIZES");
  };
  extent("--m,--rows", options.m,
         "Rows of C, with --groups those of all groups: numbers and intervals, as in 1..4096 or "
         "64,4096");
  extent("--n", options.n, "Columns of C");
  extent("--k", options.k, "Columns of A, rows of B");
  CLI::Option* list = app.add_option(
      "--problems", options.problems.list,
      "Instead of these: a list of ranges, CSV with a heading, with m, n, k and where they differ "
      "from these options layout, dtype, out, math, and a weight; - is standard input");
  list->type_name("FILE");
  for (const char* other : {"--m", "--n", "--k"}) list->excludes(app.get_option(other));
  app.add_option("--budget", options.budget, "Time for the whole range: 90s, 10m, 1h")
      ->type_name("TIME")
      ->check(time_span())
      ->capture_default_str();
  app.add_option("--configurations", options.cover.most_configurations,
                 "The most configurations that serve the range in one layout, where each size that "
                 "was measured has another")
      ->type_name("N")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  app.add_option("--seed", options.cover.seed, "Of the sizes that are measured, and the searches")
      ->type_name("N")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str();
  app.add_option("--jobs", options.cover.compile_threads, "Compiler threads; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  add_list_option(app, "--templates,--template", options.templates,
                  "Only these kernel templates, with commas (see: autotune templates)")
      ->type_name("NAMES");
  app.add_flag("--invariant", options.invariant,
               "Batch-invariant products: first chooses the order of sums of each n and k, where "
               "these are at most " +
                   std::to_string(kMostPairs) + " pairs of numbers (docs/invariance.md)");
  add_bench_options(app, options.bench);
  add_database_option(app, options.database);
  app.footer(
      "Measures sizes spread over a range, so that every size in it is served near its best "
      "without tuning. At each, what is stored and expected to be the fastest is measured. At one "
      "of five a short search goes on from the best. The last fifth of the time tells how far what "
      "would "
      "have been served is from what the search finds.\n\n" +
      examples({"autotune cover --dtype bf16",
                "autotune cover --dtype bf16 --layout nt --m 1..4096 --n 4096,14336 --k 4096",
                "autotune cover --budget 30m --json",
                "autotune cover --problems portfolios/products.csv --budget 8h"}));
}

Extents extents_of(const char* option, const std::string& text) {
  try {
    return Extents::parse(text);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(option) + ": " + error.what());
  }
}

/// The ranges, one of each kind of products.
std::vector<WeightedRange> ranges_of(const CoverCommand& options) {
  std::vector<WeightedRange> ranges;
  if (!options.problems.list.empty())
    ranges = read_range_list(options.problems.list, options.problems);
  else
    ranges.push_back({{kind_of(options.problems),
                       {{parse_layouts(options.problems.layout), extents_of("--m", options.m),
                         extents_of("--n", options.n), extents_of("--k", options.k)}}},
                      1});
  for (WeightedRange& one : ranges) set_invariant(one.range.kind, options.invariant);
  return ranges;
}

/// Lower limits for the CPU, which takes seconds where a GPU takes microseconds.
void apply_cpu_limits(CoverOptions& cover) {
  // Memory: the operands, and five times their bytes for test data and reference where k is small.
  constexpr double kTimesOperands = 6, kLeastOperands = 1 << 20;
  const double available = host_bytes_available();
  const double beside = static_cast<double>(kBesideCandidatesBytes);
  if (available < beside + kTimesOperands * kLeastOperands)
    throw Error(ErrorKind::out_of_memory,
                "cover on the CPU needs " + format_bytes(beside + kTimesOperands * kLeastOperands) +
                    " of memory; " + format_bytes(available) + " are available");
  cover.most_flops = 2e9;
  cover.most_bytes = std::min<double>(1 << 26, (available - beside) / kTimesOperands);
  if (cover.compile_threads == 0) cover.compile_threads = cpu_compile_threads({});
}

/// Chooses the orders of sums of the range's pairs of n and k, where these are few.
std::vector<ChosenOrder> choose_orders_of(const SizeRange& range, const CoverCommand& options,
                                          double seconds, const std::vector<Gpu>& gpus,
                                          const std::shared_ptr<const Compiler>& compiler,
                                          Database& database, ImageCache* cache,
                                          const Output& output) {
  if (!options.invariant) return {};
  Task task{gpus, {}, {}, {}, compiler};
  std::size_t pairs = 0;
  for (const SizeBlock& block : range.blocks) {
    if (!block.n.fixed() || !block.k.fixed()) return {};
    const std::vector<std::int64_t> all_n = block.n.numbers(), all_k = block.k.numbers(),
                                    all_m = block.m.typical();
    pairs += all_n.size() * all_k.size();
    if (pairs > kMostPairs) return {};
    for (const Layout layout : block.layouts)
      for (const std::int64_t n : all_n)
        for (const std::int64_t k : all_k)
          for (const std::int64_t m : all_m) {
            Problem problem = range.kind;
            set_layout(problem, layout);
            problem.m = m, problem.n = n, problem.k = k;
            set_alignment(problem, natural_alignment(problem));
            task.problems.push_back(problem);
            // An order is chosen by the problems' shares of the time.
            task.budgets.push_back(block.weight / double(all_m.size()));
          }
  }
  const double all = std::accumulate(task.budgets.begin(), task.budgets.end(), 0.0);
  for (double& budget : task.budgets) budget *= seconds / all;
  task.tune.compile_threads = options.cover.compile_threads;
  std::vector<Task> tasks{std::move(task)};
  return choose_orders(tasks, database, cache, options.bench, output, false);
}

/// What the ranges of one run have in common.
struct CoverRun {
  const CoverCommand& options;
  const Output& output;
  const std::vector<Gpu>& gpus;
  Database& database;
  ImageCache* cache;
  std::shared_ptr<const Compiler> compiler;
};

/// Covers one range; prints it, or adds it to `documents`.
int cover_range(const CoverRun& run, const SizeRange& range, const CoverOptions& cover_options,
                Bench& bench, Json& documents) {
  const std::vector<ChosenOrder> orders =
      choose_orders_of(range, run.options, cover_options.budget_seconds, run.gpus, run.compiler,
                       run.database, run.cache, run.output);
  std::vector<OpenEvaluator> further;
  for (std::size_t i = 1; i < run.gpus.size(); ++i)
    further.push_back([&run, i] { return open_evaluator(run.gpus[i], run.options.bench); });
  TuneContext context{run.database,      run.cache, run.compiler.get(),
                      bench.evaluator(), {},        &interrupted()};
  Covered covered{run.gpus.front(), run.gpus.size(), range, {}};
  {
    Progress progress(run.output);
    covered.result = cover(
        range, cover_options, context,
        [&](const CoverProgress& now) {
          if (now.point && now.point->last && run.output.verbose)
            progress.say(record_line(*now.point->last, cover_options.reproduce + " " +
                                                           problem_options(*now.point->problem)));
          progress.show(cover_line(now));
        },
        further);
  }
  if (run.output.json) {
    Json document = covered_json(covered);
    if (run.options.invariant) document["orders"] = orders_json(orders);
    documents.push_back(std::move(document));
  } else {
    note_orders(orders, run.output);
    print_covered(covered, run.output);
  }
  if (const auto& failure = covered.result.failure) {
    note(Output{}, std::string("autotune: error: ") + failure->what());
    return exit_code(failure->kind());
  }
  if (covered.result.interrupted) return kInterrupted;
  const auto& points = covered.result.points;
  const bool any = std::any_of(points.begin(), points.end(),
                               [](const CoverPoint& point) { return point.best_us > 0; });
  return any || points.empty() ? kOk : kNoWinner;
}

/// Leaves out kinds of a list that the device lacks, with a warning. Throws where none is left.
void check_kinds(std::vector<WeightedRange>& ranges, const CoverCommand& options,
                 const DeviceInfo& device) {
  std::optional<Error> lacking;
  std::erase_if(ranges, [&](const WeightedRange& one) {
    try {
      Problem problem = one.range.kind;
      for (const Layout layout : one.range.layouts()) {
        set_layout(problem, layout);
        check_kind(problem, device);
      }
      return false;
    } catch (const Error& error) {
      lacking = error;
      if (!options.problems.list.empty()) warn(std::string("left out: ") + error.what());
      return true;
    }
  });
  if (ranges.empty()) throw Error(*lacking);
}

int run_cover(const CoverCommand& options, const Output& output) {
  std::vector<WeightedRange> ranges = ranges_of(options);
  if (ranges.front().range.kind.grouping == Grouping::counts)
    throw Error(ErrorKind::invalid_argument,
                "--grouped counts: cover takes rows and depth; products grouped by counts are "
                "served by what was measured with --grouped rows");
  CoverOptions cover_options = options.cover;
  const double budget = parse_seconds("--budget", options.budget);
  if (!options.templates.empty())
    cover_options.templates = select_templates(split_list(options.templates));
  const std::vector<Gpu> gpus = gpus_to_measure_on(options.bench.device, output, false);
  if (group_identical(gpus).size() > 1)
    throw Error(ErrorKind::invalid_argument,
                "--device: cover takes one GPU or several identical ones, and these are of " +
                    std::to_string(group_identical(gpus).size()) +
                    " kinds: a range is covered for each kind by itself");
  if (options.bench.in_process && gpus.size() > 1)
    throw Error(ErrorKind::invalid_argument,
                "--in-process takes one device, and these are " + std::to_string(gpus.size()));
  const Gpu& gpu = gpus.front();
  check_kinds(ranges, options, gpu.info);
  if (gpu.info.target.host) apply_cpu_limits(cover_options);
  cover_options.reproduce = "autotune tune --device " + device_name(gpu);
  for (const Gpu& one : gpus) {
    const DeviceStatus status = status_of(one);
    for (const std::string& doubt : doubts(status)) warn(one.info.name + ": " + doubt);
    cover_options.most_bytes =
        std::min(cover_options.most_bytes, static_cast<double>(status.free_bytes) / 4);
  }
  const auto path = default_database_path(options.database);
  Database database = open_to_write(path);
  const std::unique_ptr<ImageCache> cache = open_image_cache(path, database);
  const CoverRun run{options,  output,      gpus,
                     database, cache.get(), compiler_if_any(gpu.info.target, options.bench.nvrtc)};
  catch_interrupts();
  Bench bench(gpu, options.bench);
  double weights = 0;
  for (const WeightedRange& one : ranges) weights += one.weight;
  Json documents = Json::array();
  int status = kOk;
  std::size_t left_out = 0;
  for (const WeightedRange& one : ranges) {
    cover_options.budget_seconds = budget * one.weight / weights;
    try {
      const int of_range = cover_range(run, one.range, cover_options, bench, documents);
      if (of_range != kOk) status = of_range;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument || ++left_out == ranges.size()) throw;
      warn("left out: " + kind_text(one.range.kind) + ": " + error.what());
    }
    if (status != kOk && status != kNoWinner) break;
  }
  if (output.json)
    print_document(options.problems.list.empty() ? documents.front()
                                                 : Json{{"covered", std::move(documents)}});
  return status;
}

}  // namespace

void add_cover(CLI::App& app, Selection& selection) {
  add_command<CoverCommand>(app, selection, "cover",
                            "Measure a range of sizes, so that each is served near its best", setup,
                            run_cover);
}

}  // namespace tilewise::cli
