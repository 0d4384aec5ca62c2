#include "api/host_pointers/split_cache.hpp"

#include <utility>

namespace tilewise {
namespace {

/// Whether a split made for one budget may serve another. With an eighth more memory another split
/// may be faster.
bool is_like(std::int64_t budget, std::int64_t made_for) {
  return budget <= made_for + made_for / 8;
}

}  // namespace

std::shared_ptr<const FittingSplit> SplitCache::find(const HostTask& task,
                                                     std::int64_t budget) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.fit && entry.fit->plan.task == task && entry.fit->bytes() <= budget &&
        is_like(budget, entry.budget))
      return entry.fit;
  return nullptr;
}

void SplitCache::keep(std::int64_t budget, std::shared_ptr<const FittingSplit> fit) {
  if (fit->plan.tiles.size() > kMostTiles) return;
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.fit && entry.fit->plan.task == fit->plan.task) {
      entry = {budget, std::move(fit)};
      return;
    }
  entries_[next_] = {budget, std::move(fit)};
  next_ = (next_ + 1) % kMost;
}

}  // namespace tilewise
