#include "tuner/evaluate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewise {
namespace {

constexpr std::size_t kKeptSamples = 32;
constexpr std::size_t kSamplesToGiveUp = 3;
// Standard error of a median in units of the half interquartile range, for a normal distribution
// and one sample: 1.2533 / 0.6745.
constexpr double kMedianError = 1.858;

}  // namespace

double quantile(std::span<const double> samples, double share) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - std::floor(position)) * (sorted[above] - sorted[below]);
}

double relative_spread(std::span<const double> samples) {
  const double median = quantile(samples, 0.5);
  if (!(median > 0)) return 0;
  return (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / median;
}

bool Sampler::add(double microseconds, double seconds) {
  samples_.push_back(microseconds);
  seconds_ += seconds;
  const std::size_t count = samples_.size();
  if (count >= static_cast<std::size_t>(std::max(1, options_.max_samples))) return true;
  if (best_us_ > 0 && count >= kSamplesToGiveUp &&
      *std::min_element(samples_.begin(), samples_.end()) > kFinalistsWithin * best_us_) {
    return true;
  }
  const bool enough = count >= static_cast<std::size_t>(options_.min_samples);
  if (seconds_ >= options_.max_seconds * (enough ? 1 : 4)) return true;
  return enough &&
         kMedianError * spread() / std::sqrt(static_cast<double>(count)) <= options_.target_spread;
}

Measurement Sampler::measurement() const { return measurement_of(samples_); }

Measurement measurement_of(std::span<const double> samples) {
  Measurement measurement;
  measurement.median_us = quantile(samples, 0.5);
  measurement.spread = relative_spread(samples);
  measurement.samples = static_cast<int>(samples.size());
  const auto kept = samples.first(std::min(samples.size(), kKeptSamples));
  measurement.samples_us.assign(kept.begin(), kept.end());
  return measurement;
}

}  // namespace tilewise
