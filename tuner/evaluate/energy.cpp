#include "tuner/evaluate/energy.hpp"

namespace tilewise {
namespace {

constexpr double kSpanSeconds = 0.5;

}  // namespace

bool measures_energy(const Device& device) {
  return device.energy_mj().has_value() || device.status().power_w > 0;
}

Error no_energy(const std::string& device, Objective objective) {
  return {ErrorKind::unsupported, "the objective " + std::string(to_string(objective)) +
                                      " needs a GPU whose driver reports its energy or its power "
                                      "(NVML); " +
                                      device +
                                      " reports neither; the objective time needs neither"};
}

std::optional<double> EnergyCounter::read(double seconds) {
  if (const std::optional<double> mj = device_.energy_mj()) return mj;
  const double watts = device_.status().power_w;
  if (!(watts > 0)) return {};
  if (last_seconds_) summed_mj_ += 1e3 * watts * (seconds - *last_seconds_);
  last_seconds_ = seconds;
  return summed_mj_;
}

bool EnergySpan::add(double seconds, double mj, std::int64_t products) {
  const bool first = !counter_;
  const bool changed = !first && mj != counter_->value;
  const bool ended = !first && products != products_;
  counter_ = {seconds, mj};
  products_ = products;
  if (changed) (from_ ? to_ : from_) = counter_;
  if (from_ && ended) (first_ ? last_ : first_) = {seconds, static_cast<double>(products)};
  ended_ = changed && to_ && last_ && to_->seconds - from_->seconds >= kSpanSeconds;
  return ended_;
}

double EnergySpan::mj_per_product() const {
  if (!ended_ || !(to_->value > from_->value)) return 0;
  const double mj_per_second = (to_->value - from_->value) / (to_->seconds - from_->seconds);
  return mj_per_second * (last_->seconds - first_->seconds) / (last_->value - first_->value);
}

}  // namespace tilewise
