#pragma once
#include <atomic>
#include <mutex>

namespace tilewise {

/// Calls a function once, and again after a call that threw. Thread-safe: others wait for the
/// running call. (After an exception std::call_once does not return under ThreadSanitizer and with
/// some C libraries.)
class Once {
 public:
  template <class Function>
  void call(Function function) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    function();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
};

}  // namespace tilewise
