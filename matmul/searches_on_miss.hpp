#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "matmul/stored_winners.hpp"
#include "matmul/warnings.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// OnMiss::tune: searches before the first product of a problem that was not tuned. Thread-safe.
/// One search runs at a time, since two would disturb each other's times.
class SearchesOnMiss {
 public:
  /// ServingParts::tune; may be empty.
  using Tune = std::function<std::string(const Problem&, const DeviceInfo&)>;

  SearchesOnMiss(StoredWinners& winners, const DeviceInfo& device, Tune tune, Warnings& warnings)
      : winners_(winners), device_(device), tune_(std::move(tune)), warnings_(warnings) {}

  /// Whether search_for() would start a search.
  bool is_due(const Problem& problem);
  /// Searches for the winner of a problem and waits; once for each problem. A failed search becomes
  /// a warning. Throws Error(unsupported) if the device does not support the product.
  void search_for(const Problem& problem);

 private:
  std::string search(const Problem& problem);

  StoredWinners& winners_;
  const DeviceInfo& device_;
  Tune tune_;
  Warnings& warnings_;
  std::mutex search_mutex_;  ///< locked during a search
  std::mutex mutex_;         ///< locked only briefly; guards the next two
  std::unordered_set<Problem> searched_;
  int failures_ = 0;  ///< in a row
};

}  // namespace tilewise
