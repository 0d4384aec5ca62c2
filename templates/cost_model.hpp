#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// The resource that limits a step's time.
enum class Limit : std::uint8_t {
  launch,         ///< its launch takes longer than its run
  multiply_adds,  ///< throughput of the units for multiply-adds
  instructions,   ///< issue slots, those of other instructions included
  shared_memory,  ///< bandwidth of shared memory and L1
  l2,             ///< bandwidth of the L2 cache
  memory,         ///< bandwidth of device memory
  latency,        ///< too few warps or loads in flight to hide latency
};
inline constexpr std::size_t kLimits = 7;
/// "launch", "multiply-adds", "instruction issue", "shared memory", "L2", "memory", "latency".
std::string_view to_string(Limit limit);

/// A step's share of a Cost.
struct StepCost {
  StepRole role = StepRole::multiply;
  double seconds = 0;  ///< its launch included
  Limit limit = Limit::launch;
  int resident_blocks = 0;  ///< blocks on a multiprocessor at a time, estimated before compilation
  double waves = 0;         ///< blocks over the blocks that run at a time
  /// The seconds that each resource (by Limit) would take by itself. Multiply-adds and instruction
  /// issue have the same schedulers: the one of them that does not limit counts its own slots.
  std::array<double, kLimits> alone{};
};

/// The estimated time of a plan. `seconds` is 0 where there is no estimate (see can_estimate()), or
/// where the plan has no steps.
struct Cost {
  double seconds = 0;           ///< the sum over steps
  Limit limit = Limit::launch;  ///< of the step that takes longest
  std::vector<StepCost> steps;
};

/// Whether the model covers a device: a GPU whose units, clocks and memory bus are known.
bool can_estimate(const DeviceInfo& device);

/// The L2 bandwidth that the model assumes (bytes/s); 0 when the clock is not known.
double l2_bandwidth(const DeviceInfo& device);

/// The cost model: estimates a plan's seconds and their limit. It reads the plan's steps (grid,
/// block, shared bytes, work, schedule) and the device's facts, but no parameters, so it covers
/// every template. Its purpose is to rank candidates; docs/cost-model.md has the formulas, their
/// sources, the constants and how well it ranks. Pure; thread-safe.
Cost estimate(const Plan& plan, const DeviceInfo& device);

/// "61.2 us, limited by instruction issue"; empty where there is no estimate.
std::string to_string(const Cost& cost);

/// Spearman's rank correlation of pairs (x[i], y[i]), from -1 (reverse order) to 1 (same order);
/// equal values share their mean rank. NaN where there are fewer than three pairs, or where all x
/// or all y are equal. Requires x.size() == y.size() and no NaN.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace tilewise
