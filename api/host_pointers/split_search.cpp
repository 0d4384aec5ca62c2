// Finds splits whose tiles fit into memory together with the workspace of their kernels.
#include <algorithm>
#include <map>
#include <string>

#include "api/host_pointers/host_plan.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// The number of splits considered before the smallest one.
constexpr int kMostTurns = 20;
/// Smallest granule of tiles, for a workspace that does not fit otherwise.
constexpr std::int64_t kLeastGranule = 64;

[[noreturn]] void refuse_smallest(const FittingSplit& smallest, std::int64_t budget) {
  const HostTileSize& tile = smallest.plan.shape.tile;
  throw Error(ErrorKind::out_of_memory,
              to_string(smallest.plan.task.problem) + " on host pointers needs " +
                  std::to_string(smallest.plan.slots_bytes()) +
                  " bytes of device memory in its smallest split (tiles of " +
                  std::to_string(tile.m) + " x " + std::to_string(tile.n) + ", k in parts of " +
                  std::to_string(tile.k) + ") and " + std::to_string(smallest.workspace) +
                  " bytes of workspace for it, and it may have " + std::to_string(budget));
}

}  // namespace

FittingSplit fitting_split(const HostTask& task, std::int64_t budget, const HostSettings& given,
                           const HostRates& rates, const WorkspaceOf& workspace_of) {
  HostSettings settings = given;
  std::map<Problem, std::int64_t> known;
  std::int64_t for_tiles = budget;
  for (int turn = 0;; ++turn) {
    FittingSplit fit{chosen_split(task, for_tiles, settings, rates), 0};
    const std::int64_t slots = fit.plan.slots_bytes();
    for (const Problem& problem : fit.plan.problems()) {
      const auto [found, is_new] = known.try_emplace(problem, 0);
      if (is_new) found->second = workspace_of(problem);
      fit.workspace = std::max(fit.workspace, found->second);
      if (fit.workspace > budget - slots) break;
    }
    if (fit.workspace <= budget - slots) return fit;
    std::int64_t least = smallest_split(task, settings);
    if (slots <= least) {
      if (settings.granule < 2 * kLeastGranule) refuse_smallest(fit, budget);
      settings.granule /= 2;
      least = smallest_split(task, settings);
    }
    // Smaller tiles usually need less workspace, so a step goes down to half the bytes at most.
    for_tiles = turn < kMostTurns ? std::max({budget - fit.workspace, slots / 2, least}) : least;
  }
}

}  // namespace tilewise
