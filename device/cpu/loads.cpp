// Tiles copied by TMA, and the mbarriers that count them: parts of BlockRunner.
#include <algorithm>
#include <cstring>

#include "device/cpu/block_runner.hpp"

namespace tilewise::cpu {

void BlockRunner::mbarriers_ready() {
  for (Mbarrier& barrier : barriers_)
    if (barrier.maker == number_of(*current_)) barrier.ready = true;
}

void BlockRunner::load_start(const TileLoad& load) {
  const auto found = std::find_if(barriers_.begin(), barriers_.end(),
                                  [&](const Mbarrier& m) { return m.at == load.barrier; });
  if (found != barriers_.end() && !found->ready)
    fault(load.site,
          "a copy counts at an mbarrier without mbarriers_ready() after its mbarrier_init()");
  loads_.push_back(load);
}

bool BlockRunner::load_next(const void* barrier, TileLoad& load) {
  const auto found = std::find_if(loads_.begin(), loads_.end(),
                                  [&](const TileLoad& t) { return t.barrier == barrier; });
  if (found == loads_.end()) return false;
  load = *found;
  loads_.erase(found);
  idle_yields_ = 0;
  return true;
}

/// Non-empty for a tile copy in flight at the block's end: a GPU could write it into the shared
/// memory of another block.
std::string BlockRunner::unfinished_load() const {
  return loads_.empty() ? ""
                        : "ends without waiting for the tile that load_tile copies at " +
                              text(loads_.front().site);
}

/// Non-empty for an mbarrier that was overwritten or still awaits bytes. A GPU may count an arrival
/// after a later barrier(), and overwrite other threads' data there.
std::string BlockRunner::overwritten_barrier() const {
  for (const Mbarrier& barrier : barriers_) {
    MbarrierState state;
    std::memcpy(&state, barrier.at, sizeof state);
    if (!state.at_rest())
      return "has written over the mbarrier that was initialised at " + text(barrier.site) +
             ", or leaves it with bytes to come";
  }
  return "";
}

}  // namespace tilewise::cpu
