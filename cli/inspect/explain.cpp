#include <algorithm>
#include <cmath>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/json.hpp"
#include "cli/common/measurement_text.hpp"
#include "cli/common/stored.hpp"
#include "cli/inspect/explain_profile.hpp"
#include "cli/inspect/explanation.hpp"
#include "templates/space/candidate_text.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

constexpr std::size_t kRivals = 5;
// Below this share of the highest clock, the text names the clock as a limit of the kernel.
constexpr double kFullClock = 0.97;
// The text omits resources that alone would take less than this share of a step's time.
constexpr double kWorthWords = 0.005;

struct ExplainCommand : AnswerOptions {
  bool stale = false;
  bool profile = false;
  std::string ncu;
};

void setup(CLI::App& app, ExplainCommand& options) {
  add_subject_options(app, options);
  add_problem_options(app, options.problems, "");
  app.add_flag("--stale", options.stale, "Also say which are stale: loads the compiler");
  app.add_flag("--profile", options.profile,
               "Also read counters of it and of the runner-up on the GPU, by NVIDIA's ncu");
  app.add_option("--ncu", options.ncu, "ncu: the program or its folder")
      ->type_name("PATH")
      ->needs("--profile");
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.footer(
      "Why this configuration serves the product: which record matches, what limits it by the cost "
      "model, the candidates that it beat and by how much, and what the model expected "
      "(docs/explain.md).\n\n" +
      examples({"autotune explain --gpu H200 --sizes 1024x512x2048",
                "autotune explain --device 0 --sizes 4096 --dtype bf16 --json",
                "autotune explain --device 0 --sizes 4096 --profile"}));
}

const Record* serving_record(const Explanation& one) {
  return one.serving ? &one.measured->candidates[*one.serving].record : nullptr;
}

/// The device's highest clock (MHz) if the record's own clock was clearly lower; otherwise 0.
double missed_clock_mhz(const Explanation& one) {
  const Record* record = serving_record(one);
  const double highest = one.answer.subject.info.clock_khz * 1e-3;
  if (!record || !record->measurement || one.answer.subject.info.target.host ||
      one.answer.subject.typical)
    return 0;
  const double clock = record->measurement->sm_clock_mhz;
  return clock > 0 && clock < kFullClock * highest ? highest : 0;
}

// Words -------------------------------------------------------------------------------------------

void print_heading(const std::string& text) {
  print_exact_line(styled(printable(text, Lines::one), Style::bold, colours(StandardStream::out)));
}
void say(const std::string& text) { print_wrapped("  " + text); }

std::string times_text(double ratio) { return format_number(ratio, ratio < 10 ? 2 : 1) + "x"; }

void print_match(const Explanation& one) {
  const Resolution& resolution = one.answer.resolution;
  print_heading(table_text(one.answer.problem) + " on " + one.answer.subject.key);
  say("match: " + std::string(to_string(resolution.kind)) +
      (resolution.kind == MatchKind::predicted
           ? " (distance " + format_number(resolution.distance, 2) + ")"
           : "") +
      (resolution.stale ? ", stale" : ""));
  say(resolution.why);
  say("configuration: " + short_text(resolution.candidate));
  for (const LaunchStep& step : one.plan.steps) {
    const std::uint64_t blocks = volume(step.grid);
    say("launches " + std::string(to_string(step.role)) + ": " + std::to_string(blocks) +
        (blocks == 1 ? " block of " : " blocks of ") + std::to_string(volume(step.block)) +
        " threads, " + format_bytes(step.shared_bytes) + " of dynamic shared memory");
  }
  say("workspace: " + format_bytes(static_cast<double>(one.plan.workspace_bytes)));
  say("order of sums: " + (one.sum_order ? to_string(*one.sum_order)
                                         : "not fixed; it depends on m, the batch or the GPU"));
}

void print_time(const Explanation& one) {
  const Problem& problem = one.answer.problem;
  const bool integers = is_integer(problem.a.type);
  const Record* record = serving_record(one);
  const bool exact = one.answer.resolution.kind == MatchKind::exact;
  const double us =
      exact && record ? record->measurement->median_us : one.answer.resolution.predicted_us;
  print_heading("Time");
  if (!(us > 0)) {
    say("not measured, and there is no prediction");
    return;
  }
  say(format_microseconds(us) + (exact ? " measured, " : " expected, ") +
      format_rate(tflops_of(problem, us), integers));
  if (one.roof_us > 0)
    say(format_percent(one.roof_us / us) + " of the roofline, which allows " +
        format_microseconds(one.roof_us) + " (docs/report.md)");
  if (!exact || !one.measured) return;
  if (const std::string energy = record ? energy_text(*record->measurement) : "-"; energy != "-")
    say("energy: " + energy + " a product, " +
        (record->measurement->energy_mj > 0 ? "measured" : "by one reading of the power") +
        ", idle power included; power limit " + power_limit_text(*record->measurement));
  for (const Baseline& baseline : one.measured->baselines)
    say(baseline.library + " " + baseline.version + ", " + baseline.variant + ": " +
        format_microseconds(baseline.measurement.median_us) + ", " +
        times_text(baseline.measurement.median_us / us) + " of this time");
}

void print_prices(const Explanation& one) {
  if (!one.answer.problem.order) return;
  print_heading("The price of the order");
  if (one.prices.empty()) say("no product of its n and k was tuned in this order");
  for (const OrderPrice& price : one.prices)
    say(table_text(price.problem) + ": " + format_microseconds(price.us) +
        (price.free_us > 0 ? ", " + times_text(price.ratio()) + " of the time in any order"
                           : "; not tuned in any order"));
}

void print_limits(const Explanation& one) {
  print_heading("What limits it");
  if (!one.cost) {
    say(one.answer.subject.typical && !one.answer.subject.info.target.host
            ? "not known: the clocks and the bandwidth of this GPU are not stored in the database"
            : "the cost model covers GPUs with known clocks only");
    return;
  }
  say("the cost model expects " + to_string(*one.cost));
  for (const StepCost& step : one.cost->steps) {
    say(std::string(to_string(step.role)) + ": " + format_microseconds(step.seconds * 1e6) + ", " +
        format_number(step.waves, 2) + " waves with " + std::to_string(step.resident_blocks) +
        " blocks on a multiprocessor; each resource alone:");
    std::vector<std::pair<double, std::string>> resources;
    for (std::size_t i = 0; i < kLimits; ++i)
      resources.emplace_back(step.alone[i], to_string(static_cast<Limit>(i)));
    std::sort(resources.begin(), resources.end(), std::greater<>());
    for (const auto& [seconds, name] : resources)
      if (seconds > kWorthWords * step.seconds)
        say("  " + name + std::string(20 - std::min<std::size_t>(18, name.size()), ' ') +
            format_microseconds(seconds * 1e6) + "  " + format_percent(seconds / step.seconds));
  }
  for (const StepCost& step : one.cost->steps)
    if (const double last = step.waves - std::floor(step.waves);
        step.role == StepRole::multiply && step.waves > 1 && last > 0)
      say("its last wave has " + format_percent(last) + " of the blocks that run at a time");
  if (const double highest = missed_clock_mhz(one); highest > 0) {
    const Measurement& measured = *serving_record(one)->measurement;
    say("it ran at " + format_number(measured.sm_clock_mhz, 0) + " of " +
        format_number(highest, 0) + " MHz" +
        (measured.power_w > 0 ? " and " + format_number(measured.power_w, 0) + " W" : "") +
        "; at the highest clock its units would be " + times_text(highest / measured.sm_clock_mhz) +
        " as fast (a lower clock under load is usually the power limit's)");
  }
}

void print_usage(const Explanation& one) {
  if (!one.serving) return;
  const ReportCandidate& serving = one.measured->candidates[*one.serving];
  const ResourceUsage& usage = serving.record.usage;
  if (usage.registers > 0)
    say(std::to_string(usage.registers) + " registers, " + std::to_string(usage.spill_bytes) +
        " bytes of spills" +
        (serving.resident_blocks > 0 ? ", " + format_percent(serving.occupancy) +
                                           " occupancy, limited by " + serving.occupancy_limit
                                     : ""));
}

std::string rival_text(const Rival& rival) {
  const auto& differences = rival.differences;
  std::string text;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, differences.size()); ++i)
    text += (i == 0 ? "" : ", ") + differences[i];
  if (differences.size() > kMost)
    text += " and " + std::to_string(differences.size() - kMost) + " more";
  return text.empty() ? short_text(rival.record.candidate) : text;
}

void print_rivals(const Explanation& one, const Output& output) {
  print_heading("The candidates that it beat");
  if (!one.serving) {
    say(one.answer.resolution.record ? "its other candidates are not in this database"
                                     : "nothing was measured");
    return;
  }
  const ReportProblem& measured = *one.measured;
  const std::string of = one.answer.resolution.kind == MatchKind::exact
                             ? ""
                             : " of " + table_text(measured.problem) + ", where it was measured";
  say(std::to_string(measured.records) + (measured.records == 1 ? " candidate" : " candidates") +
      of + ", " + std::to_string(measured.rejected) + " rejected" +
      (one.median_ratio > 0 ? "; the median of the others takes " + times_text(one.median_ratio)
                            : ""));
  if (one.certainty) say(certainty_text(*one.certainty));
  if (measured.winner == one.serving && measured.objective != Objective::time)
    say("chosen by " + std::string(to_string(measured.objective)) +
        ", not by time: another may be faster");
  for (const Rival& rival : one.rivals)
    say(times_text(rival.ratio) + "  " +
        (output.verbose ? to_string(rival.record.candidate) : rival_text(rival)));
  for (const Rival& rival : one.of_templates)
    say("the best of " + rival.record.candidate.kernel_template + ": " + times_text(rival.ratio));
  for (const Rejection& rejection : measured.rejections) {
    say(std::to_string(rejection.count) + " of " + rejection.kernel_template + ": " +
        std::string(to_string(rejection.outcome)) + ", " + rejection.reason);
    if (&rejection - measured.rejections.data() >= 2 && !output.verbose) break;
  }
}

void print_model(const Explanation& one) {
  const ModelOpinion& model = one.model;
  if (model.ranked < 3) return;
  print_heading("What the model expected");
  if (model.place > 0)
    say("place " + std::to_string(model.place) + " of " + std::to_string(model.ranked) +
        " candidates (" + format_microseconds(serving_record(one)->predicted_us) + " expected, " +
        format_microseconds(serving_record(one)->measurement->median_us) + " measured)");
  if (!std::isnan(model.correlation))
    say("rank correlation of predictions and times: " + format_number(model.correlation, 2));
  say("the best of its first ten takes " + times_text(model.best_of_first_10) + " of the best");
}

// JSON --------------------------------------------------------------------------------------------

Json rivals_json(const std::vector<Rival>& rivals) {
  return array_of(rivals, [](const Rival& rival) {
    return Json{{"candidate", json_of(rival.record.candidate)},
                {"median_us", rival.record.measurement->median_us},
                {"ratio", rival.ratio},
                {"differences", rival.differences}};
  });
}

Json cost_json(const Explanation& one) {
  if (!one.cost) return nullptr;
  const auto step_json = [](const StepCost& step) {
    Json alone = Json::object();
    for (std::size_t i = 0; i < kLimits; ++i)
      alone[std::string(to_string(static_cast<Limit>(i)))] = step.alone[i] * 1e6;
    return Json{{"step", to_string(step.role)},
                {"us", step.seconds * 1e6},
                {"limit", to_string(step.limit)},
                {"waves", step.waves},
                {"resident_blocks", step.resident_blocks},
                {"alone_us", alone}};
  };
  return {{"us", one.cost->seconds * 1e6},
          {"limit", to_string(one.cost->limit)},
          {"steps", array_of(one.cost->steps, step_json)}};
}

Json measured_json(const Explanation& one) {
  if (!one.serving) return nullptr;
  const ReportProblem& measured = *one.measured;
  const auto rejection_json = [](const Rejection& rejection) {
    return Json{{"outcome", to_string(rejection.outcome)},
                {"template", rejection.kernel_template},
                {"reason", rejection.reason},
                {"count", rejection.count}};
  };
  const ReportCandidate& serving = measured.candidates[*one.serving];
  return {
      {"problem", json_of(measured.problem)},
      {"candidates", measured.records},
      {"rejected", measured.rejected},
      {"objective", measured.winner == one.serving ? Json(to_string(measured.objective)) : Json()},
      {"median_ratio", positive_or_null(one.median_ratio)},
      {"certainty", one.certainty ? certainty_json(*one.certainty) : Json(nullptr)},
      {"fastest_others", rivals_json(one.rivals)},
      {"best_of_other_templates", rivals_json(one.of_templates)},
      {"rejections", array_of(measured.rejections, rejection_json)},
      {"baselines", array_of(measured.baselines)},
      {"occupancy", positive_or_null(serving.occupancy)},
      {"occupancy_limit", serving.occupancy_limit},
      {"flops_per_byte", positive_or_null(serving.flops_per_byte)},
      {"model",
       {{"ranked", one.model.ranked},
        {"place", one.model.place},
        {"rank_correlation", one.model.correlation},
        {"best_of_first_10", positive_or_null(one.model.best_of_first_10)}}}};
}

Json explanation_json(const Explanation& one, const std::optional<Profile>& profile) {
  const Resolution& resolution = one.answer.resolution;
  return {{"gpu", one.answer.subject.key},
          {"problem", json_of(one.answer.problem)},
          {"match", to_string(resolution.kind)},
          {"distance", resolution.distance},
          {"stale", resolution.stale},
          {"why", resolution.why},
          {"candidate", json_of(resolution.candidate)},
          {"record", resolution.record ? json_of(*resolution.record) : Json(nullptr)},
          {"expected_us", positive_or_null(resolution.predicted_us)},
          {"roof_us", positive_or_null(one.roof_us)},
          {"workspace_bytes", one.plan.workspace_bytes},
          {"sum_order", one.sum_order ? Json(to_string(*one.sum_order)) : Json()},
          {"order_prices", array_of(one.prices,
                                    [](const OrderPrice& price) {
                                      return Json{{"problem", json_of(price.problem)},
                                                  {"us", price.us},
                                                  {"free_us", positive_or_null(price.free_us)},
                                                  {"ratio", positive_or_null(price.ratio())}};
                                    })},
          {"highest_clock_mhz", positive_or_null(missed_clock_mhz(one))},
          {"cost_model", cost_json(one)},
          {"measured", measured_json(one)},
          {"profile", profile ? profile_json(*profile) : Json()}};
}

ProfileOptions profile_options(const ExplainCommand& options, const std::vector<Gpu>& gpus,
                               const Subject& subject) {
  ProfileOptions chosen{options.ncu, "", options.database, options.nvrtc};
  for (const Gpu& gpu : gpus)
    if (gpu_key(gpu.info) == subject.key) chosen.which = gpu.which;
  return chosen;
}

int run_explain(const ExplainCommand& options, const Output& output) {
  if (!options.nvrtc.empty() && !options.stale && !options.profile)
    throw Error(ErrorKind::invalid_argument, "--nvrtc needs --stale or --profile");
  problems_of(options.problems);  // bad problems are reported first
  const std::optional<Database> database =
      options.device.empty() ? open_to_read(options.database) : open_if_there(options.database);
  const std::vector<Gpu> gpus =
      options.device.empty() ? std::vector<Gpu>{} : choose_gpus(options.device, true);
  print_left_out(gpus, output);
  const std::vector<Subject> subjects = subjects_of(options, gpus, database, true);
  if (subjects.empty())
    throw Error(ErrorKind::not_found,
                "nothing is stored for any GPU; name one of this machine: --device");
  Json explanations = Json::array();
  for (Answer& answer : answers_for(database, subjects, options, options.stale)) {
    const Explanation one = explain(database, std::move(answer), kRivals);
    std::optional<Profile> profile;
    if (options.profile) {
      note(output, "ncu profiles " + table_text(one.answer.problem) + " ...");
      profile = profile_of(one, profile_options(options, gpus, one.answer.subject));
    }
    if (output.json) {
      explanations.push_back(explanation_json(one, profile));
      continue;
    }
    print_match(one);
    print_usage(one);
    print_time(one);
    print_prices(one);
    print_limits(one);
    print_rivals(one, output);
    print_model(one);
    if (!profile) continue;
    print_heading("Counters");
    print_profile(*profile);
  }
  if (output.json)
    print_document(Json{{"database", database ? Json(database->path().string()) : Json()},
                        {"left_out", left_out_json(gpus)},
                        {"explanations", explanations}});
  return kOk;
}

}  // namespace

void add_explain(CLI::App& app, Selection& selection) {
  add_command<ExplainCommand>(app, selection, "explain",
                              "Say why a configuration serves a product, and what limits it", setup,
                              run_explain);
}

}  // namespace tilewise::cli
