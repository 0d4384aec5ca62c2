#include "bench/compare/report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tilewise::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string shape_text(const Problem& problem) {
  return std::string(to_string(problem.layout)) + " " + size_text(problem);
}

/// Columns as wide as their widest cell, the first on the left, numbers on the right.
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

std::vector<std::string> cells_of(const Row& row, const Rates& rates) {
  const Measurement* ours = time_of(row, Player::tuned);
  const std::optional<double> ratio = ratio_of(row);
  const double floor = floor_us(row.problem, rates);
  const bool served = !row.match.candidate.kernel_template.empty();
  return {shape_text(row.problem),
          served ? std::string(to_string(row.match.kind)) : "-",
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
          row.match.stale ? "stale" : ""};
}

std::string summary_text(const Report& report) {
  const Summary summary = summarize(report.rows, report.rates);
  std::string text;
  if (summary.compared > 0) {
    text += "tuned against the better cuBLAS column, " + std::to_string(summary.compared) +
            " shapes: geometric mean " + number(summary.geometric_mean, 3) + "x, minimum " +
            number(summary.minimum, 3) + "x, below 1.00: " + std::to_string(summary.below_100) +
            ", below 0.97: " + std::to_string(summary.below_097) + "\nworst:";
    for (const Row* row : summary.worst)
      text += " " + shape_text(row->problem) + " " + number(ratio_of(*row).value(), 3) + "x;";
    text.back() = '\n';
  }
  const Rates& rates = report.rates;
  if (!(rates.flops > 0) || !(rates.bytes > 0))
    text += "no floor: the device states no peak or no bandwidth; --peak and --copy-rate give them";
  else
    text += "floor: max(2mnk / " + number(rates.flops * 1e-12, 1) + " TFLOP/s, bytes once / " +
            number(rates.bytes * 1e-12, 2) + " TB/s, 2 us), rates " + rates.source;
  if (summary.over_floor > 0)
    text += "; geometric mean of time over it: tuned " + number(summary.over_floor, 3) + "x";
  if (summary.cublas_over_floor > 0)
    text += ", better cuBLAS " + number(summary.cublas_over_floor, 3) + "x";
  text += "\n" + std::to_string(summary.not_exact) + " served without a winner of their own, " +
          std::to_string(summary.failed) + " failed\n";
  return text;
}

/// What is missing, once for each reason.
std::string details_text(const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    if (!row.error.empty()) lines.push_back(shape_text(row.problem) + ": error: " + row.error);
    for (const Column& column : row.columns) {
      if (column.measurement || column.detail.empty() || !row.error.empty()) continue;
      const std::string line = "no " + std::string(to_string(column.player)) + ": " + column.detail;
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json row_json(const Row& row, const Rates& rates) {
  const Measurement* ours = time_of(row, Player::tuned);
  const Measurement* theirs = better_cublas(row);
  const double floor = floor_us(row.problem, rates);
  const bool served = !row.match.candidate.kernel_template.empty();
  Json json;
  json["problem"] = Json::parse(to_json(row.problem));
  json["match"] = served ? Json(to_string(row.match.kind)) : Json(nullptr);
  json["why"] = row.match.why;
  json["stale"] = row.match.stale;
  json["candidate"] = served ? Json::parse(to_json(row.match.candidate)) : Json(nullptr);
  json["columns"] = Json::object();
  for (const Column& column : row.columns) {
    Json& entry = json["columns"][std::string(to_string(column.player))];
    entry["measurement"] =
        column.measurement ? Json::parse(to_json(*column.measurement)) : Json(nullptr);
    entry["error_ratio"] = column.measurement ? Json(column.error_ratio) : Json(nullptr);
    entry["detail"] = column.detail;
  }
  json["tflops"] = ours ? Json(tflops_of(row.problem, ours->median_us)) : Json(nullptr);
  json["better_cublas_us"] = theirs ? Json(theirs->median_us) : Json(nullptr);
  json["ratio"] = or_null(ratio_of(row));
  json["floor_us"] = positive_or_null(floor);
  json["over_floor"] = ours && floor > 0 ? Json(ours->median_us / floor) : Json(nullptr);
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
          {"cublas_over_floor", positive_or_null(summary.cublas_over_floor)}};
}

}  // namespace

std::string table_text(const Report& report) {
  std::vector<std::vector<std::string>> rows{{"shape", "served", "tuned us", "spread", "TFLOP/s",
                                              "cuBLAS us", "pedantic us", "best Lt us", "ratio",
                                              "x floor", "host us", "cuBLAS host us", ""}};
  for (const Row& row : report.rows) rows.push_back(cells_of(row, report.rates));
  return report.envelope.gpu + ", driver " + report.envelope.driver + ", " +
         report.envelope.toolkit + ", commit " + report.envelope.commit + ", " +
         (report.cold ? "cold" : "warm") + ", " + number(report.seconds, 0) + " s\n\n" +
         aligned(rows) + "\n" + summary_text(report) + details_text(report.rows);
}

std::string json_text(const Report& report) {
  const Envelope& envelope = report.envelope;
  Json result;
  result["device"] = Json::parse(to_json(report.device));
  result["timing"] = {{"cold", report.cold}, {"rounds", report.rounds}, {"method", "graph"}};
  result["rates"] = {{"flops", report.rates.flops},
                     {"bytes", report.rates.bytes},
                     {"source", report.rates.source}};
  result["summary"] = summary_json(summarize(report.rows, report.rates));
  result["shapes"] = Json::array();
  for (const Row& row : report.rows) result["shapes"].push_back(row_json(row, report.rates));
  result["notes"] = report.notes;
  const Json document = {{"command", envelope.command},
                         {"commit", envelope.commit},
                         {"date", envelope.date},
                         {"gpu", envelope.gpu},
                         {"driver", envelope.driver},
                         {"toolkit", envelope.toolkit},
                         {"max_sm_clock_mhz", envelope.max_sm_clock_mhz},
                         {"power_limit_w", envelope.power_limit_w},
                         {"seconds", report.seconds},
                         {"result", result}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string progress_text(const Row& row, std::size_t done, std::size_t of) {
  const Measurement* ours = time_of(row, Player::tuned);
  const std::optional<double> ratio = ratio_of(row);
  std::string text = shape_text(row.problem) + "  ";
  if (!row.error.empty())
    text += "error: " + row.error;
  else
    text += time_cell(ours) + " us" + (ratio ? ", " + number(*ratio, 2) + "x cuBLAS" : "");
  return text + " (" + std::to_string(done) + " of " + std::to_string(of) + ")";
}

}  // namespace tilewise::bench
