#include <algorithm>
#include <cmath>
#include <map>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/json.hpp"
#include "cli/common/stored.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

// Number of candidates that a tuner would measure first by the model alone.
constexpr std::size_t kFirst = 10;

struct ModelCommand {
  std::string gpu;
  std::string database;
};

void setup(CLI::App& app, ModelCommand& options) {
  add_gpu_option(app, options.gpu);
  add_database_option(app, options.database);
  app.footer(
      "Predicts today what was measured, with the stored facts of each GPU (else "
      "those typical for its capability). "
      "Records of templates and parameters that have changed since are left out.\n\n" +
      examples({"autotune db model", "autotune db model --gpu H200 --json"}));
}

/// Predictions and measurements of the records of one problem on one GPU.
struct Comparison {
  std::string gpu;
  Problem problem;
  std::vector<double> predicted, measured;                // by the current model
  std::vector<double> stored_predicted, stored_measured;  // predictions stored at measurement time
};

double predicted_now(const Record& record, const DeviceInfo& device) {
  const Candidate& candidate = record.candidate;
  const KernelTemplate* kernel = known_template(candidate.kernel_template);
  if (!kernel || !rejection(*kernel, record.problem, candidate.configuration, device).empty())
    return 0;
  return estimate(plan_of(candidate, record.problem, device), device).seconds * 1e6;
}

std::vector<Comparison> comparisons(const Database& database, const std::string& gpu) {
  std::vector<Comparison> result;
  RecordFilter filter;
  filter.gpu = gpu;
  filter.outcome = Outcome::ok;
  const std::optional<DeviceFacts> facts = database.device(gpu);
  const DeviceInfo device = facts ? device_of(gpu, facts) : nominal_from_key(gpu);
  std::map<std::string, std::size_t> places;
  for (const Record& record : database.records(filter)) {
    if (!record.measurement || !(record.measurement->median_us > 0)) continue;
    const auto [place, fresh] = places.emplace(to_string(record.problem), result.size());
    if (fresh) result.push_back({gpu, record.problem, {}, {}, {}, {}});
    Comparison& comparison = result[place->second];
    if (const double now = predicted_now(record, device); now > 0) {
      comparison.predicted.push_back(now);
      comparison.measured.push_back(record.measurement->median_us);
    }
    if (record.predicted_us > 0) {
      comparison.stored_predicted.push_back(record.predicted_us);
      comparison.stored_measured.push_back(record.measurement->median_us);
    }
  }
  return result;
}

double median_ratio(const Comparison& comparison) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < comparison.predicted.size(); ++i)
    ratios.push_back(comparison.predicted[i] / comparison.measured[i]);
  std::sort(ratios.begin(), ratios.end());
  return ratios.empty() ? std::nan("") : ratios[ratios.size() / 2];
}

/// Speed of the fastest of the kFirst best predicted candidates over that of the fastest of all.
double first_found(const Comparison& comparison) {
  std::vector<std::pair<double, double>> pairs;
  for (std::size_t i = 0; i < comparison.predicted.size(); ++i)
    pairs.emplace_back(comparison.predicted[i], comparison.measured[i]);
  if (pairs.empty()) return std::nan("");
  std::sort(pairs.begin(), pairs.end());
  double first = pairs.front().second, best = first;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    best = std::min(best, pairs[i].second);
    if (i < kFirst) first = std::min(first, pairs[i].second);
  }
  return best / first;
}

std::string number_or_dash(double value, int digits) {
  return std::isfinite(value) ? format_number(value, digits) : "-";
}

Json comparison_json(const Comparison& c) {
  return {{"gpu", c.gpu},
          {"problem", json_of(c.problem)},
          {"records", c.predicted.size()},
          {"rank_correlation", rank_correlation(c.predicted, c.measured)},
          {"predicted_over_measured", median_ratio(c)},
          {"best_of_first_10", first_found(c)},
          {"stored_predictions", c.stored_predicted.size()},
          {"stored_rank_correlation", rank_correlation(c.stored_predicted, c.stored_measured)}};
}

void print(const std::vector<Comparison>& all, const Output& output) {
  Table table({{"GPU", false, true, 3},
               {"problem"},
               {"records", true},
               {"rank correlation", true},
               {"as stored", true, false, 4},
               {"predicted/measured", true, false, 2},
               {"best of first 10", true, false, 1}});
  for (const Comparison& c : all)
    table.add({c.gpu.substr(0, c.gpu.find('|')), table_text(c.problem),
               std::to_string(c.predicted.size()),
               number_or_dash(rank_correlation(c.predicted, c.measured), 3),
               number_or_dash(rank_correlation(c.stored_predicted, c.stored_measured), 3),
               number_or_dash(median_ratio(c), 2),
               std::isfinite(first_found(c)) ? format_percent(first_found(c)) : "-"});
  if (table.empty())
    print_line("no records of a GPU");
  else
    table.print(output);
}

int run(const ModelCommand& options, const Output& output) {
  const Database database = open_to_read(options.database);
  std::vector<Comparison> all;
  for (const std::string& gpu : stored_gpus(database, options.gpu)) {
    if (!can_estimate(nominal_from_key(gpu))) continue;  // the model covers GPUs only
    for (Comparison& comparison : comparisons(database, gpu)) all.push_back(std::move(comparison));
  }
  if (output.json)
    print_document(
        Json{{"database", database.path().string()}, {"model", array_of(all, comparison_json)}});
  else
    print(all, output);
  return kOk;
}

}  // namespace

void add_db_model(CLI::App& db, Selection& selection) {
  add_command<ModelCommand>(db, selection, "model",
                            "How well the cost model ranks what was measured", setup, run);
}

}  // namespace tilewise::cli
