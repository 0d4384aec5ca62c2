#include "vocabulary/image.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

constexpr int kWarp = 32;
constexpr int kNoLimit = std::numeric_limits<int>::max();
constexpr int kRegisterUnit = 256;  // registers are allocated per warp in units of this many
constexpr int kPartitions = 4;  // each multiprocessor has four schedulers with their own registers

int blocks_by_registers(int warps, const ResourceUsage& usage, const DeviceInfo& info) {
  if (usage.registers <= 0) return kNoLimit;
  const int per_warp = round_up(usage.registers * kWarp, kRegisterUnit);
  // The limit for a launch assumes that all four partitions are filled evenly.
  if (per_warp * round_up(warps, kPartitions) > info.registers_per_block) return 0;
  const int warps_per_partition = info.registers_per_multiprocessor / kPartitions / per_warp;
  return warps_per_partition * kPartitions / warps;
}

int blocks_by_shared(std::int64_t dynamic_bytes, const ResourceUsage& usage,
                     const DeviceInfo& info) {
  const std::int64_t wanted = dynamic_bytes + usage.static_shared_bytes;
  if (wanted > info.shared_per_block) return 0;
  // The allocation unit of shared memory: 256 bytes on Turing, 128 later.
  const int unit = info.target.major < 8 ? 256 : 128;
  const int taken = round_up(static_cast<int>(wanted) + info.shared_reserved_per_block, unit);
  return taken > 0 ? info.shared_per_multiprocessor / taken : kNoLimit;
}

}  // namespace

Occupancy occupancy_of(const LaunchStep& step, const ResourceUsage& usage, const DeviceInfo& info) {
  const std::uint64_t threads = volume(step.block);
  if (threads == 0 || threads > static_cast<std::uint64_t>(info.threads_per_block)) {
    return {0, "threads"};
  }
  const int warps = (static_cast<int>(threads) + kWarp - 1) / kWarp;
  // On a tie, reports the first one: limits that a kernel can change precede fixed ones.
  const std::array limits{
      Occupancy{blocks_by_registers(warps, usage, info), "registers"},
      Occupancy{blocks_by_shared(step.shared_bytes, usage, info), "shared memory"},
      Occupancy{info.threads_per_multiprocessor / kWarp / warps, "threads"},
      Occupancy{info.blocks_per_multiprocessor, "blocks"},
  };
  return *std::min_element(
      limits.begin(), limits.end(),
      [](const Occupancy& x, const Occupancy& y) { return x.blocks < y.blocks; });
}

}  // namespace tilewise
