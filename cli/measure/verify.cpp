#include <algorithm>
#include <cmath>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "matmul/kept_orders.hpp"
#include "templates/space/candidate_text.hpp"
#include "tuner/evaluate/time_change.hpp"
#include "tuner/evaluate/trial.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

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
      "Validates stored winners again, runs each alone for 2 s with every launch compared, and "
      "times "
      "it. Moved: the time differs by more than the "
      "tolerance, which is twice both spreads, from 2% to 5%; on the CPU it is 15%. A wrong winner "
      "is quarantined: it is not served any more. Exit status 6 when a winner moved, failed, could "
      "not be checked or is not stored.\n\n" +
      examples({"autotune verify", "autotune verify --device 0 --sizes 1024,4096 --json"}));
}

/// The result of verifying a problem's stored winner.
struct Verdict {
  std::string gpu;
  Problem problem;
  /// "same", "faster", "slower", "not comparable"; "wrong_result" and other outcomes; "not
  /// checked", "not stored", "quarantined"
  std::string state;
  std::string detail = {};
  std::optional<Record> stored = {};
  std::optional<Measurement> now = {};
  std::optional<TimeChange> change = {};  ///< empty where times are not compared
  std::int64_t launches = 0;              ///< compared launches
  double arrivals = 0;  ///< arrivals of warps that returned a stage to TMA; 0: no TMA
};

constexpr double kObservedSeconds = 2;

/// Warp arrivals in a trial's launches, at its own size and at the pressed size.
double arrivals_of(const Problem& problem, const Candidate& candidate, const DeviceInfo& info,
                   const Trial& trial) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  const auto pressed = pressed_size(candidate, kernel, problem, info, trial.images);
  const auto of = [&](const Problem& size) {
    return kernel.pipeline_use(size, candidate.configuration).releases;
  };
  return double(trial.evaluation.observed) * of(problem) +
         (pressed ? double(trial.evaluation.pressed) * of(pressed->problem) : 0.0);
}

Verdict verify_one(const std::string& gpu, const Winner& winner, const ImageStore& images,
                   Evaluator& evaluator) {
  const Problem& problem = winner.record.problem;
  Verdict verdict{gpu, problem, "not checked"};
  verdict.stored = winner.record;
  const DeviceInfo info = evaluator.device_info();
  try {
    check_host_memory(problem, info);
    evaluator.begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
    const Trial trial =
        try_candidate(problem, winner.record.candidate, info, images, evaluator, kObservedSeconds);
    verdict.launches = trial.evaluation.observed + trial.evaluation.pressed;
    verdict.arrivals = arrivals_of(problem, winner.record.candidate, info, trial);
    verdict.now = trial.evaluation.measurement;
    verdict.detail = trial.evaluation.detail;
    if (trial.evaluation.outcome != Outcome::ok || !verdict.now) {
      verdict.state = std::string(to_string(trial.evaluation.outcome));
    } else {
      const Measurement stored = winner.record.measurement.value_or(Measurement{});
      verdict.change = time_change(stored, *verdict.now, info.target.host);
      verdict.state = std::string(verdict.change->state);
    }
  } catch (const Error& error) {  // an unknown template or parameter, or too little free memory
    const bool this_one_only = error.kind() == ErrorKind::not_found ||
                               error.kind() == ErrorKind::invalid_argument ||
                               error.kind() == ErrorKind::out_of_memory;
    if (!this_one_only) throw;
    verdict.detail = error.what();
  }
  return verdict;
}

/// The winners to verify on a GPU, and verdicts for problems of --sizes without a winner.
struct Selected {
  std::vector<Winner> winners;
  std::vector<Verdict> without;
};

/// The winners of --sizes; without --sizes, all served winners.
Selected select_winners(const Database& database, const Gpu& gpu, const VerifyCommand& options) {
  const std::string key = gpu_key(gpu.info);
  std::vector<Winner> stored = database.winners(key);
  Selected selected;
  if (!names_problems(options.problems)) {
    for (Winner& winner : stored)
      if (winner.quarantined.empty()) selected.winners.push_back(std::move(winner));
    return selected;
  }
  for (const Problem& asked : problems_of(options.problems, gpu.info, stored)) {
    const Problem problem = in_kept_order(asked, gpu.info, &database);
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const Winner& winner) {
      return winner.record.problem == problem;
    });
    if (found == stored.end())
      selected.without.push_back({key, problem, "not stored"});
    else if (found->quarantined.empty())
      selected.winners.push_back(*found);
    else
      selected.without.push_back({key, problem, "quarantined", found->quarantined, found->record});
  }
  return selected;
}

/// "1.2e+09".
std::string arrivals_text(double count) {
  return count < 1e6 ? in_decimals(count, 0) : in_exponent_form(count, 1);
}

std::string change_text(const Verdict& verdict) {
  if (!verdict.change || !std::isfinite(verdict.change->change)) return "-";
  const double change = verdict.change->change;
  return (change >= 0 ? "+" : "") + format_percent(change);
}

/// Why a winner's time is not compared, in one line; otherwise empty.
std::string reason_of(const Verdict& verdict) {
  return verdict.change ? "" : verdict.detail.substr(0, verdict.detail.find('\n'));
}

void print_verdicts(const std::vector<Verdict>& verdicts, const Output& output) {
  std::vector<Column> columns{{"problem"},
                              {"state"},
                              {"stored", true, false, 1},
                              {"now", true},
                              {"change", true},
                              {"tolerance", true},
                              {"spread", true, false, 2},
                              {"launches", true, false, 4},
                              {"arrivals", true, false, 5},
                              {"configuration", false, true, 3}};
  const bool reasons = std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return !reason_of(verdict).empty();
  });
  if (reasons) columns.push_back({"reason", false, true});
  Table table(columns);
  for (const Verdict& verdict : verdicts) {
    const bool timed = verdict.stored && verdict.stored->measurement;
    const auto name = [&](const Candidate& candidate) {
      return output.verbose ? to_string(candidate) : short_text(candidate);
    };
    std::vector<std::string> row{
        table_text(verdict.problem),
        verdict.state,
        timed ? format_microseconds(verdict.stored->measurement->median_us) : "-",
        verdict.now ? format_microseconds(verdict.now->median_us) : "-",
        change_text(verdict),
        verdict.change ? format_percent(verdict.change->tolerance) : "-",
        verdict.now ? format_percent(verdict.now->spread) : "-",
        std::to_string(verdict.launches),
        arrivals_text(verdict.arrivals),
        verdict.stored ? name(verdict.stored->candidate) : "-"};
    if (reasons) row.push_back(reason_of(verdict));
    table.add(std::move(row));
  }
  if (!table.empty()) table.print(output);
  for (const Verdict& verdict : verdicts)
    if (!verdict.detail.empty()) note(output, to_string(verdict.problem) + ": " + verdict.detail);
}

Json verdicts_json(const std::vector<Verdict>& verdicts, const std::vector<Gpu>& gpus) {
  const auto verdict_json = [](const Verdict& verdict) {
    Json json;
    json["gpu"] = verdict.gpu;
    json["problem"] = json_of(verdict.problem);
    json["state"] = verdict.state;
    json["detail"] = verdict.detail;
    json["launches_observed"] = verdict.launches;
    json["arrivals_observed"] = verdict.arrivals;
    const bool compared = verdict.change && std::isfinite(verdict.change->change);
    json["change"] = compared ? Json(verdict.change->change) : Json(nullptr);
    json["tolerance"] = verdict.change ? Json(verdict.change->tolerance) : Json(nullptr);
    json["stored"] = verdict.stored ? json_of(*verdict.stored) : Json(nullptr);
    json["now"] = verdict.now ? json_of(*verdict.now) : Json(nullptr);
    return json;
  };
  return {{"left_out", left_out_json(gpus)},
          {"results", array_of(verdicts, verdict_json)},
          {"interrupted", interrupted().load()}};
}

/// Prints the problems of --sizes without a winner on this GPU; without --sizes, that there are no
/// winners.
void print_missing_winners(const Gpu& gpu, const Selected& selected, const Database& database) {
  std::string problems;
  for (const Verdict& verdict : selected.without)
    append(problems, to_string(verdict.problem) + (verdict.stored ? " (quarantined)" : ""));
  if (selected.winners.empty() && problems.empty()) problems = "any problem";
  if (!problems.empty())
    warn("no winner to verify in " + database.path().string() + " on " + gpu.info.name + " for " +
         problems + "; autotune --sizes ... finds winners");
}

/// Returns true when every problem of --sizes had a winner.
bool verify_gpu(const Gpu& gpu, const VerifyCommand& options, Database& database,
                const Output& output, std::vector<Verdict>& verdicts) {
  const std::string key = gpu_key(gpu.info);
  const Selected selected = select_winners(database, gpu, options);
  print_missing_winners(gpu, selected, database);
  if (!selected.winners.empty()) {
    const auto compiler = compiler_if_any(gpu.info.target, options.bench.nvrtc);
    const ImageStore images(&database, nullptr, compiler.get());
    for (const std::string& doubt : doubts(status_of(gpu))) warn(gpu.info.name + ": " + doubt);
    Bench bench(gpu, options.bench);
    Progress progress(output);
    const std::string count = std::to_string(selected.winners.size());
    for (std::size_t i = 0; i < selected.winners.size() && !interrupted(); ++i) {
      const Record& record = selected.winners[i].record;
      progress.show("verifying " + std::to_string(i + 1) + " of " + count + ": " +
                    to_string(record.problem));
      verdicts.push_back(verify_one(key, selected.winners[i], images, bench.evaluator()));
      if (verdicts.back().state == to_string(Outcome::wrong_result) && !options.keep)
        database.quarantine(record.id, "wrong when verified: " + verdicts.back().detail);
    }
  }
  verdicts.insert(verdicts.end(), selected.without.begin(), selected.without.end());
  return selected.without.empty();
}

int run_verify(const VerifyCommand& options, const Output& output) {
  if (names_problems(options.problems))
    problems_of(options.problems);  // bad ones are reported first
  Database database = open_to_write(existing_database(options.database));
  const std::vector<Gpu> gpus = gpus_to_measure_on(options.bench.device, output, true);
  catch_interrupts();
  std::vector<Verdict> verdicts;
  bool all_same = true;
  for (const Gpu& gpu : gpus)
    if (!verify_gpu(gpu, options, database, output, verdicts)) all_same = false;
  if (output.json)
    print_document(verdicts_json(verdicts, gpus));
  else
    print_verdicts(verdicts, output);
  if (interrupted()) return kInterrupted;
  if (verdicts.empty()) all_same = false;  // nothing was verified
  for (const Verdict& verdict : verdicts)
    if (verdict.state != "same") all_same = false;
  return all_same ? kOk : kNoWinner;
}

}  // namespace

void add_verify(CLI::App& app, Selection& selection) {
  add_command<VerifyCommand>(app, selection, "verify",
                             "Validate and time stored winners again; say what moved", setup,
                             run_verify);
}

}  // namespace tilewise::cli
