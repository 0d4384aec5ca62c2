#include "cli/common/tune_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/common/json.hpp"
#include "cli/common/measurement_text.hpp"
#include "cli/common/stored.hpp"
#include "templates/space/candidate_text.hpp"
#include "tuner/reproduce.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

/// A column and the functions for its cells.
struct Field {
  Column column;
  std::function<std::string(const Tuned&)> cell;
  std::function<Style(const Tuned&)> style = [](const Tuned&) { return Style::plain; };
};

/// The time of the better cuBLAS column over ours; 0 where a time is missing.
double ratio_of(const Tuned& tuned) {
  const Baseline* other = baseline_of(tuned.baselines, tuned.problem, gpu_key(tuned.gpu.info));
  const auto& winner = tuned.result.winner;
  return other && winner && winner->record.measurement
             ? other->measurement.median_us / winner->record.measurement->median_us
             : 0;
}

/// A field with `cell` for results with a winner, "-" for others.
Field measured_field(Column column,
                     const std::function<std::string(const Tuned&, const Measurement&)>& cell) {
  return {std::move(column), [cell](const Tuned& tuned) {
            const auto& winner = tuned.result.winner;
            return winner && winner->record.measurement ? cell(tuned, *winner->record.measurement)
                                                        : std::string("-");
          }};
}

/// Adds the better cuBLAS column: its time over ours, and with -v the name of that column.
void add_baseline_fields(std::vector<Field>& fields, bool verbose) {
  const auto cell = [](auto text) {
    return [text](const Tuned& tuned, const Measurement& ours) -> std::string {
      const Baseline* other = baseline_of(tuned.baselines, tuned.problem, gpu_key(tuned.gpu.info));
      return other ? text(*other, ours) : "-";
    };
  };
  fields.push_back(measured_field({"cuBLAS", true, false, 2},
                                  cell([](const Baseline& other, const Measurement&) {
                                    return format_microseconds(other.measurement.median_us);
                                  })));
  fields.push_back(measured_field(
      {"ratio", true, false, 1}, cell([](const Baseline& other, const Measurement& ours) {
        return format_number(other.measurement.median_us / ours.median_us, 2) + "x";
      })));
  fields.back().style = [](const Tuned& tuned) {
    const double ratio = ratio_of(tuned);
    return ratio > 0 ? ratio_style(ratio) : Style::plain;
  };
  if (verbose)
    fields.push_back(measured_field(
        {"by", false, false, 5},
        cell([](const Baseline& other, const Measurement&) { return other.variant; })));
}

RateUnit common_rate_unit(const std::vector<Tuned>& results) {
  double largest = 0;
  bool integers = false;
  for (const Tuned& tuned : results) {
    integers |= is_integer(tuned.problem.a.type);
    if (tuned.result.winner && tuned.result.winner->record.measurement)
      largest = std::max(
          largest, tflops_of(tuned.problem, tuned.result.winner->record.measurement->median_us));
  }
  return RateUnit(largest, integers);
}

std::string why_no_winner(const TuneResult& result) {
  if (result.interrupted) return "interrupted before any was found";
  if (result.failure && result.failure->kind() == ErrorKind::unsupported)
    return "none chosen: the quantity to minimise was not measured";
  if (result.failure) return "none found: faults of the system";
  if (result.waited > 0 && result.evaluated == 0)
    return "none found: another process compiles the kernels";
  return "no valid candidate found";
}

/// Whether some result has a winner whose energy was measured.
bool any_energy(const std::vector<Tuned>& results) {
  return std::any_of(results.begin(), results.end(), [](const Tuned& tuned) {
    const auto& winner = tuned.result.winner;
    return winner && winner->record.measurement && winner->record.measurement->energy_mj > 0;
  });
}

std::vector<Field> fields_for(bool with_gpu, bool with_energy, bool verbose, RateUnit unit) {
  std::vector<Field> fields;
  if (with_gpu)
    fields.push_back(
        {{"GPU", false, true}, [](const Tuned& tuned) { return tuned.gpu.info.name; }});
  fields.push_back({{"problem"}, [](const Tuned& tuned) { return table_text(tuned.problem); }});
  fields.push_back(measured_field({"time", true}, [](const Tuned&, const Measurement& measured) {
    return format_microseconds(measured.median_us);
  }));
  fields.push_back(
      measured_field({unit.name(), true}, [unit](const Tuned& tuned, const Measurement& measured) {
        return unit.number(tflops_of(tuned.problem, measured.median_us));
      }));
  fields.push_back(measured_field(
      {"spread", true, false, 4},
      [](const Tuned&, const Measurement& measured) { return format_percent(measured.spread); }));
  if (with_energy)
    fields.push_back(measured_field(
        {"energy", true, false, 2},
        [](const Tuned&, const Measurement& measured) { return energy_text(measured); }));
  add_baseline_fields(fields, verbose);
  fields.push_back({{"stored", false, false, 3}, [](const Tuned& tuned) { return tuned.stored; }});
  fields.push_back({{"configuration", false, true}, [verbose](const Tuned& tuned) {
                      if (!tuned.result.winner) return why_no_winner(tuned.result);
                      const Candidate& candidate = tuned.result.winner->record.candidate;
                      return verbose ? to_string(candidate) : short_text(candidate);
                    }});
  return fields;
}

void print_detail(const Tuned& tuned) {
  const std::string devices =
      tuned.measured_on.size() > 1 ? " (devices " + join(tuned.measured_on) + ")" : "";
  print_line("\n" + to_string(tuned.problem) + " on " + tuned.gpu.info.name + devices + ": " +
             std::to_string(tuned.result.evaluated) + " evaluated, " +
             std::to_string(tuned.result.rejected) + " rejected, " +
             std::to_string(tuned.result.compiled) + " compiled, " +
             std::to_string(tuned.result.reused) + " reused in " +
             format_seconds(tuned.result.seconds));
  double largest = 0;
  for (const Record& record : tuned.fastest)
    largest = std::max(largest, tflops_of(record.problem, record.measurement->median_us));
  const RateUnit unit(largest, is_integer(tuned.problem.a.type));
  Table fastest({{"fastest", true},
                 {unit.name(), true},
                 {"spread", true, false, 1},
                 {"predicted", true, false, 2},
                 {"candidate", false, true}});
  for (const Record& record : tuned.fastest)
    fastest.add({format_microseconds(record.measurement->median_us),
                 unit.number(tflops_of(record.problem, record.measurement->median_us)),
                 format_percent(record.measurement->spread),
                 record.predicted_us > 0 ? format_microseconds(record.predicted_us) : "-",
                 to_string(record.candidate)});
  if (!fastest.empty()) fastest.print(Output{});
  if (const auto& winner = tuned.result.winner)
    print_line("error: " + format_number(winner->record.error_ratio, 4) +
               " of the bound, norm-wise " + format_error(winner->record.normwise_error) +
               (winner->record.detail.empty() ? "" : "; " + winner->record.detail));
  if (tuned.certainty) print_line(certainty_text(*tuned.certainty));
  if (const auto& winner = tuned.result.winner; winner && winner->record.measurement)
    print_line("energy a product: " + energy_text(*winner->record.measurement) +
               ", power limit: " + power_limit_text(*winner->record.measurement) + "; chosen by " +
               std::string(to_string(winner->objective)));
  std::string outcomes = "outcomes of all its records:";
  for (const auto& [outcome, count] : tuned.outcomes)
    outcomes += " " + std::string(to_string(outcome)) + " " + std::to_string(count);
  print_line(outcomes);
  if (std::isfinite(tuned.result.compile_error))
    print_line("compiling: " + format_seconds(tuned.result.compile_seconds) +
               " on all threads; predicted to " + format_percent(tuned.result.compile_error) +
               " in the median of " + std::to_string(tuned.result.compiles_expected) +
               (tuned.result.too_late > 0
                    ? "; not begun, too late: " + std::to_string(tuned.result.too_late)
                    : ""));
  if (std::isfinite(tuned.result.rank_correlation))
    print_line("cost model: rank correlation " + format_number(tuned.result.rank_correlation, 2) +
               " of predicted and measured over " + std::to_string(tuned.result.ranked) +
               " candidates");
}

/// The certainties of all winners, for the summary. Empty where no winner was in a race.
std::string certainty_of_all(const std::vector<Tuned>& results) {
  constexpr double kSure = 0.95;
  std::int64_t raced = 0, sure = 0;
  double fastest = 0;
  for (const Tuned& tuned : results) {
    if (!tuned.certainty) continue;
    ++raced;
    fastest = tuned.certainty->fastest;
    sure += fastest >= kSure;
  }
  if (raced == 0) return "";
  if (results.size() == 1)
    return "; fastest of its race with a probability of " + format_percent(fastest) + " or more";
  return "; fastest of their races with a probability of 95% or more: " + std::to_string(sure) +
         " of " + std::to_string(raced);
}

Json result_json(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  Json json;
  json["gpu"] = gpu_key(tuned.gpu.info);
  json["measured_on"] = tuned.measured_on;
  json["problem"] = json_of(tuned.problem);
  json["error_bound"] = error_bound(tuned.problem);
  json["winner"] = nullptr;
  if (result.winner) {
    json["winner"] = json_of(result.winner->record);
    json["winner"]["since"] = result.winner->since;
    json["winner"]["objective"] = to_string(result.winner->objective);
    if (result.winner->record.measurement)
      json["tflops"] = tflops_of(tuned.problem, result.winner->record.measurement->median_us);
  }
  json["stored"] = tuned.stored;
  json["certainty"] = nullptr;
  if (tuned.certainty) json["certainty"] = certainty_json(*tuned.certainty);
  json["baselines"] = array_of(tuned.baselines);
  const Baseline* better = baseline_of(tuned.baselines, tuned.problem, gpu_key(tuned.gpu.info));
  if (better && result.winner && result.winner->record.measurement)
    json["ratio"] = {
        {"to", better->variant},
        {"value", better->measurement.median_us / result.winner->record.measurement->median_us}};
  json["fastest"] = array_of(tuned.fastest);
  json["outcomes"] = Json::object();
  for (const auto& [outcome, count] : tuned.outcomes)
    json["outcomes"][std::string(to_string(outcome))] = count;
  json["wrong"] = array_of(result.wrong);
  json["evaluated"] = result.evaluated;
  json["rejected"] = result.rejected;
  json["compiled"] = result.compiled;
  json["reused"] = result.reused;
  json["faults"] = result.faults;
  if (result.faults > 0) json["last_fault"] = result.last_fault;
  json["given_up"] = result.given_up;
  json["waited"] = result.waited;
  json["launches_observed"] = result.observed;
  json["searching"] = {{"seconds", result.search_seconds},
                       {"evaluating", result.evaluate_seconds},
                       {"busy", result.busy_seconds}};
  json["compiling"] = {{"seconds", result.compile_seconds},
                       {"predicted", result.compiles_expected},
                       {"median_error", result.compile_error},
                       {"too_late", result.too_late}};
  json["ranked"] = result.ranked;
  json["rank_correlation"] = result.rank_correlation;
  json["seconds"] = result.seconds;
  json["lock_seconds"] = result.lock_seconds;
  json["interrupted"] = result.interrupted;
  json["ended_early"] = result.ended_early;
  json["already_done"] = result.already_done;
  return json;
}

}  // namespace

bool database_failed(const TuneResult& result) {
  return result.failure && result.failure->kind() == ErrorKind::database;
}

Tuned summarize(const Gpu& gpu, const Problem& problem, TuneResult result,
                const std::optional<Winner>& before, const Database& database) {
  Tuned tuned{gpu, problem, std::move(result), {}, "none", {}, {}, {}, {}};
  if (tuned.result.winner)
    tuned.stored = !tuned.result.stored ? "not stored"
                   : !before            ? "new"
                   : before->record.candidate == tuned.result.winner->record.candidate ? "kept"
                                                                                       : "replaced";
  if (database_failed(tuned.result)) return tuned;  // the database cannot be read
  const std::string key = gpu_key(gpu.info);
  tuned.baselines =
      tuned.result.baselines.empty() ? database.baselines(problem, key) : tuned.result.baselines;
  RecordFilter filter;
  filter.problem = problem;
  filter.gpu = key;
  std::vector<Record> records = database.records(filter);
  const std::optional<Winner>& winner = tuned.result.winner;
  if (winner && winner->objective == Objective::time)
    tuned.certainty = certainty_of(winner->record, records);
  for (Record& record : records) {
    ++tuned.outcomes[record.outcome];
    if (record.outcome == Outcome::ok && record.measurement)
      tuned.fastest.push_back(std::move(record));
  }
  const auto faster = [](const Record& x, const Record& y) {
    return x.measurement->median_us < y.measurement->median_us;
  };
  std::sort(tuned.fastest.begin(), tuned.fastest.end(), faster);
  if (tuned.fastest.size() > 5) tuned.fastest.resize(5);
  return tuned;
}

ProgressLine progress_line(const TuneProgress& progress) {
  std::string first;
  if (progress.problem) first = table_text(*progress.problem) + "  ";
  first += progress.phase;
  if (progress.phase == "search" && progress.budget_seconds > 0)
    first += ", " + format_seconds(progress.budget_seconds - progress.seconds) + " left";
  ProgressLine line{{first, std::to_string(progress.evaluated) + " evaluated"}};
  if (progress.rejected > 0) line.parts.push_back(std::to_string(progress.rejected) + " rejected");
  if (progress.reused > 0) line.parts.push_back(std::to_string(progress.reused) + " reused");
  if (progress.lock_seconds >= 1)
    line.parts.push_back("waited " + format_seconds(progress.lock_seconds) + " for a lock");
  if (!progress.best || !progress.best->measurement) return line;
  const Record& best = *progress.best;
  const double us = best.measurement->median_us;
  line.best = {"best " + format_microseconds(us) + ", " +
                   format_rate(tflops_of(best.problem, us), is_integer(best.problem.a.type)),
               short_text(best.candidate)};
  return line;
}

std::string record_line(const Record& record, const std::string& reproduce) {
  const std::string name = to_string(record.candidate);
  if (record.outcome == Outcome::ok && record.measurement)
    return format_microseconds(record.measurement->median_us) + " +- " +
           format_percent(record.measurement->spread) + "  " + name;
  return std::string(to_string(record.outcome)) + "  " + name + ": " +
         record.detail.substr(0, record.detail.find('\n')) + "\n  " +
         reproduce_command(reproduce, record.candidate);
}

void print_tuned(const std::vector<Tuned>& results, const Output& output) {
  bool with_gpu = false;
  for (const Tuned& tuned : results)
    with_gpu |= gpu_key(tuned.gpu.info) != gpu_key(results.front().gpu.info);
  const std::vector<Field> fields = fields_for(with_gpu, output.verbose || any_energy(results),
                                               output.verbose, common_rate_unit(results));
  std::vector<Column> columns;
  for (const Field& field : fields) columns.push_back(field.column);
  Table table(columns);
  for (const Tuned& tuned : results) {
    std::vector<std::string> row;
    std::vector<Style> styles;
    for (const Field& field : fields) {
      row.push_back(field.cell(tuned));
      styles.push_back(field.style(tuned));
    }
    table.add(std::move(row), std::move(styles));
  }
  if (!table.empty()) table.print(output);
  if (output.verbose)
    for (const Tuned& tuned : results) print_detail(tuned);
}

std::string summary_of(const std::vector<Tuned>& results, double seconds) {
  std::int64_t evaluated = 0, rejected = 0, changed = 0, compared = 0, slower = 0;
  double log_sum = 0;
  for (const Tuned& tuned : results) {
    evaluated += tuned.result.evaluated, rejected += tuned.result.rejected;
    changed += tuned.stored == "new" || tuned.stored == "replaced" ? 1 : 0;
    if (const double ratio = ratio_of(tuned); ratio > 0)
      ++compared, log_sum += std::log(ratio), slower += ratio < 1 ? 1 : 0;
  }
  std::string text = counted(std::ssize(results), "problem") + " in " + format_seconds(seconds) +
                     ": " + counted(evaluated, "candidate") + " evaluated";
  if (rejected > 0) text += ", " + std::to_string(rejected) + " rejected";
  text += ", " + counted(changed, "new winner") + " stored";
  if (compared > 0)
    text += "; " + format_number(std::exp(log_sum / static_cast<double>(compared)), 2) +
            "x the speed of cuBLAS" +
            (compared > 1 ? " (geometric mean; slower: " + std::to_string(slower) + " of " +
                                std::to_string(compared) + ")"
                          : "");
  return text + certainty_of_all(results);
}

std::optional<Gain> gain_of(const std::vector<Tuned>& results,
                            const std::vector<WeightedProblem>& recorded) {
  Gain gain;
  for (const WeightedProblem& one : recorded) {
    const auto tuned = std::find_if(results.begin(), results.end(), [&](const Tuned& other) {
      return other.problem == one.problem && other.result.winner;
    });
    if (one.calls == 0 || tuned == results.end()) continue;
    const double cublas = fastest_us(tuned->baselines);
    const auto& measurement = tuned->result.winner->record.measurement;
    if (cublas == 0 || !measurement) continue;
    const double ours = measurement->median_us;
    gain.calls += one.calls;
    gain.recorded_ms += one.calls * one.us / 1e3;
    gain.cublas_ms += one.calls * cublas / 1e3;
    gain.ours_ms += one.calls * std::min(ours, cublas) / 1e3;
    gain.faster += ours < cublas ? 1 : 0;
    ++gain.problems;
  }
  return gain.problems > 0 ? std::optional(gain) : std::nullopt;
}

void print_gain(const Gain& gain) {
  char text[300];
  std::snprintf(text, sizeof text,
                "the application: %.0f calls of %zu problems, %.4g ms in them as recorded; cuBLAS "
                "%.4g ms, with the %zu that are faster here %.4g ms: %.1f%% less",
                gain.calls, gain.problems, gain.recorded_ms, gain.cublas_ms, gain.faster,
                gain.ours_ms, 100 * (1 - gain.ours_ms / gain.cublas_ms));
  std::cout << text << '\n';
}

Json tuned_json(const std::vector<Tuned>& results, const std::vector<LostGpu>& lost,
                bool interrupted_run, const std::optional<Error>& failure,
                const std::optional<Gain>& gain) {
  Json document;
  document["devices"] = Json::array();
  std::vector<std::string> seen;
  for (const Tuned& tuned : results) {
    const std::string key = gpu_key(tuned.gpu.info);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    document["devices"].push_back(json_of(tuned.gpu.info));
  }
  document["left_out"] = Json::array();  // identical GPUs share the work
  document["lost"] = array_of(lost, [](const LostGpu& one) {
    return Json{{"device", device_name(one.gpu)}, {"uuid", one.gpu.info.uuid}, {"why", one.why}};
  });
  document["results"] = array_of(results, result_json);
  if (gain)
    document["application"] = {{"calls", gain->calls},         {"recorded_ms", gain->recorded_ms},
                               {"cublas_ms", gain->cublas_ms}, {"ours_ms", gain->ours_ms},
                               {"problems", gain->problems},   {"faster", gain->faster}};
  document["interrupted"] = interrupted_run;
  if (failure)
    document["error"] = {{"kind", to_string(failure->kind())}, {"message", failure->what()}};
  return document;
}

}  // namespace tilewise::cli
