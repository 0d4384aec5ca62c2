#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "device/device.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// Whether the device has a counter of its energy, or tells its power.
bool measures_energy(const Device& device);

/// The error of a search by energy on a device that cannot measure it.
Error no_energy(const std::string& device);

/// A counter of millijoules: the device's own, else its power readings summed over time.
class EnergyCounter {
 public:
  explicit EnergyCounter(const Device& device) : device_(device) {}
  /// The counter at `seconds` of a steady clock; empty where neither is known.
  std::optional<double> read(double seconds);

 private:
  const Device& device_;
  double summed_mj_ = 0;
  std::optional<double> last_seconds_;
};

/// Energy per product, from readings while products run one after another. The counter changes
/// in steps, so a span lasts from one change to another at least half a second later. A
/// function of plain numbers, without clock or device.
class EnergySpan {
 public:
  /// A reading: the time, the counter, and how many products have ended. True when it ends the
  /// span.
  bool add(double seconds, double mj, std::int64_t products);

  /// Mean power of the span over the rate of products in it; 0 before the span has ended, and for a
  /// counter that went back.
  double mj_per_product() const;

 private:
  struct Point {
    double seconds = 0, value = 0;
  };
  std::optional<Point> counter_;       ///< the last reading
  std::optional<Point> from_, to_;     ///< changes of the counter
  std::optional<Point> first_, last_;  ///< products seen to end in the span
  std::int64_t products_ = 0;          ///< of the last reading
  bool ended_ = false;
};

}  // namespace tilewise
