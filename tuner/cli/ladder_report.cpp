#include "tuner/cli/ladder_report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tilewise::cli {
namespace {

using Json = nlohmann::ordered_json;

Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

double share_of_peak(const Ladder& ladder, const Rung& rung) {
  const double peak = peak_flops(ladder.device);
  return peak > 0 ? rate_of(ladder, rung) / peak : 0;
}

Json rung_json(const Ladder& ladder, std::size_t index) {
  const Rung& rung = ladder.rungs[index];
  Json json;
  json["rung"] = index + 1;
  json["name"] = rung.name;
  json["what"] = rung.what;
  json["candidate"] = rung.candidate ? Json::parse(to_json(*rung.candidate)) : Json(nullptr);
  json["outcome"] = to_string(rung.outcome);
  json["detail"] = rung.detail;
  json["measurement"] = rung.measurement ? Json::parse(to_json(*rung.measurement)) : Json(nullptr);
  json["flops"] = positive_or_null(rate_of(ladder, rung));
  json["times_before"] = positive_or_null(times_before(ladder, index));
  json["share_of_peak"] = positive_or_null(share_of_peak(ladder, rung));
  json["bytes_per_flop"] = positive_or_null(rung.bytes_per_flop);
  json["error_ratio"] = rung.error_ratio ? Json(*rung.error_ratio) : Json(nullptr);
  json["normwise_error"] = rung.normwise_error ? Json(*rung.normwise_error) : Json(nullptr);
  return json;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::vector<std::string> row_of(const Ladder& ladder, std::size_t index) {
  const Rung& rung = ladder.rungs[index];
  const double rate = rate_of(ladder, rung), before = times_before(ladder, index);
  const double share = share_of_peak(ladder, rung);
  return {std::to_string(index + 1),
          rung.name,
          rung.measurement ? format_microseconds(rung.measurement->median_us)
                           : std::string(to_string(rung.outcome)),
          rate > 0 ? format_number(rate * 1e-9, 1) : "-",
          before > 0 ? format_number(before, 2) + "x" : "-",
          share > 0 ? format_percent(share) : "-",
          rung.bytes_per_flop > 0 ? format_number(rung.bytes_per_flop, 3) : "-",
          rung.error_ratio ? format_number(*rung.error_ratio, 4) : "-",
          rung.normwise_error ? scientific(*rung.normwise_error) : "-",
          rung.detail.empty() ? rung.what : rung.detail};
}

}  // namespace

double rate_of(const Ladder& ladder, const Rung& rung) {
  if (!rung.measurement || !(rung.measurement->median_us > 0)) return 0;
  return flops_of(ladder.problem) / (rung.measurement->median_us * 1e-6);
}

double times_before(const Ladder& ladder, std::size_t index) {
  const double rate = rate_of(ladder, ladder.rungs[index]);
  for (std::size_t before = index; before-- > 0;)
    if (const double slower = rate_of(ladder, ladder.rungs[before]); slower > 0)
      return rate / slower;
  return 0;
}

void print_ladder(const Ladder& ladder, const Output& output) {
  print_line(to_string(ladder.problem) + " on " + ladder.device.name +
             (ladder.cold ? ", cold" : ", warm"));
  Table table({{"rung", true},
               {"name"},
               {"time", true},
               {"GFLOP/s", true},
               {"before", true, false, 1},
               {"of peak", true, false, 2},
               {"bytes/flop", true, false, 3},
               {"error/bound", true, false, 4},
               {"norm error", true, false, 5},
               {"", false, true, 6}});
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) table.add(row_of(ladder, i));
  if (const double peak = peak_flops(ladder.device); peak > 0)
    table.add({"", "peak", "-", format_number(peak * 1e-9, 1), "-", format_percent(1), "-", "-",
               "-", "multiprocessors x lanes x 2 x clock"});
  table.print(output);
}

std::string ladder_json(const Ladder& ladder) {
  Json document;
  document["device"] = Json::parse(to_json(ladder.device));
  document["gpu"] = gpu_key(ladder.device);
  document["problem"] = Json::parse(to_json(ladder.problem));
  document["cold"] = ladder.cold;
  document["peak_flops"] = positive_or_null(peak_flops(ladder.device));
  document["seconds"] = ladder.seconds;
  document["rungs"] = Json::array();
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i)
    document["rungs"].push_back(rung_json(ladder, i));
  document["interrupted"] = ladder.interrupted;
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilewise::cli
