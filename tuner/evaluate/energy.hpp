#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "device/device.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/objective.hpp"

namespace tilewise {

/// Whether the device has an energy counter or power readings.
bool measures_energy(const Device& device);

/// The error of a search by this objective on a device that cannot measure energy.
Error no_energy(const std::string& device, Objective objective);

/// A counter of millijoules: the device's own, otherwise its power readings summed over time.
class EnergyCounter {
 public:
  explicit EnergyCounter(const Device& device) : device_(device) {}
  /// The counter at `seconds` of a steady clock; empty where the device has neither.
  std::optional<double> read(double seconds);

 private:
  const Device& device_;
  double summed_mj_ = 0;
  std::optional<double> last_seconds_;
};

/// Energy per product, from readings while products run one after another. The counter changes in
/// steps, so a span lasts from one change to another at least half a second later. A function of
/// plain numbers, without clock or device.
class EnergySpan {
 public:
  /// Adds a reading: the time, the counter, and the number of finished products. True when it ends
  /// the span.
  bool add(double seconds, double mj, std::int64_t products);

  /// Mean power of the span over its rate of products; 0 before the span has ended, and for a
  /// counter that decreased.
  double mj_per_product() const;

 private:
  struct Point {
    double seconds = 0, value = 0;
  };
  std::optional<Point> counter_;       ///< the last reading
  std::optional<Point> from_, to_;     ///< changes of the counter
  std::optional<Point> first_, last_;  ///< products that finished in the span
  std::int64_t products_ = 0;          ///< at the last reading
  bool ended_ = false;
};

}  // namespace tilewise
