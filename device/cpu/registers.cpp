// The registers of warpgroups (setmaxnreg): a part of BlockRunner.
#include <algorithm>

#include "device/cpu/block_runner.hpp"

namespace tilewise::cpu {
namespace {

constexpr unsigned kRegisters = 65536;   // per multiprocessor
constexpr unsigned kMostAtLaunch = 248;  // per thread, in steps of 8 (at most 255)

}  // namespace

/// The block has as many registers as its threads have at the launch. ptxas gives each thread of a
/// kernel with setmaxnreg as many as its launch bounds allow.
bool BlockRunner::set_registers(int registers, bool raises, unsigned blocks, Site site) {
  const unsigned number = number_of(*current_), warp = number % count_ / kWarp;
  BlockState& block = block_of(number);
  Warpgroup& group = block.warpgroups[warp / 4];
  const unsigned bit = 1U << warp % 4;
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    fault(site, "setmaxnreg takes multiples of 8 from 24 to 256");
  if (group.warps != 0 && ((group.warps & bit) != 0 || !same(site, group.site)))
    fail([&] {
      return "mismatched setmaxnreg: " + name_of(number) + " at " + text(site) +
             ", while not all warps of its warpgroup have executed that at " + text(group.site);
    });
  const int at_launch = static_cast<int>(
      std::min(kRegisters / (std::max(blocks, 1U) * count_) / 8 * 8, kMostAtLaunch));
  const auto of = [&](int own) { return own == 0 ? at_launch : own; };
  int& mine = group.registers[warp % 4];
  if (raises ? registers < of(mine) : registers > of(mine))
    fault(site, raises ? "raise_registers() to fewer than there are"
                       : "lower_registers() to more than there are");
  int taken = registers - of(mine);  // of the block, in excess of those at the launch
  for (unsigned w = 0; w < count_ / kWarp; ++w)
    taken += of(block.warpgroups[w / 4].registers[w % 4]) - at_launch;
  if (raises && taken > 0) return false;
  mine = registers;
  group.site = site;
  group.warps |= bit;
  if (group.warps == 0xf) group.warps = 0;
  idle_yields_ = 0;
  return true;
}

/// Non-empty if only some warps of a warpgroup have changed their registers.
std::string BlockRunner::partial_warpgroup() const {
  for (const BlockState& block : blocks_)
    for (const Warpgroup& group : block.warpgroups)
      if (group.warps != 0)
        return "not all warps of a warpgroup execute the setmaxnreg at " + text(group.site);
  return "";
}

}  // namespace tilewise::cpu
