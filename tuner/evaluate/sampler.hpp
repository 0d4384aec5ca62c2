#pragma once
#include <span>
#include <vector>

#include "tuner/evaluate/evaluator.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// The value below which a share of the samples lies (linear between neighbours). NaN when empty.
double quantile(std::span<const double> samples, double share);
/// Half the interquartile range over the median.
double relative_spread(std::span<const double> samples);

/// Decides when a time is known well enough. A function of plain numbers, without clock or device.
class Sampler {
 public:
  /// `best_us`: the best time so far, 0 = none.
  Sampler(const TimingOptions& options, double best_us) : options_(options), best_us_(best_us) {}

  /// Adds one sample: microseconds per product, and the seconds that the sample took. True when
  /// enough:
  /// - the median's standard error, 1.86 spread / sqrt(samples), is within the target, after
  ///   min_samples;
  /// - after max_samples or max_seconds (four times that before min_samples are reached);
  /// - after three samples, if the fastest takes over 1.1 times the best so far: by time it would
  ///   be no finalist.
  bool add(double microseconds, double seconds);

  double median() const { return quantile(samples_, 0.5); }
  double spread() const { return relative_spread(samples_); }
  const std::vector<double>& samples() const { return samples_; }
  /// A measurement with median, spread, count and the first samples.
  Measurement measurement() const;

 private:
  TimingOptions options_;
  double best_us_;
  double seconds_ = 0;
  std::vector<double> samples_;
};

/// A measurement from these samples.
Measurement measurement_of(std::span<const double> samples);

}  // namespace tilewise
