#include "cli/tune/trial_report.hpp"

#include <algorithm>

#include "cli/common/json.hpp"
#include "cli/common/output.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/candidate_text.hpp"

namespace tilewise::cli {
namespace {

std::string text_of(const Dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

Plan plan_of(const TrialReport& report) {
  return plan_of(report.candidate, report.problem, report.device);
}

void print_steps(const TrialReport& report, const Plan& plan) {
  Table table({{"step"},
               {"grid"},
               {"block"},
               {"registers", true},
               {"spill", true},
               {"shared", true},
               {"blocks/SM", true}});
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const LaunchStep& step = plan.steps[i];
    std::vector<std::string> row{std::string(to_string(step.role)), text_of(step.grid),
                                 text_of(step.block)};
    if (i < report.trial.images.size()) {
      const ResourceUsage& usage = report.trial.images[i].usage;
      const Occupancy occupancy = occupancy_of(step, usage, report.device);
      row.insert(row.end(), {std::to_string(usage.registers), std::to_string(usage.spill_bytes),
                             std::to_string(usage.static_shared_bytes) + "+" +
                                 std::to_string(step.shared_bytes),
                             std::to_string(occupancy.blocks) + " (" + occupancy.limit + ")"});
    }
    table.add(std::move(row));
  }
  table.print(Output{});
}

/// Prints the cost model's prediction, step by step.
void print_cost(const Cost& cost) {
  if (!(cost.seconds > 0)) return;
  print_wrapped("predicted: " + to_string(cost));
  for (const StepCost& step : cost.steps)
    print_wrapped("  " + std::string(to_string(step.role)) + ": " +
                  format_microseconds(step.seconds * 1e6) + ", " +
                  std::string(to_string(step.limit)) + ", " + format_number(step.waves, 2) +
                  " waves of " + std::to_string(step.resident_blocks) + " blocks a multiprocessor");
}

Json cost_json(const Cost& cost) {
  const auto step_json = [](const StepCost& step) {
    return Json{{"role", to_string(step.role)},
                {"seconds", step.seconds},
                {"limit", to_string(step.limit)},
                {"resident_blocks", step.resident_blocks},
                {"waves", step.waves}};
  };
  return {{"seconds", cost.seconds},
          {"limit", to_string(cost.limit)},
          {"steps", array_of(cost.steps, step_json)}};
}

void print_measurement(const TrialReport& report) {
  const Evaluation& evaluation = report.trial.evaluation;
  print_wrapped("error: " + format_number(evaluation.error_ratio, 4) + " of the bound, norm-wise " +
                format_error(evaluation.normwise_error));
  if (!evaluation.measurement) return;
  const Measurement& measured = *evaluation.measurement;
  print_wrapped("time: " + format_microseconds(measured.median_us) + ", spread " +
                format_percent(measured.spread) + ", " + std::to_string(measured.samples) +
                " samples of " + std::to_string(measured.launches_per_sample) + " launches, " +
                (measured.cold ? "cold" : "warm") + ", by " + measured.method);
  print_wrapped("rate: " + format_rate(tflops_of(report.problem, measured.median_us),
                                       is_integer(report.problem.a.type)));
  if (measured.sm_clock_mhz > 0)
    print_wrapped("clock: " + format_number(measured.sm_clock_mhz, 0) + " MHz, " +
                  format_number(measured.power_w, 0) + " W");
}

}  // namespace

void print_trials(const std::vector<TrialReport>& reports) {
  const bool several = std::any_of(reports.begin(), reports.end(), [&](const TrialReport& report) {
    return report.device_name != reports.front().device_name;
  });
  for (const TrialReport& report : reports) {
    const Evaluation& evaluation = report.trial.evaluation;
    const Plan plan = plan_of(report);
    print_wrapped(to_string(report.problem) + " on " + report.device.name +
                  (several ? " (device " + report.device_name + ")" : ""));
    print_line("candidate: " + short_text(report.candidate));
    print_steps(report, plan);
    print_wrapped("workspace: " + format_bytes(static_cast<double>(plan.workspace_bytes)));
    print_cost(estimate(plan, report.device));
    const bool refused = evaluation.outcome == Outcome::compile_error;
    print_wrapped("compiled: " + (refused ? std::string("failed")
                                  : report.trial.compile_ms > 0
                                      ? format_number(report.trial.compile_ms, 0) + " ms"
                                      : std::string("no, stored")));
    print_wrapped("outcome: " + std::string(to_string(evaluation.outcome)));
    if (!evaluation.detail.empty()) print_line(evaluation.detail);
    if (evaluation.outcome == Outcome::ok) print_measurement(report);
    print_line("");
  }
}

Json trials_json(const std::vector<TrialReport>& reports) {
  const auto result_json = [](const TrialReport& report) {
    const Evaluation& evaluation = report.trial.evaluation;
    Json json;
    json["gpu"] = gpu_key(report.device);
    json["measured_on"] = Json::array({report.device_name});
    json["problem"] = json_of(report.problem);
    json["error_bound"] = error_bound(report.problem);
    json["candidate"] = json_of(report.candidate);
    json["outcome"] = std::string(to_string(evaluation.outcome));
    json["detail"] = evaluation.detail;
    json["measurement"] = nullptr;
    if (evaluation.measurement) {
      json["measurement"] = json_of(*evaluation.measurement);
      json["tflops"] = tflops_of(report.problem, evaluation.measurement->median_us);
    }
    json["error_ratio"] = evaluation.error_ratio;
    json["normwise_error"] = evaluation.normwise_error;
    json["compile_ms"] = report.trial.compile_ms;
    const Plan plan = plan_of(report);
    json["plan"] = json_of(plan);
    const Cost cost = estimate(plan, report.device);
    json["predicted"] = cost.seconds > 0 ? cost_json(cost) : Json();
    return json;
  };
  return {{"left_out", Json::array()}, {"results", array_of(reports, result_json)}};
}

}  // namespace tilewise::cli
