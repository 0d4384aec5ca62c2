#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "matmul/executable.hpp"
#include "matmul/request.hpp"

namespace tilewise {

/// Map from request to executable, of limited size. A new entry replaces one that was not found
/// recently (the clock algorithm). An executable lives until the map and all holders of its pointer
/// have released it. Thread-safe; lookups do not wait for one another.
class ExecutableCache {
 public:
  /// `capacity`: number of requests, 1 or more.
  explicit ExecutableCache(std::size_t capacity) : capacity_(capacity) {}

  /// Null if the map has no such request.
  std::shared_ptr<const Executable> find(const Request& request) const;
  /// The request must not be in the map.
  void add(const Request& request, std::shared_ptr<const Executable> executable);
  std::size_t size() const;

 private:
  struct Entry {
    Request request;
    std::shared_ptr<const Executable> executable;
    mutable std::atomic<bool> used = false;  ///< found since the hand passed
  };
  /// The first entry that was not used during the hand's last round. Clears the marks that it
  /// passes.
  Entry& to_be_replaced();

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_;
  std::deque<Entry> entries_;
  std::unordered_map<Request, const Entry*> by_request_;
  std::size_t hand_ = 0;  ///< of the clock: the next entry to consider
};

}  // namespace tilewise
