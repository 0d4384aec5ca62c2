#include "matmul/resolution.hpp"

#include <nlohmann/json.hpp>

namespace tilewise {

Match match_of(const Resolution& resolution, const Problem& problem) {
  Match match;
  match.kind = resolution.kind;
  match.problem = resolution.record ? resolution.record->problem : problem;
  match.kernel_template = resolution.candidate.kernel_template;
  match.configuration = resolution.candidate.configuration.text();
  if (resolution.record) {
    match.measured_at = resolution.record->environment.date;
    if (const auto& measured = resolution.record->measurement) {
      match.measured_us = measured->median_us;
      match.measured_tflops = tflops_of(match.problem, measured->median_us);
      match.spread = measured->spread;
    }
  }
  match.stale = resolution.stale;
  match.distance = resolution.distance;
  match.predicted_us = resolution.predicted_us;
  match.limited_by = resolution.limited_by;
  match.why = resolution.why;
  match.emulated_runs = static_cast<std::int64_t>(resolution.counts.emulated);
  match.native_runs = static_cast<std::int64_t>(resolution.counts.native);
  return match;
}

std::string to_json(const Resolution& resolution) {
  using Json = nlohmann::ordered_json;
  const std::optional<Record>& record = resolution.record;
  const Json json{{"match", to_string(resolution.kind)},
                  {"distance", resolution.distance},
                  {"stale", resolution.stale},
                  {"why", resolution.why},
                  {"predicted_us", resolution.predicted_us},
                  {"limited_by", resolution.limited_by},
                  {"candidate", Json::parse(to_json(resolution.candidate))},
                  {"record", record ? Json::parse(to_json(*record)) : Json()},
                  {"emulated_runs", resolution.counts.emulated},
                  {"native_runs", resolution.counts.native}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilewise
