#pragma once
#include <functional>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace tilewise {

/// What a Matmul says, each line once. Thread-safe.
class Warnings {
 public:
  /// `say`: empty: standard error.
  explicit Warnings(std::function<void(const std::string&)> say) : say_(std::move(say)) {
    if (!say_) say_ = [](const std::string& line) { std::cerr << "tilewise: " + line + "\n"; };
  }
  void once(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (said_.insert(line).second) say_(line);
  }

 private:
  std::function<void(const std::string&)> say_;
  std::mutex mutex_;  // guards the next, and one line is said at a time
  std::set<std::string> said_;
};

}  // namespace tilewise
