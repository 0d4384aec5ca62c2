#include "device/host/workers.hpp"

#include <cstdint>
#include <utility>

namespace tilewise::host {
namespace {

/// An exception that ends the loop over the blocks.
struct BlockFailed {
  std::string why;
};

}  // namespace

Workers::Workers(const HostOptions& options) : pool_(thread_count(options.workers) - 1) {
  for (std::size_t i = 0; i <= pool_.size(); ++i)
    runners_.push_back(std::make_unique<BlockRunner>(options));
}

std::string Workers::run(const BlockWork& work) {
  const std::lock_guard one_grid(launch_);
  const std::int64_t blocks = std::int64_t{work.grid.x} * work.grid.y * work.grid.z;
  try {
    pool_.for_each(blocks, [&](std::int64_t i, int worker) {
      const std::int64_t row = i / work.grid.x;
      const Index block{static_cast<unsigned>(i % work.grid.x),
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

}  // namespace tilewise::host
