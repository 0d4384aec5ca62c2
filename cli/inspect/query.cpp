#include <algorithm>

#include "cli/command.hpp"
#include "cli/common/answers.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/measurement_text.hpp"
#include "cli/common/stored.hpp"
#include "templates/space/candidate_text.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

struct QueryCommand : AnswerOptions {
  bool stale = false;
};

void setup(CLI::App& app, QueryCommand& options) {
  add_subject_options(app, options);
  add_problem_options(app, options.problems, "");
  app.add_flag("--stale", options.stale, "Also say which are stale: loads the compiler");
  add_nvrtc_option(app, options.nvrtc);
  app.get_option("--nvrtc")->needs("--stale");
  need_sizes(app);
  add_database_option(app, options.database);
  app.footer(
      "Without --sizes: the stored winners. With --sizes: how each product would be answered "
      "(exact, predicted, default). Without --device and --gpu: for every stored GPU.\n\n" +
      examples({"autotune query", "autotune query --gpu \"NVIDIA H200\" --json",
                "autotune query --device 0 --sizes 1024,3000x500x700 --layout all"}));
}

// The stored winners ------------------------------------------------------------------------------

Json winner_json(const Winner& winner) {
  Json json = json_of(winner.record);
  json["since"] = winner.since;
  json["quarantined"] = winner.quarantined;
  json["objective"] = to_string(winner.objective);
  if (product_kind(winner.record.problem)) json["error_bound"] = error_bound(winner.record.problem);
  if (winner.record.measurement)
    json["tflops"] = tflops_of(winner.record.problem, winner.record.measurement->median_us);
  return json;
}

std::string configuration_text(const Winner& winner, bool verbose) {
  const Candidate& candidate = winner.record.candidate;
  return (winner.quarantined.empty() ? "" : "(not served: " + winner.quarantined + ") ") +
         (winner.objective == Objective::time
              ? ""
              : "(by " + std::string(to_string(winner.objective)) + ") ") +
         (verbose ? to_string(candidate) : short_text(candidate));
}

Json listing_json(const Database& database, const std::vector<Subject>& subjects,
                  const std::vector<Gpu>& gpus) {
  const auto gpu_json = [&](const Subject& subject) {
    const std::optional<DeviceFacts> facts = database.device(subject.key);
    return Json{{"gpu", subject.key},
                {"facts", facts ? json_of(*facts) : Json()},
                {"winners", array_of(database.winners(subject.key), winner_json)},
                {"baselines", array_of(database.baselines({}, subject.key))}};
  };
  return {{"database", database.path().string()},
          {"left_out", left_out_json(gpus)},
          {"gpus", array_of(subjects, gpu_json)}};
}

void print_listing(const Database& database, const std::vector<Subject>& subjects,
                   const Output& output) {
  const auto baselines = database.baselines();
  for (const Subject& subject : subjects) {
    print_line(subject.key);
    const std::vector<Winner> winners = database.winners(subject.key);
    double largest = 0;
    bool integers = false, with_energy = output.verbose;
    for (const Winner& winner : winners) {
      integers |= is_integer(winner.record.problem.a.type);
      with_energy |= winner.record.measurement && winner.record.measurement->energy_mj > 0;
      if (winner.record.measurement)
        largest = std::max(largest,
                           tflops_of(winner.record.problem, winner.record.measurement->median_us));
    }
    const RateUnit unit(largest, integers);
    std::vector<Column> columns{{"problem"},
                                {"align", false, false, 6},
                                {"time", true},
                                {unit.name(), true},
                                {"spread", true, false, 4},
                                {"cuBLAS", true, false, 3},
                                {"ratio", true, false, 2},
                                {"since", false, false, 5},
                                {"configuration", false, true}};
    if (with_energy) columns.insert(columns.end() - 2, {"energy", true, false, 1});
    Table table(columns);
    for (const Winner& winner : winners) {
      const Record& record = winner.record;
      const Measurement measured = record.measurement.value_or(Measurement{});
      const Baseline* other = baseline_of(baselines, record.problem, subject.key);
      const double ratio = other ? other->measurement.median_us / measured.median_us : 0;
      std::vector<Style> styles(7, Style::plain);
      if (other) styles.back() = ratio_style(ratio);
      std::vector<std::string> cells{
          table_text(record.problem),
          alignment_text(alignment_of(record.problem)),
          format_microseconds(measured.median_us),
          unit.number(tflops_of(record.problem, measured.median_us)),
          format_percent(measured.spread),
          other ? format_microseconds(other->measurement.median_us) : "-",
          other ? format_number(ratio, 2) + "x" : "-",
          winner.since.substr(0, 10),
          configuration_text(winner, output.verbose)};
      if (with_energy) cells.insert(cells.end() - 2, energy_text(measured));
      table.add(std::move(cells), std::move(styles));
    }
    if (table.empty())
      print_line("  no winners stored");
    else
      table.print(output);
  }
}

// How a product would be answered -----------------------------------------------------------------

Json answers_json(const std::optional<Database>& database, const std::vector<Answer>& answers,
                  const std::vector<Gpu>& gpus) {
  const auto answer_json = [](const Answer& answer) {
    Json json{{"gpu", answer.subject.key},
              {"problem", json_of(answer.problem)},
              {"error_bound", error_bound(answer.problem)}};
    json.update(json_of(answer.resolution));
    return json;
  };
  return {{"database", database ? Json(database->path().string()) : Json()},
          {"left_out", left_out_json(gpus)},
          {"answers", array_of(answers, answer_json)}};
}

std::string from_text(const Problem& problem) {
  return std::string(to_string(layout_of(problem))) + " " + size_text(problem);
}

void print_answers(const std::vector<Answer>& answers, const Output& output) {
  Table table({{"GPU", false, true, 5},
               {"problem"},
               {"match"},
               {"distance", true, false, 3},
               {"from", false, false, 2},
               {"stale", false, false, 4},
               {"predicted", true, false, 2},
               {"limited by", false, false, 1},
               {"configuration", false, true}});
  for (const Answer& answer : answers) {
    const Resolution& resolution = answer.resolution;
    table.add(
        {answer.subject.info.name, table_text(answer.problem),
         std::string(to_string(resolution.kind)), format_number(resolution.distance, 2),
         resolution.record ? from_text(resolution.record->problem) : "-",
         resolution.stale ? "yes" : "-",
         resolution.predicted_us > 0 ? format_microseconds(resolution.predicted_us) : "-",
         resolution.limited_by.empty() ? "-" : resolution.limited_by,
         output.verbose ? to_string(resolution.candidate) : short_text(resolution.candidate)});
  }
  table.print(output);
  if (output.verbose)
    for (const Answer& answer : answers)
      print_line(to_string(answer.problem) + ": " + answer.resolution.why);
}

int run_query(const QueryCommand& options, const Output& output) {
  const bool asked = names_problems(options.problems);
  if (asked) problems_of(options.problems);  // bad problems are reported first
  const bool may_be_absent = asked && !options.device.empty();
  const std::optional<Database> database =
      may_be_absent ? open_if_there(options.database) : open_to_read(options.database);
  const std::vector<Gpu> gpus =
      options.device.empty() ? std::vector<Gpu>{} : choose_gpus(options.device, true);
  print_left_out(gpus, output);
  const std::vector<Subject> subjects = subjects_of(options, gpus, database, asked);
  if (subjects.empty() && asked)
    throw Error(ErrorKind::not_found,
                "nothing is stored for any GPU; name one of this machine: --device");
  if (!asked) {
    if (output.json)
      print_document(listing_json(*database, subjects, gpus));
    else if (subjects.empty())
      print_line("no winners stored in " + database->path().string());
    else
      print_listing(*database, subjects, output);
    return kOk;
  }
  const std::vector<Answer> answers = answers_for(database, subjects, options, options.stale);
  if (output.json)
    print_document(answers_json(database, answers, gpus));
  else
    print_answers(answers, output);
  return kOk;
}

}  // namespace

void add_query(CLI::App& app, Selection& selection) {
  add_command<QueryCommand>(app, selection, "query",
                            "Show stored winners, or how a product would be answered", setup,
                            run_query);
}

}  // namespace tilewise::cli
