#pragma once
#include <functional>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace tilewise {

/// The warnings of a Matmul; each line is issued once. Thread-safe.
class Warnings {
 public:
  /// `say`: issues a line; if it is empty, lines go to standard error.
  explicit Warnings(std::function<void(const std::string&)> say) : say_(std::move(say)) {
    if (!say_) say_ = [](const std::string& line) { std::cerr << "tilewise: " + line + "\n"; };
  }
  void once(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (said_.insert(line).second) say_(line);
  }

 private:
  std::function<void(const std::string&)> say_;
  std::mutex mutex_;  // guards said_ and serialises say_
  std::set<std::string> said_;
};

}  // namespace tilewise
