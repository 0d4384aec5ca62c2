#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// What a step waits for most of its time.
enum class Limit : std::uint8_t {
  launch,         ///< starting it takes longer than running it
  multiply_adds,  ///< the units that do them
  instructions,   ///< slots to issue instructions, those beside the multiply-adds included
  shared_memory,  ///< bandwidth of shared memory and L1
  l2,             ///< bandwidth of the L2 cache
  memory,         ///< bandwidth of device memory
  latency,        ///< too few warps or too few loads under way to cover waiting
};
/// "launch", "multiply-adds", "instruction issue", "shared memory", "L2", "memory", "latency".
std::string_view to_string(Limit limit);

/// A step's share of a Cost.
struct StepCost {
  StepRole role = StepRole::multiply;
  double seconds = 0;  ///< its launch included
  Limit limit = Limit::launch;
  int resident_blocks = 0;  ///< on a multiprocessor at a time, as far as can be told beforehand
  double waves = 0;         ///< blocks over the blocks that run at a time
};

/// What a plan is expected to take. `seconds` 0 means that the model cannot tell: see
/// can_estimate(), or the plan has no steps.
struct Cost {
  double seconds = 0;           ///< the sum over steps
  Limit limit = Limit::launch;  ///< of the step that takes longest
  std::vector<StepCost> steps;
};

/// Whether the model can tell of a device: a GPU that states its units, clocks and memory bus.
bool can_estimate(const DeviceInfo& device);

/// The cost model: turns the work a plan states into seconds and what limits them. It reads the
/// plan's steps (grid, block, shared bytes, work, schedule) and device facts, never parameters, so
/// it covers any template. A candidate's order among others is what it is for; docs/cost-model.md
/// has the formulas, their sources, the constants and how well it ranks. Pure; thread-safe.
Cost estimate(const Plan& plan, const DeviceInfo& device);

/// "61.2 us, limited by instruction issue"; empty when the model cannot tell.
std::string to_string(const Cost& cost);

/// Spearman's rank correlation of pairs (x[i], y[i]), equal values sharing their mean rank: 1 the
/// same order, 0 none, -1 the reverse. Not a number where there are fewer than three pairs, or
/// where all x or all y are equal. Requires x.size() == y.size() and no NaN.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace tilewise
