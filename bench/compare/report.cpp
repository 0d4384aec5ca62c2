#include "bench/compare/report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/compare/kinds.hpp"
#include "bench/compare/shapes.hpp"

namespace tilewise::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Pads columns to their widest cell: the first left-aligned, numbers right-aligned.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      text += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    text += '\n';
  }
  return text;
}

std::string time_cell(const Measurement* time) { return time ? number(time->median_us, 2) : "-"; }
std::string host_cell(const Measurement* time) {
  return time && time->host_us > 0 ? number(time->host_us, 1) : "-";
}

std::string remark_of(const Row& row) {
  std::string text = row.resolution.stale ? "stale" : "";
  if (!row.problem.epilogue) return text;
  text += (text.empty() ? "" : ", ") + epilogue_text(row.problem);
  const std::optional<double> over = over_bare(row);
  if (over)
    text += ": " + number(*over, 3) + "x of " + time_cell(time_of(row, Player::bare)) +
            " us without it";
  return text;
}

std::vector<std::string> cells_of(const Row& row, const Rates& rates) {
  const Measurement* ours = time_of(row, Player::tuned);
  const std::optional<double> ratio = ratio_of(row);
  const double floor = floor_us(row.problem, rates);
  const bool served = !row.resolution.candidate.kernel_template.empty();
  return {shape_text(row.problem),
          served ? std::string(to_string(row.resolution.kind)) : "-",
          time_cell(ours),
          ours ? number(100 * ours->spread, 2) + "%" : "-",
          ours ? number(tflops_of(row.problem, ours->median_us), 2) : "-",
          time_cell(time_of(row, Player::cublas)),
          time_cell(time_of(row, Player::cublas_pedantic)),
          time_cell(time_of(row, Player::cublas_lt)),
          ratio ? number(*ratio, 2) + "x" : "-",
          ours && floor > 0 ? number(ours->median_us / floor, 2) + "x" : "-",
          host_cell(ours),
          host_cell(time_of(row, Player::cublas)),
          remark_of(row)};
}

std::string compared_text(const Summary& summary) {
  if (summary.compared == 0) return "";
  std::string text = "tuned against the better cuBLAS column, " + std::to_string(summary.compared) +
                     " shapes: geometric mean " + number(summary.geometric_mean, 3) +
                     "x, minimum " + number(summary.minimum, 3) +
                     "x, below 1.00: " + std::to_string(summary.below_100) +
                     ", below 0.97: " + std::to_string(summary.below_097) + "\nworst:";
  for (const Row* row : summary.worst)
    text += " " + shape_text(row->problem) + " " + number(ratio_of(*row).value(), 3) + "x;";
  text.back() = '\n';
  return text;
}

std::string floor_text(const Section& section, const Summary& summary) {
  const Rates& rates = section.rates;
  if (!(rates.flops > 0) || !(rates.bytes > 0))
    return "no floor: the device states no such peak or no bandwidth; --peak and --copy-rate give "
           "them\n";
  std::string text = "floor: max(2mnk / " + number(rates.flops * 1e-12, 1) + " " +
                     rate_unit(*section.kind) + ", bytes once / " + number(rates.bytes * 1e-12, 2) +
                     " TB/s, 2 us), rates " + rates.source;
  if (summary.over_floor > 0)
    text += "; geometric mean of time over it: tuned " + number(summary.over_floor, 3) + "x";
  if (summary.cublas_over_floor > 0)
    text += ", better cuBLAS " + number(summary.cublas_over_floor, 3) + "x";
  return text + "\n";
}

std::string summary_text(const Section& section) {
  const Summary summary = summarize(section.rows, section.rates);
  std::string text = compared_text(summary) + floor_text(section, summary);
  if (summary.error_over_strict > 0)
    text += "norm-wise error over that of strict f32 on the same data: " +
            number(summary.error_over_strict, 2) + "x at most\n";
  return text + std::to_string(summary.not_exact) + " served without a winner of their own, " +
         std::to_string(summary.failed) + " failed\n";
}

/// Missing or remarkable results, each reason once, with the first shape that it applies to.
std::string details_text(const std::vector<Row>& rows) {
  std::vector<std::string> seen;
  std::string text;
  for (const Row& row : rows) {
    const std::string shape = shape_text(row.problem) + ": ";
    if (!row.error.empty()) text += shape + "error: " + row.error + "\n";
    for (const Column& column : row.columns) {
      if (column.detail.empty() || !row.error.empty()) continue;
      const bool lt = column.player == Player::cublas_lt;
      if (column.measurement && lt) continue;  // cublasLt's detail is the name of its candidate
      const std::string reason = (column.measurement ? "" : "no ") +
                                 std::string(to_string(column.player)) + ": " + column.detail;
      if (std::find(seen.begin(), seen.end(), reason) != seen.end()) continue;
      seen.push_back(reason);
      text += shape + reason + "\n";
    }
  }
  return text;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json row_json(const Row& row, const Rates& rates) {
  const Measurement* ours = time_of(row, Player::tuned);
  const Measurement* theirs = better_cublas(row);
  const double floor = floor_us(row.problem, rates);
  const bool served = !row.resolution.candidate.kernel_template.empty();
  Json json;
  json["problem"] = Json::parse(to_json(row.problem));
  json["match"] = served ? Json(to_string(row.resolution.kind)) : Json(nullptr);
  json["why"] = row.resolution.why;
  json["stale"] = row.resolution.stale;
  json["candidate"] = served ? Json::parse(to_json(row.resolution.candidate)) : Json(nullptr);
  json["columns"] = Json::object();
  for (const Column& column : row.columns) {
    Json& entry = json["columns"][std::string(to_string(column.player))];
    entry["measurement"] =
        column.measurement ? Json::parse(to_json(*column.measurement)) : Json(nullptr);
    entry["error_ratio"] = column.measurement ? Json(column.error_ratio) : Json(nullptr);
    entry["normwise_error"] = column.measurement ? Json(column.normwise_error) : Json(nullptr);
    entry["detail"] = column.detail;
  }
  json["tflops"] = ours ? Json(tflops_of(row.problem, ours->median_us)) : Json(nullptr);
  json["better_cublas_us"] = theirs ? Json(theirs->median_us) : Json(nullptr);
  json["ratio"] = or_null(ratio_of(row));
  json["floor_us"] = positive_or_null(floor);
  json["over_floor"] = ours && floor > 0 ? Json(ours->median_us / floor) : Json(nullptr);
  json["error_over_strict"] = or_null(error_over_strict(row));
  if (row.problem.epilogue) json["over_bare"] = or_null(over_bare(row));
  json["error"] = row.error.empty() ? Json(nullptr) : Json(row.error);
  return json;
}

Json summary_json(const Summary& summary) {
  Json worst = Json::array();
  for (const Row* row : summary.worst)
    worst.push_back({{"problem", Json::parse(to_json(row->problem))}, {"ratio", *ratio_of(*row)}});
  return {{"compared", summary.compared},
          {"failed", summary.failed},
          {"not_exact", summary.not_exact},
          {"geometric_mean", positive_or_null(summary.geometric_mean)},
          {"minimum", positive_or_null(summary.minimum)},
          {"worst", worst},
          {"below_1_00", summary.below_100},
          {"below_0_97", summary.below_097},
          {"over_floor", positive_or_null(summary.over_floor)},
          {"cublas_over_floor", positive_or_null(summary.cublas_over_floor)},
          {"error_over_strict", positive_or_null(summary.error_over_strict)}};
}

/// The heading of a kind's table.
std::string heading_of(const ProductKind& kind) {
  std::string text = kind_name(kind) + ": C of " + std::string(to_string(kind.c)) + ", sums in " +
                     std::string(to_string(kind.accumulator));
  if (kind.math == MathMode::f32x3)
    text += "; the cuBLAS columns are its strict f32, the nearest that it has";
  if (is_fp8(kind.a))
    text += kind.math == MathMode::fast ? "; fast accumulation on both sides"
                                        : "; fast accumulation off on both sides";
  return text + "\n";
}

std::string section_text(const Section& section) {
  std::vector<std::vector<std::string>> rows{
      {"shape", "served", "tuned us", "spread", rate_unit(*section.kind), "cuBLAS us",
       "pedantic us", "best Lt us", "ratio", "x floor", "host us", "cuBLAS host us", ""}};
  for (const Row& row : section.rows) rows.push_back(cells_of(row, section.rates));
  return heading_of(*section.kind) + aligned(rows) + "\n" + summary_text(section) +
         details_text(section.rows);
}

Json section_json(const Section& section) {
  Json json;
  json["kind"] = kind_name(*section.kind);
  json["rates"] = {{"flops", section.rates.flops},
                   {"bytes", section.rates.bytes},
                   {"source", section.rates.source}};
  json["shapes"] = Json::array();
  for (const Row& row : section.rows) json["shapes"].push_back(row_json(row, section.rates));
  json["summary"] = summary_json(summarize(section.rows, section.rates));
  return json;
}

}  // namespace

std::string table_text(const Report& report) {
  std::string text = report.device.name + ", driver " + report.driver + ", " + report.toolkit +
                     ", " + (report.cold ? "cold" : "warm") + ", " + number(report.seconds, 0) +
                     " s\n";
  for (const Section& section : report.sections) text += "\n" + section_text(section);
  return text;
}

std::string json_text(const Report& report) {
  Json result;
  result["device"] = Json::parse(to_json(report.device));
  result["driver"] = report.driver;
  result["toolkit"] = report.toolkit;
  result["timing"] = {{"cold", report.cold}, {"rounds", report.rounds}, {"method", "graph"}};
  result["kinds"] = Json::array();
  for (const Section& section : report.sections) result["kinds"].push_back(section_json(section));
  result["notes"] = report.notes;
  return result.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string progress_text(const Row& row, std::size_t done, std::size_t of) {
  const Measurement* ours = time_of(row, Player::tuned);
  const std::optional<double> ratio = ratio_of(row);
  std::string text = kind_name(row.problem) + " " + shape_text(row.problem) + "  ";
  if (!row.error.empty())
    text += "error: " + row.error;
  else
    text += time_cell(ours) + " us" + (ratio ? ", " + number(*ratio, 2) + "x cuBLAS" : "");
  return text + " (" + std::to_string(done) + " of " + std::to_string(of) + ")";
}

}  // namespace tilewise::bench
