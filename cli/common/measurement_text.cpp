#include "cli/common/measurement_text.hpp"

#include <algorithm>
#include <cmath>

#include "cli/common/json.hpp"

namespace tilewise::cli {
namespace {

/// The energy in millijoules with `digits` significant digits and a unit.
std::string rounded_energy(double mj, int digits) {
  const double scale = mj < 1 ? 1e3 : mj < 1e3 ? 1 : 1e-3;
  const double value = mj * scale;
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(value)));
  const double step = std::pow(10.0, -decimals);
  return format_number(std::round(value / step) * step, std::max(0, decimals)) + (mj < 1 ? " uJ"
                                                                                  : mj < 1e3
                                                                                      ? " mJ"
                                                                                      : " J");
}

}  // namespace

std::string certainty_text(const Certainty& certainty) {
  std::string text = "fastest of " + std::to_string(certainty.rivals + 1) +
                     " in the race with a probability of " + format_percent(certainty.fastest) +
                     " or more; ";
  if (certainty.alike == 0) return text + "no other is faster (95% confidence)";
  return text + std::to_string(certainty.alike) + " may be as fast, none is faster by more than " +
         format_percent(certainty.gain_at_most) + " (95% confidence)";
}

Json certainty_json(const Certainty& certainty) {
  return {{"rivals", certainty.rivals},
          {"alike", certainty.alike},
          {"rounds", certainty.rounds},
          {"fastest", certainty.fastest},
          {"gain_at_most", certainty.gain_at_most}};
}

std::string energy_text(const Measurement& measurement) {
  if (measurement.energy_mj > 0 && std::isfinite(measurement.energy_mj))
    return rounded_energy(measurement.energy_mj, 3);
  const double estimated = estimated_energy_mj(measurement);
  return estimated > 0 && std::isfinite(estimated) ? "about " + rounded_energy(estimated, 2) : "-";
}

std::string power_limit_text(const Measurement& measurement) {
  return measurement.power_limit_w > 0 ? format_number(measurement.power_limit_w, 0) + " W" : "-";
}

}  // namespace tilewise::cli
