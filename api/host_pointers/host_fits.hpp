#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "api/host_pointers/host_plan.hpp"

namespace tilewise {

/// The splits of the last products on host pointers, in their order: choosing one takes
/// milliseconds. Bounded; thread-safe.
class HostFits {
 public:
  static constexpr std::size_t kMost = 16;
  /// Splits of more tiles are not kept: 2 MiB.
  static constexpr std::size_t kMostTiles = 16384;

  /// The split that was made for this task and a budget like this one; null without one.
  std::shared_ptr<const HostFit> find(const HostTask& task, std::int64_t budget) const;
  /// `budget`: what it was made for.
  void keep(std::int64_t budget, std::shared_ptr<const HostFit> fit);

 private:
  struct Entry {
    std::int64_t budget = 0;
    std::shared_ptr<const HostFit> fit;
  };
  mutable std::mutex mutex_;  // guards all below
  std::array<Entry, kMost> entries_;
  std::size_t next_ = 0;
};

}  // namespace tilewise
