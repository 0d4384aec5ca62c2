#include "cli/measure/ladder_report.hpp"

#include <algorithm>

#include "cli/common/json.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise::cli {
namespace {

Json rung_json(const Ladder& ladder, std::size_t index) {
  const Rung& rung = ladder.rungs[index];
  Json json;
  json["rung"] = index + 1;
  json["name"] = rung.name;
  json["what"] = rung.what;
  json["arithmetic"] = rung.arithmetic;
  json["candidate"] = rung.candidate ? json_of(*rung.candidate) : Json(nullptr);
  json["outcome"] = to_string(rung.outcome);
  json["detail"] = rung.detail;
  json["measurement"] = rung.measurement ? json_of(*rung.measurement) : Json(nullptr);
  json["tflops"] = positive_or_null(tflops_of(ladder, rung));
  json["times_before"] = positive_or_null(times_before(ladder, index));
  const auto before = rung_before(ladder, index);
  json["before"] = before ? Json(*before + 1) : Json(nullptr);
  json["share_of_peak"] = positive_or_null(share_of_peak(ladder, rung));
  json["bytes_per_flop"] = positive_or_null(rung.bytes_per_flop);
  json["error_ratio"] = rung.error_ratio ? Json(*rung.error_ratio) : Json(nullptr);
  json["normwise_error"] = rung.normwise_error ? Json(*rung.normwise_error) : Json(nullptr);
  return json;
}

/// "1.35x", with the number of the compared rung unless it is the rung above.
std::string speedup_text(const Ladder& ladder, std::size_t index) {
  const double times = times_before(ladder, index);
  if (!(times > 0)) return "-";
  const std::size_t before = *rung_before(ladder, index);
  const std::string text = format_number(times, 2) + "x";
  return before + 1 == index ? text : text + " (" + std::to_string(before + 1) + ")";
}

/// The unit for all rates of the ladder.
RateUnit rate_unit(const Ladder& ladder) {
  double largest = 0;
  for (const Rung& rung : ladder.rungs) largest = std::max(largest, tflops_of(ladder, rung));
  return RateUnit(largest);
}

std::vector<std::string> row_of(const Ladder& ladder, std::size_t index) {
  const Rung& rung = ladder.rungs[index];
  const double tflops = tflops_of(ladder, rung), share = share_of_peak(ladder, rung);
  return {std::to_string(index + 1),
          rung.name,
          rung.measurement ? format_microseconds(rung.measurement->median_us)
                           : std::string(to_string(rung.outcome)),
          tflops > 0 ? rate_unit(ladder).number(tflops) : "-",
          speedup_text(ladder, index),
          share > 0 ? format_percent(share) : "-",
          rung.bytes_per_flop > 0 ? format_number(rung.bytes_per_flop, 3) : "-",
          rung.error_ratio ? format_number(*rung.error_ratio, 4) : "-",
          rung.normwise_error ? in_exponent_form(*rung.normwise_error, 1) : "-",
          rung.detail.empty() ? rung.what : rung.detail};
}

}  // namespace

void print_ladder(const Ladder& ladder, const Output& output) {
  print_line(to_string(ladder.problem) + " on " + ladder.device.name +
             (ladder.cold ? ", cold" : ", warm"));
  const RateUnit unit = rate_unit(ladder);
  Table table({{"rung", true},
               {"name"},
               {"time", true},
               {unit.name(), true},
               {"speedup", true, false, 1},
               {"of f32 peak", true, false, 2},
               {"bytes/flop", true, false, 3},
               {"error/bound", true, false, 4},
               {"norm-wise error", true, false, 5},
               {"", false, true, 6}});
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) table.add(row_of(ladder, i));
  if (const double peak = peak_tflops(ladder); peak > 0)
    table.add({"", "f32 peak", "-", unit.number(peak), "-", format_percent(1), "-", "-", "-",
               "multiprocessors x lanes x 2 x clock"});
  table.print(output);
}

Json ladder_json(const Ladder& ladder) {
  Json document;
  document["device"] = json_of(ladder.device);
  document["gpu"] = gpu_key(ladder.device);
  document["problem"] = json_of(ladder.problem);
  document["cold"] = ladder.cold;
  document["peak_tflops"] = positive_or_null(peak_tflops(ladder));
  document["seconds"] = ladder.seconds;
  document["rungs"] = Json::array();
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i)
    document["rungs"].push_back(rung_json(ladder, i));
  document["interrupted"] = ladder.interrupted;
  return document;
}

}  // namespace tilewise::cli
