#include "templates/cost_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "vocabulary/decimal.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {
namespace {

// docs/cost-model.md has the sources of these constants. Cycles are the multiprocessor's.
constexpr double kWarp = 32;
constexpr double kSchedulers = 4;             // each issues one warp instruction a cycle
constexpr double kSharedBytesPerCycle = 128;  // of a multiprocessor
constexpr double kL2BytesPerCycle = 48;       // of L2, for each multiprocessor
constexpr double kMemoryShare = 0.87;         // of the stated bandwidth, reached by a copy
constexpr double kOverlap = 2.5;              // exponent of combined()
constexpr double kStoredBytesPerCycle = 24;   // of C, of a block between two tiles
constexpr double kLoadCycles = 600;           // latency of a load from global memory
constexpr double kSharedLoadCycles = 15;      // latency of a load from shared memory
constexpr double kRoundCycles = 105;          // of a round's barrier
constexpr double kBlockCycles = 1250;         // to start and to end a block
constexpr double kClusterCycles = 1200;       // more where blocks start and end as a cluster
constexpr double kRegistersAtEase = 1.3;      // registers without a cap, over the estimate
constexpr double kShortage = 0.57;  // instructions a multiply-add when all registers are missing
constexpr double kTensorCyclesASlot = 6;  // cycles of a tensor core for one issue slot
constexpr double kFirstLaunch = 1.25e-6;  // seconds
constexpr double kNextLaunch = 1e-6;

/// Whether a step multiplies on tensor cores: its rate is above that of the ordinary units.
bool on_tensor_cores(const Schedule& schedule) { return schedule.multiply_add_rate > 1; }

/// Cycles to start and to end `resident` blocks. More for tensor cores, which only the other
/// resident blocks keep busy meanwhile.
double block_cycles(const LaunchStep& step, double resident) {
  return kBlockCycles * (on_tensor_cores(step.schedule) ? 1 + 1 / resident : 1) +
         (volume(step.cluster) > 1 ? kClusterCycles : 0);
}

/// The work of a warp and of a block in one round of a step.
struct Share {
  double warps;          // of a block
  double multiply_adds;  // of a warp
  double slots;          // issue slots of these; one slot of a tensor core covers many
  double instructions;   // of a warp, beside the multiply-adds
  double shared_bytes;   // of a block
  double global_bytes;   // of a block
};

/// The share (0 to 1) of the registers a kernel would use that the resident blocks do not leave it.
double register_shortage(const LaunchStep& step, const DeviceInfo& device) {
  const double resident_threads =
      static_cast<double>(volume(step.block)) * std::max(1, step.schedule.resident_blocks);
  const double allowed = std::min(255.0, device.registers_per_multiprocessor / resident_threads);
  return std::max(0.0, 1 - allowed / (kRegistersAtEase * step.schedule.registers));
}

Share share_of(const LaunchStep& step, const DeviceInfo& device) {
  const double blocks = static_cast<double>(volume(step.grid));
  const double rounds = std::max(1.0, step.schedule.rounds);
  Share share{};
  share.warps = std::ceil(static_cast<double>(volume(step.block)) / kWarp);
  const double warp_rounds = blocks * share.warps * rounds;
  share.multiply_adds = step.work.issued_flops / 2 / kWarp / warp_rounds;
  const double rate = step.schedule.multiply_add_rate;
  share.slots =
      share.multiply_adds / rate / (on_tensor_cores(step.schedule) ? kTensorCyclesASlot : 1);
  share.instructions = step.work.instructions / kWarp / warp_rounds +
                       kShortage * register_shortage(step, device) *
                           std::min(share.multiply_adds, share.multiply_adds / rate);
  share.shared_bytes = step.work.shared_bytes / (blocks * rounds);
  share.global_bytes = step.work.global_bytes / (blocks * rounds);
  return share;
}

struct Need {
  double amount = 0;  // cycles or seconds
  Limit limit = Limit::launch;
};

/// The time of several overlapping needs: their norm with exponent kOverlap. At least the largest,
/// and more the closer the others are to it, since a busy unit delays the others.
Need combined(std::span<const Need> needs) {
  Need all = *std::max_element(needs.begin(), needs.end(),
                               [](const Need& x, const Need& y) { return x.amount < y.amount; });
  if (!(all.amount > 0)) return all;
  double sum = 0;
  for (const Need& need : needs) sum += std::pow(need.amount / all.amount, kOverlap);
  all.amount *= std::pow(sum, 1 / kOverlap);
  return all;
}

/// Cycles of a round while `resident` blocks share a multiprocessor: together, and by resource.
struct Round {
  Need need;
  std::array<double, kLimits> alone{};
};

/// Combines the needs of a multiprocessor's units for all blocks with the latency of one warp.
Round round_of(const Share& share, const Schedule& schedule, double resident,
               const DeviceInfo& device) {
  const double warps = resident * share.warps;
  // Few warps are not spread evenly over the schedulers.
  const double turns = warps < 16 ? std::ceil(warps / kSchedulers) : warps / kSchedulers;
  const double stretched = share.multiply_adds / schedule.multiply_add_rate;
  const double alone =
      (std::min(share.multiply_adds, stretched) + share.instructions) / schedule.working +
      kSharedLoadCycles * schedule.passes + kRoundCycles + (schedule.ahead > 0 ? 0 : kLoadCycles);
  const double under_way = schedule.ahead > 0 ? kLoadCycles / schedule.ahead : 0;
  // A scheduler has a tensor core of its own.
  const double multiplied = on_tensor_cores(schedule) ? turns * kSchedulers : warps;
  const double multiplying = multiplied * stretched * kWarp / device.fp32_lanes;
  const double issuing = turns * (share.slots + share.instructions);
  // Multiply-adds take issue slots, too: issue is the limit only where others take many slots.
  const bool others = share.instructions > 0.25 * stretched;
  const Need needs[] = {
      {std::max(multiplying, issuing), others ? Limit::instructions : Limit::multiply_adds},
      {resident * share.shared_bytes / kSharedBytesPerCycle, Limit::shared_memory},
      {resident * share.global_bytes / kL2BytesPerCycle, Limit::l2},
      {alone, Limit::latency},
      {under_way, Limit::latency}};
  Round round{combined(needs)};
  for (const Need& need : needs) {
    double& known = round.alone[static_cast<std::size_t>(need.limit)];
    known = std::max(known, need.amount);
  }
  const auto other = static_cast<std::size_t>(others ? Limit::multiply_adds : Limit::instructions);
  round.alone[other] = others ? multiplying : turns * share.instructions;
  return round;
}

/// Cycles for which a persistent block's units wait for the caller's epilogue and for stores of C,
/// where `resident` blocks share a multiprocessor and a round takes `round` cycles. The last tile's
/// are part of block_cycles().
double storing_cycles(const Schedule& schedule, double resident, double round,
                      const DeviceInfo& device) {
  if (!(schedule.tiles > 1)) return 0;
  const double meanwhile =
      schedule.overlapped * schedule.rounds * schedule.imbalance / schedule.tiles * round;
  const double waited = schedule.tile_bytes / kStoredBytesPerCycle +
                        schedule.tile_slots / device.fp32_lanes - meanwhile;
  return waited > 0 ? (schedule.tiles - 1) * waited / resident : 0;
}

/// Blocks on the busiest multiprocessor, when the device has room for more than `blocks`. Blocks
/// spread evenly over an idle device. While the previous step still fills the device, they crowd on
/// the multiprocessors that it leaves first.
double busiest_of(double blocks, const LaunchStep& step, const LaunchStep* before, int resident,
                  const DeviceInfo& device) {
  const bool full = before && step.programmatic &&
                    static_cast<double>(volume(before->grid)) >= device.multiprocessors;
  return full ? std::min<double>(resident, blocks) : std::ceil(blocks / device.multiprocessors);
}

/// Cycles of all waves, and the limit of most of them. Adds the cycles of each resource to `alone`.
Need waves_of(const LaunchStep& step, const LaunchStep* before, const StepCost& cost,
              const DeviceInfo& device, std::array<double, kLimits>& alone) {
  const Share share = share_of(step, device);
  const auto add = [&](const Round& round, double count) {
    for (std::size_t i = 0; i < kLimits; ++i) alone[i] += count * round.alone[i];
  };
  const double rounds = std::max(1.0, step.schedule.rounds) * step.schedule.imbalance;
  const double full_waves = std::floor(cost.waves);
  const double rest = static_cast<double>(volume(step.grid)) -
                      full_waves * cost.resident_blocks * device.multiprocessors;
  const Round full = round_of(share, step.schedule, cost.resident_blocks, device);
  add(full, full_waves * rounds);
  const auto cycles = [&](const Round& round, double resident) {
    return block_cycles(step, resident) + rounds * round.need.amount +
           storing_cycles(step.schedule, resident, round.need.amount, device);
  };
  // Nothing is multiplied meanwhile.
  const double last_epilogue = step.schedule.tile_slots / device.fp32_lanes;
  Need all{full_waves * cycles(full, cost.resident_blocks) + last_epilogue, full.need.limit};
  if (!(rest > 0)) return all;
  // In the last wave multiprocessors have fewer blocks, which run faster.
  const double fewer =
      busiest_of(rest, step, full_waves > 0 ? nullptr : before, cost.resident_blocks, device);
  const Round tail = round_of(share, step.schedule, fewer, device);
  add(tail, rounds);
  all.amount += cycles(tail, fewer);
  if (full_waves == 0) all.limit = tail.need.limit;
  return all;
}

StepCost step_cost(const LaunchStep& step, const LaunchStep* before, const DeviceInfo& device) {
  ResourceUsage usage;
  usage.registers = step.schedule.registers;
  StepCost cost;
  cost.role = step.role;
  cost.resident_blocks = std::max(1, occupancy_of(step, usage, device).blocks);
  cost.waves = static_cast<double>(volume(step.grid)) /
               (double(device.multiprocessors) * cost.resident_blocks);
  const Need waves = waves_of(step, before, cost, device, cost.alone);
  const double clock = device.clock_khz * 1e3;
  const Need needs[] = {
      {waves.amount / clock, waves.limit},
      {step.work.compulsory_bytes / (kMemoryShare * peak_bandwidth(device)), Limit::memory}};
  const Need needed = combined(needs);
  const double launch = before ? kNextLaunch : kFirstLaunch;
  for (double& cycles : cost.alone) cycles /= clock;
  cost.alone[static_cast<std::size_t>(Limit::memory)] = needs[1].amount;
  cost.alone[static_cast<std::size_t>(Limit::launch)] = launch;
  cost.seconds = launch + needed.amount;
  cost.limit = needed.amount < launch ? Limit::launch : needed.limit;
  return cost;
}

/// The rank of each value, from 0; equal values share their mean rank.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i)
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

}  // namespace

std::string_view to_string(Limit limit) {
  constexpr std::array<std::string_view, kLimits> names{
      "launch", "multiply-adds", "instruction issue", "shared memory", "L2", "memory", "latency"};
  static_assert(names.size() == static_cast<std::size_t>(Limit::latency) + 1);
  return names.at(static_cast<std::size_t>(limit));
}

double l2_bandwidth(const DeviceInfo& device) {
  return kL2BytesPerCycle * device.multiprocessors * device.clock_khz * 1e3;
}

bool can_estimate(const DeviceInfo& device) {
  return !device.target.host && device.multiprocessors > 0 && device.fp32_lanes > 0 &&
         device.clock_khz > 0 && peak_bandwidth(device) > 0;
}

Cost estimate(const Plan& plan, const DeviceInfo& device) {
  Cost cost;
  if (!can_estimate(device)) return cost;
  double longest = 0;
  const LaunchStep* before = nullptr;
  for (const LaunchStep& step : plan.steps) {
    cost.steps.push_back(step_cost(step, before, device));
    before = &step;
    const StepCost& last = cost.steps.back();
    cost.seconds += last.seconds;
    if (last.seconds > longest) {
      longest = last.seconds;
      cost.limit = last.limit;
    }
  }
  return cost;
}

std::string to_string(const Cost& cost) {
  if (!(cost.seconds > 0)) return "";
  const double value = cost.seconds * 1e6;
  const std::string microseconds = value < 1000 ? in_digits(value, 3) : in_decimals(value, 0);
  return microseconds + " us, limited by " + std::string(to_string(cost.limit));
}

double rank_correlation(std::span<const double> x, std::span<const double> y) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (x.size() < 3) return unknown;
  const std::vector<double> a = ranks_of(x), b = ranks_of(y);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : unknown;
}

}  // namespace tilewise
