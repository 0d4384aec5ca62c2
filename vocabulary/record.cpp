#include "vocabulary/record.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "vocabulary/enum_names.hpp"

namespace tilewise {
namespace {

// On-disk names, in the order of the enum: never rename one.
constexpr std::array<std::string_view, 5> kOutcomes{"ok", "compile_error", "launch_error",
                                                    "wrong_result", "timeout"};
constexpr std::array<std::string_view, 3> kOrigins{"measured", "imported", "shipped"};

}  // namespace

std::string_view to_string(Outcome outcome) {
  return kOutcomes.at(static_cast<std::size_t>(outcome));
}

Outcome parse_outcome(std::string_view name) { return parse_named<Outcome>(name, "outcome"); }

std::string_view to_string(Origin origin) { return kOrigins.at(static_cast<std::size_t>(origin)); }

Origin parse_origin(std::string_view name) { return parse_named<Origin>(name, "origin"); }

double fastest_us(const std::vector<Baseline>& baselines) {
  double fastest = 0;
  for (const Baseline& baseline : baselines)
    if (const double us = baseline.measurement.median_us; us > 0 && (fastest == 0 || us < fastest))
      fastest = us;
  return fastest;
}

double estimated_energy_mj(const Measurement& measurement) {
  return measurement.power_w > 0 ? measurement.power_w * measurement.median_us * 1e-3 : 0;
}

double tflops_of(const Problem& problem, double microseconds) {
  return microseconds > 0 ? flops_of(problem) / microseconds * 1e-6 : 0;
}

bool is_ok(const Record& record) {
  return record.outcome == Outcome::ok && record.measurement && record.measurement->median_us > 0 &&
         std::isfinite(record.measurement->median_us);
}

double time_of(const Record& record) {
  return is_ok(record) ? record.measurement->median_us : std::numeric_limits<double>::infinity();
}

bool faster(const Record& x, const Record& y) { return time_of(x) < time_of(y); }

}  // namespace tilewise
