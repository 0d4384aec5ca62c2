#include "matmul/executable_cache.hpp"

#include <mutex>
#include <utility>

namespace tilewise {

std::shared_ptr<const Executable> ExecutableCache::find(const Request& request) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_request_.find(request);
  if (found == by_request_.end()) return nullptr;
  found->second->used.store(true, std::memory_order_relaxed);
  return found->second->executable;
}

void ExecutableCache::add(const Request& request, std::shared_ptr<const Executable> executable) {
  std::shared_ptr<const Executable> replaced;  // destroyed after the lock is released
  const std::unique_lock lock(mutex_);
  const bool full = entries_.size() >= capacity_;
  Entry& entry = full ? to_be_replaced() : entries_.emplace_back();
  by_request_.emplace(request, &entry);
  if (full) by_request_.erase(entry.request);
  entry.request = request;
  replaced = std::exchange(entry.executable, std::move(executable));
}

std::size_t ExecutableCache::size() const {
  const std::shared_lock lock(mutex_);
  return by_request_.size();
}

/// Ends within two rounds: the first round clears the marks, and no lookup sets one meanwhile.
ExecutableCache::Entry& ExecutableCache::to_be_replaced() {
  for (;;) {
    Entry& entry = entries_[hand_];
    hand_ = (hand_ + 1) % entries_.size();
    if (!entry.used.exchange(false, std::memory_order_relaxed)) return entry;
  }
}

}  // namespace tilewise
