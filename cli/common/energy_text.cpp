#include "cli/common/energy_text.hpp"

#include <algorithm>
#include <cmath>

#include "cli/common/output.hpp"

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
