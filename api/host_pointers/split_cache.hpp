#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "api/host_pointers/host_plan.hpp"

namespace tilewise {

/// Cache of the splits of the last products on host pointers, with their order: choosing one takes
/// milliseconds. Bounded; thread-safe.
class SplitCache {
 public:
  static constexpr std::size_t kMost = 16;
  /// Splits of more tiles (over 2 MiB) are not cached.
  static constexpr std::size_t kMostTiles = 16384;

  /// The split for this task and a similar budget; null if there is none.
  std::shared_ptr<const FittingSplit> find(const HostTask& task, std::int64_t budget) const;
  /// `budget`: the budget that the split was made for.
  void keep(std::int64_t budget, std::shared_ptr<const FittingSplit> fit);

 private:
  struct Entry {
    std::int64_t budget = 0;
    std::shared_ptr<const FittingSplit> fit;
  };
  mutable std::mutex mutex_;  // guards all below
  std::array<Entry, kMost> entries_;
  std::size_t next_ = 0;
};

}  // namespace tilewise
