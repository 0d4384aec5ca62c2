// The data of the page. A column of numbers is a string of values between blanks, rounded to the
// precision of the figures: 100,000 candidates take some 6 MB.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "cli/common/json.hpp"
#include "cli/common/measurement_text.hpp"
#include "cli/report/report_page.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/candidate_text.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string dump(const Json& json) {
  return script_safe(json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

double rounded(double value, int digits) {
  return number_in<double>(in_digits(value, digits)).value_or(value);
}

/// Numbers as text with blanks between; an empty value is not known.
class NumberText {
 public:
  void add(double value, int digits) {
    begin();
    if (!std::isfinite(value)) return;
    const std::string text = in_digits(value, digits);
    const std::string whole = in_decimals(rounded(value, digits), 0);
    const bool exponent = text.find('e') != std::string::npos;
    text_ += exponent && std::abs(value) > 1 && whole.size() <= text.size() ? whole : text;
  }
  void add_known(double value, int digits) { add(value > 0 ? value : std::nan(""), digits); }
  const std::string& text() const { return text_; }

 private:
  void begin() {
    if (begun_) text_ += ' ';
    begun_ = true;
  }
  std::string text_;
  bool begun_ = false;
};

/// Indices as one character each, or as numbers where there are more values than characters.
Json indices_json(const std::vector<std::size_t>& indices, std::size_t values) {
  if (values <= kDigits.size()) {
    std::string text;
    for (const std::size_t i : indices) text += kDigits[i];
    return text;
  }
  return indices;
}

/// The index of each candidate's value in the catalog, by parameter. Empty where a candidate has a
/// parameter or a value that the catalog lacks.
std::optional<std::vector<std::vector<std::size_t>>> catalog_indices(
    const KernelTemplate& kernel, const std::vector<const ReportCandidate*>& of_it) {
  std::vector<std::vector<std::size_t>> indices(kernel.parameters.size());
  for (const ReportCandidate* one : of_it) {
    const Configuration whole = with_added(kernel, one->record.candidate.configuration);
    if (!bad_values(kernel, whole).empty()) return std::nullopt;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::vector<int>& values = kernel.parameters[i].values;
      const auto found =
          std::find(values.begin(), values.end(), whole.at(kernel.parameters[i].name));
      indices[i].push_back(static_cast<std::size_t>(found - values.begin()));
    }
  }
  return indices;
}

/// Candidates with parameters or values that the catalog lacks: the values of each parameter, and
/// each candidate's index into them.
Json unknown_template_json(const std::string& name,
                           const std::vector<const ReportCandidate*>& of_it) {
  std::map<std::string, std::map<int, std::size_t>> values;  // per parameter, value to index
  for (const ReportCandidate* one : of_it)
    for (const auto& [parameter, value] : one->record.candidate.configuration.values())
      values[parameter].emplace(value, 0);
  Json parameters = Json::array();
  for (auto& [parameter, known] : values) {
    Json list = Json::array();
    for (auto& [value, index] : known) index = list.size(), list.push_back(value);
    std::vector<std::size_t> indices;
    bool partly = false;
    for (const ReportCandidate* one : of_it) {
      const int* value = one->record.candidate.configuration.find(parameter);
      partly |= value == nullptr;
      indices.push_back(value ? known.at(*value) : known.size());
    }
    if (partly) list.push_back(nullptr);  // candidates that lack the parameter
    parameters.push_back(
        {{"name", parameter}, {"values", list}, {"of", indices_json(indices, list.size())}});
  }
  return {{"name", name}, {"parameters", parameters}};
}

/// Candidates of one template: for each parameter of the catalog, in its order, the index of each
/// candidate's value; one index where all are the same.
Json template_json(const std::string& name, const std::vector<const ReportCandidate*>& of_it) {
  const KernelTemplate* kernel = known_template(name);
  const auto indices = kernel ? catalog_indices(*kernel, of_it) : std::nullopt;
  if (!indices) return unknown_template_json(name, of_it);
  Json columns = Json::array();
  for (std::size_t i = 0; i < indices->size(); ++i) {
    std::vector<std::size_t> column = (*indices)[i];
    if (std::adjacent_find(column.begin(), column.end(), std::not_equal_to<>()) == column.end())
      column.resize(std::min<std::size_t>(1, column.size()));
    columns.push_back(indices_json(column, kernel->parameters[i].values.size()));
  }
  return {{"name", name}, {"of", columns}};
}

Json columns_json(const ReportProblem& problem, const std::vector<std::string>& templates) {
  NumberText us, spread, seconds, place, search, registers, spill, shared, intensity, predicted,
      blocks, occupancy;
  std::vector<std::size_t> of_template, outcome;
  bool thinned = std::ssize(problem.candidates) < problem.records;
  for (const ReportCandidate& one : problem.candidates) {
    const Record& record = one.record;
    for (std::size_t i = 0; i < templates.size(); ++i)
      if (templates[i] == record.candidate.kernel_template) of_template.push_back(i);
    outcome.push_back(static_cast<std::size_t>(record.outcome));
    us.add_known(record.measurement ? record.measurement->median_us : 0, 5);
    spread.add(record.measurement ? 100 * record.measurement->spread : std::nan(""), 2);
    seconds.add(one.seconds >= 0 ? one.seconds : std::nan(""), 6);
    search.add(one.search >= 0 ? one.search : std::nan(""), 6);
    if (thinned) place.add(static_cast<double>(one.place), 9);
    registers.add_known(record.usage.registers, 4);
    spill.add_known(record.usage.spill_bytes, 6);
    shared.add_known(one.shared_bytes, 7);
    intensity.add_known(one.flops_per_byte, 3);
    predicted.add_known(record.predicted_us, 3);
    blocks.add_known(one.resident_blocks, 3);
    occupancy.add_known(std::round(100 * one.occupancy), 3);
  }
  // The order is that of COLUMNS in page/problem.js.
  return {indices_json(of_template, templates.size()),
          indices_json(outcome, 5),
          us.text(),
          spread.text(),
          seconds.text(),
          search.text(),
          place.text(),
          registers.text(),
          spill.text(),
          shared.text(),
          intensity.text(),
          predicted.text(),
          blocks.text(),
          occupancy.text()};
}

Json dim_json(const Dim3& dim) { return {dim.x, dim.y, dim.z}; }

Json plan_json(const Plan& plan) {
  Json steps = Json::array();
  for (const LaunchStep& step : plan.steps)
    steps.push_back({to_string(step.role), step.kernel.entry, dim_json(step.grid),
                     dim_json(step.block), dim_json(step.cluster), step.shared_bytes});
  return {{"steps", steps},
          {"workspace", plan.workspace_bytes},
          {"issued_flops", rounded(plan.work.issued_flops, 6)},
          {"global_bytes", rounded(plan.work.global_bytes, 6)},
          {"shared_bytes", rounded(plan.work.shared_bytes, 6)}};
}

Json winner_json(const ReportProblem& problem, ReportStrings& strings) {
  if (!problem.winner) return nullptr;
  const ReportCandidate& one = problem.candidates[*problem.winner];
  const Record& record = one.record;
  const Measurement measured = record.measurement.value_or(Measurement{});
  Json tiles = Json::array();
  for (const TileLevel& level : one.tiles)
    tiles.push_back({level.name, level.m, level.n, strings.number(level.note)});
  Json json{{"index", *problem.winner},
            {"tiles", tiles},
            {"occupancy_limit", one.occupancy_limit},
            {"static_shared", record.usage.static_shared_bytes},
            {"stack", record.usage.stack_bytes},
            {"clock_mhz", measured.sm_clock_mhz},
            {"power_w", rounded(measured.power_w, 4)},
            {"power_limit_w", rounded(measured.power_limit_w, 4)},
            {"energy", energy_text(measured)},
            {"objective", to_string(problem.objective)},
            {"cold", measured.cold},
            {"samples", measured.samples},
            {"error_ratio", rounded(record.error_ratio, 3)},
            {"normwise_error", rounded(record.normwise_error, 3)},
            {"origin", to_string(record.origin)},
            {"driver", strings.number(record.environment.driver)},
            {"date", record.environment.date},
            {"quarantined", problem.quarantined}};
  if (!problem.limit.empty()) json["limit"] = problem.limit;
  json["plan"] = one.plan ? plan_json(*one.plan) : Json();
  return json;
}

/// The index of a roof list, deduplicated by its JSON.
std::size_t roofs_number(const std::vector<Roof>& roofs, ReportStrings& strings) {
  Json json = Json::array();
  for (const Roof& roof : roofs)
    json.push_back({{"name", roof.name}, {"rate", rounded(roof.rate, 5)}});
  return strings.number(json.dump());
}

Json rejections_json(const ReportProblem& problem, ReportStrings& strings) {
  Json json = Json::array();
  for (const Rejection& one : problem.rejections)
    json.push_back({static_cast<int>(one.outcome), strings.number(one.kernel_template),
                    strings.number(one.reason), one.example == one.reason ? "" : one.example,
                    one.count});
  return json;
}

Json searches_json(const ReportProblem& problem, ReportStrings& strings) {
  Json json = Json::array();
  for (const Search& search : problem.searches)
    json.push_back({strings.number(search.strategy), std::to_string(search.seed),
                    rounded(search.seconds, 4), search.date});
  return json;
}

Json prices_json(const ReportProblem& problem) {
  return array_of(problem.prices, [](const OrderPrice& price) {
    return Json{
        std::string(to_string(layout_of(price.problem))) + " " + size_text(price.problem) +
            (price.problem.batch != 1 ? " batch " + std::to_string(price.problem.batch) : ""),
        rounded(price.us, 5), price.free_us > 0 ? Json(rounded(price.free_us, 5)) : Json()};
  });
}

Json baselines_json(const ReportProblem& problem, ReportStrings& strings) {
  Json json = Json::array();
  for (const Baseline& baseline : problem.baselines)
    json.push_back({strings.number(baseline.library + " " + baseline.version),
                    strings.number(baseline.variant), rounded(baseline.measurement.median_us, 5),
                    rounded(100 * baseline.measurement.spread, 2), baseline.environment.date});
  return json;
}

}  // namespace

std::string script_safe(std::string json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

std::size_t ReportStrings::number(const std::string& text) {
  const auto [place, fresh] = numbers_.emplace(text, texts_.size());
  if (fresh) texts_.push_back(text);
  return place->second;
}

std::string ReportStrings::json() const { return dump(Json(texts_)); }

std::string catalog_json() {
  Json json = Json::object();
  for (const KernelTemplate& kernel : catalog()) {
    Json& parameters = json[kernel.name] = Json::array();
    for (const Parameter& parameter : kernel.parameters) {
      Json described{
          {"name", parameter.name}, {"help", parameter.help}, {"values", parameter.values}};
      if (const int* plain = plain_value(parameter)) described["plain"] = *plain;
      for (std::size_t i = 0; i < parameter.labels.size(); ++i)
        described["labels"][std::to_string(parameter.values[i])] = parameter.labels[i];
      parameters.push_back(described);
    }
  }
  return dump(json);
}

std::string overview_json(const ReportProblem& problem) {
  const Problem& p = problem.problem;
  Json row{problem.gpu,
           to_string(layout_of(p)),
           p.m,
           p.n,
           p.k,
           kind_text(p) + (is_grouped(p) ? " grouped by " + grouping_text(p) : "") +
               (p.epilogue ? " epilogue " + epilogue_text(p) : "") +
               (p.order ? " order " + order_text(p) : ""),
           p.batch,
           alignment_text(alignment_of(p)),
           problem.records,
           problem.rejected};
  const Record* winner = problem.winner ? &problem.candidates[*problem.winner].record : nullptr;
  const double us = winner && winner->measurement ? winner->measurement->median_us : 0;
  if (us > 0) {
    const double roof = roof_us(problem);
    row.insert(row.end(), {rounded(us, 5), rounded(100 * winner->measurement->spread, 2),
                           rounded(tflops_of(p, us), 5), short_text(winner->candidate),
                           roof > 0 ? Json(rounded(roof / us, 4)) : Json()});
  } else {
    row.insert(row.end(), {nullptr, nullptr, nullptr, nullptr, nullptr});
  }
  if (problem.baselines.empty()) {
    row.insert(row.end(), {nullptr, nullptr});
  } else {
    const Baseline& fastest = problem.baselines.front();
    row.push_back(rounded(fastest.measurement.median_us, 5));
    row.push_back(fastest.library + " " + fastest.version + ", " + fastest.variant);
  }
  row.push_back(problem.quarantined);
  return dump(row);
}

std::string details_json(const ReportProblem& problem, ReportStrings& strings) {
  std::vector<std::string> templates;
  std::map<std::string, std::vector<const ReportCandidate*>> by_template;
  for (const ReportCandidate& one : problem.candidates)
    by_template[one.record.candidate.kernel_template].push_back(&one);
  Json template_list = Json::array();
  for (const auto& [name, of_it] : by_template) {
    templates.push_back(name);
    template_list.push_back(template_json(name, of_it));
  }
  return dump({{"records", problem.records},
               {"flops", flops_of(problem.problem)},
               {"bytes", expected_bytes(problem.problem)},
               {"templates", template_list},
               {"columns", columns_json(problem, templates)},
               {"searches", searches_json(problem, strings)},
               {"baselines", baselines_json(problem, strings)},
               {"winner", winner_json(problem, strings)},
               {"prices", prices_json(problem)},
               {"rejections", rejections_json(problem, strings)},
               {"other_rejections", problem.other_rejections},
               {"roofs", roofs_number(problem.compute_roofs, strings)},
               {"memories", roofs_number(problem.memory_roofs, strings)}});
}

}  // namespace tilewise::cli
