#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "matmul/executable.hpp"
#include "matmul/request.hpp"

namespace tilewise {

/// Request -> executable, for a limited number of requests. A new one replaces one that was not
/// looked up of late (the clock algorithm). An executable lives until the table and every holder of
/// its pointer have let go of it. Thread-safe; lookups do not wait for one another.
class ExecutableCache {
 public:
  /// `capacity`: of requests, 1 or more.
  explicit ExecutableCache(std::size_t capacity) : capacity_(capacity) {}

  /// Null when the table does not have it.
  std::shared_ptr<const Executable> find(const Request& request) const;
  /// It must not be in the table.
  void add(const Request& request, std::shared_ptr<const Executable> executable);
  std::size_t size() const;

 private:
  struct Entry {
    Request request;
    std::shared_ptr<const Executable> executable;
    mutable std::atomic<bool> used = false;  ///< looked up since the hand passed
  };
  /// The first entry that was not used in the hand's last round. Clears the marks that it passes.
  Entry& to_be_replaced();

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_;
  std::deque<Entry> entries_;
  std::unordered_map<Request, const Entry*> by_request_;
  std::size_t hand_ = 0;  ///< of the clock: the next entry to be considered
};

}  // namespace tilewise
