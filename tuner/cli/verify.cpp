#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tuner/cli/bench.hpp"
#include "tuner/cli/command.hpp"
#include "tuner/cli/inputs.hpp"
#include "tuner/cli/kinds.hpp"
#include "tuner/cli/progress.hpp"
#include "tuner/cli/signals.hpp"
#include "tuner/cli/stored.hpp"
#include "tuner/cli/tune_report.hpp"

namespace tilewise::cli {
namespace {

using Json = nlohmann::ordered_json;

// Two runs of one kernel differ by more than the spread within one: clocks and temperature drift.
constexpr double kLeastTolerance = 0.02;

struct VerifyCommand {
  BenchOptions bench;
  ProblemOptions problems;
  std::string database;
  bool keep = false;
};

void setup(CLI::App& app, VerifyCommand& options) {
  add_problem_options(app, options.problems, "");
  need_sizes(app);
  add_bench_options(app, options.bench);
  app.add_flag("--keep", options.keep,
               "Go on serving winners that are wrong now (else quarantined)");
  add_database_option(app, options.database);
  app.footer(
      "Validates and times stored winners again. Moved: the time differs by more than twice both\n"
      "spreads (2% at least). A wrong winner is quarantined: it is not served any more. Exit "
      "status 6\n"
      "when any moved or failed.\n\n" +
      examples({"autotune verify", "autotune verify --device 0 --sizes 1024,4096 --json"}));
}

/// What became of a stored winner.
struct Verdict {
  std::string gpu;
  Record stored;
  std::string
      state;  ///< "same", "faster", "slower", "wrong_result" and other outcomes, "not checked"
  std::string detail;
  std::optional<Measurement> now;
};

std::string compare(const Measurement& stored, const Measurement& now) {
  const double tolerance = std::max(kLeastTolerance, 2 * (stored.spread + now.spread));
  const double change = now.median_us / stored.median_us - 1;
  if (change > tolerance) return "slower";
  if (change < -tolerance) return "faster";
  return std::abs(change) <= tolerance ? "same" : "not comparable";
}

Verdict verify_one(const std::string& gpu, const Winner& winner, const ImageStore& images,
                   Evaluator& evaluator) {
  Verdict verdict{gpu, winner.record, "not checked", "", {}};
  const Problem& problem = winner.record.problem;
  const DeviceInfo info = evaluator.device_info();
  try {
    evaluator.begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
    const Trial trial =
        try_candidate(problem, winner.record.candidate, info, images, evaluator, true);
    verdict.now = trial.evaluation.measurement;
    verdict.detail = trial.evaluation.detail;
    if (trial.evaluation.outcome != Outcome::ok || !verdict.now)
      verdict.state = std::string(to_string(trial.evaluation.outcome));
    else
      verdict.state = compare(winner.record.measurement.value_or(Measurement{}), *verdict.now);
  } catch (const Error& error) {  // an unknown template or parameter, or more than free memory
    const bool this_one_only = error.kind() == ErrorKind::not_found ||
                               error.kind() == ErrorKind::invalid_argument ||
                               error.kind() == ErrorKind::out_of_memory;
    if (!this_one_only) throw;
    verdict.detail = error.what();
  }
  return verdict;
}

/// Those of --sizes, else all.
std::vector<Winner> winners_to_verify(const Database& database, const Gpu& gpu,
                                      const VerifyCommand& options) {
  std::vector<Winner> winners, stored = database.winners(gpu_key(gpu.info));
  std::vector<Problem> problems;
  if (!options.problems.sizes.empty()) problems = problems_of(options.problems, gpu.info, stored);
  for (Winner& winner : stored) {
    const bool asked = problems.empty() || std::find(problems.begin(), problems.end(),
                                                     winner.record.problem) != problems.end();
    if (asked && winner.quarantined.empty()) winners.push_back(std::move(winner));
  }
  return winners;
}

std::string change_text(const Verdict& verdict) {
  if (!verdict.now || !verdict.stored.measurement) return "-";
  const double change = verdict.now->median_us / verdict.stored.measurement->median_us - 1;
  return (change >= 0 ? "+" : "") + format_percent(change);
}

void print_verdicts(const std::vector<Verdict>& verdicts, const Output& output) {
  Table table({{"problem"},
               {"state"},
               {"stored", true, false, 1},
               {"now", true},
               {"change", true},
               {"spread", true, false, 2},
               {"configuration", false, true, 3}});
  for (const Verdict& verdict : verdicts) {
    const auto& stored = verdict.stored.measurement;
    table.add({table_text(verdict.stored.problem), verdict.state,
               stored ? format_microseconds(stored->median_us) : "-",
               verdict.now ? format_microseconds(verdict.now->median_us) : "-",
               change_text(verdict), verdict.now ? format_percent(verdict.now->spread) : "-",
               output.verbose ? to_string(verdict.stored.candidate)
                              : short_text(verdict.stored.candidate)});
  }
  if (verdicts.empty())
    print_line("no winners to verify");
  else
    table.print(output);
  for (const Verdict& verdict : verdicts)
    if (!verdict.detail.empty())
      note(output, to_string(verdict.stored.problem) + ": " + verdict.detail);
}

std::string verdicts_json(const std::vector<Verdict>& verdicts) {
  Json document{{"results", Json::array()}};
  for (const Verdict& verdict : verdicts) {
    Json json;
    json["gpu"] = verdict.gpu;
    json["state"] = verdict.state;
    json["detail"] = verdict.detail;
    json["stored"] = Json::parse(to_json(verdict.stored));
    json["now"] = verdict.now ? Json::parse(to_json(*verdict.now)) : Json(nullptr);
    document["results"].push_back(json);
  }
  document["interrupted"] = interrupted().load();
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

void verify_gpu(const Gpu& gpu, const VerifyCommand& options, Database& database,
                const Output& output, std::vector<Verdict>& verdicts) {
  const std::string key = gpu_key(gpu.info);
  const std::vector<Winner> winners = winners_to_verify(database, gpu, options);
  if (winners.empty()) return;
  const std::unique_ptr<Compiler> compiler = compiler_if_any(gpu.info.target, options.bench.nvrtc);
  const ImageStore images(&database, nullptr, compiler.get());
  for (const std::string& doubt : doubts(status_of(gpu))) warn(gpu.info.name + ": " + doubt);
  Bench bench(gpu, options.bench);
  Progress progress(output);
  for (std::size_t i = 0; i < winners.size() && !interrupted(); ++i) {
    progress.show("verifying " + std::to_string(i + 1) + " of " + std::to_string(winners.size()) +
                  ": " + to_string(winners[i].record.problem));
    verdicts.push_back(verify_one(key, winners[i], images, bench.evaluator()));
    if (verdicts.back().state == to_string(Outcome::wrong_result) && !options.keep)
      database.quarantine(winners[i].record.id, "wrong when verified: " + verdicts.back().detail);
  }
}

int run_verify(const VerifyCommand& options, const Output& output) {
  if (!options.problems.sizes.empty()) problems_of(options.problems);  // bad ones are said first
  Database database = Database::open(default_database_path(options.database));
  const std::vector<Gpu> gpus = gpus_to_measure_on(options.bench.device);
  catch_interrupts();
  std::vector<Verdict> verdicts;
  for (const Gpu& gpu : gpus) verify_gpu(gpu, options, database, output, verdicts);
  if (output.json)
    print_document(verdicts_json(verdicts));
  else
    print_verdicts(verdicts, output);
  if (interrupted()) return kInterrupted;
  const bool all_same = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return verdict.state == "same" || verdict.state == "not checked";
  });
  return all_same ? kOk : kNoWinner;
}

}  // namespace

void add_verify(CLI::App& app, Selection& selection) {
  add_command<VerifyCommand>(app, selection, "verify",
                             "Validate and time stored winners again; say what moved", setup,
                             run_verify);
}

}  // namespace tilewise::cli
