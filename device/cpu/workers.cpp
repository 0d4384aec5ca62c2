#include "device/cpu/workers.hpp"

#include <cstdint>
#include <utility>

namespace tilewise::cpu {
namespace {

/// An exception that ends the loop over the clusters.
struct BlockFailed {
  std::string why;
};

}  // namespace

Workers::Workers(const CpuOptions& options) : pool_(thread_count(options.workers) - 1) {
  for (std::size_t i = 0; i <= pool_.size(); ++i)
    runners_.push_back(std::make_unique<BlockRunner>(options));
}

std::string Workers::run(const BlockWork& work) {
  const std::lock_guard one_grid(launch_);
  const unsigned across = work.grid.x / work.cluster;  // clusters
  const std::int64_t clusters = std::int64_t{across} * work.grid.y * work.grid.z;
  try {
    pool_.for_each(clusters, [&](std::int64_t i, int worker) {
      const std::int64_t row = i / across;
      const Index block{static_cast<unsigned>(i % across) * work.cluster,
                        static_cast<unsigned>(row % work.grid.y),
                        static_cast<unsigned>(row / work.grid.y)};
      std::string wrong = runners_[static_cast<std::size_t>(worker)]->run(work, block);
      if (!wrong.empty()) throw BlockFailed{std::move(wrong)};
    });
  } catch (BlockFailed& failed) {
    return std::move(failed.why);
  }
  return "";
}

}  // namespace tilewise::cpu
