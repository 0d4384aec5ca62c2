#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "db/lock_waits.hpp"

namespace tilewise {

/// Measures the time in which the device or all compiler threads work. Thread-safe.
class BusyClock {
 public:
  enum Worker : std::size_t { device, compilers };

  void set(Worker worker, bool works) {
    const std::lock_guard lock(mutex_);
    count();
    works_[worker] = works;
  }
  double seconds() {
    const std::lock_guard lock(mutex_);
    count();
    return seconds_;
  }

 private:
  using Clock = BudgetClock;
  void count() {
    const Clock::time_point now = Clock::now();
    if (works_[device] || works_[compilers])
      seconds_ += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }

  std::mutex mutex_;  // guards all members below
  std::array<bool, 2> works_{};
  Clock::time_point since_;
  double seconds_ = 0;
};

}  // namespace tilewise
