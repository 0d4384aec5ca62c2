#pragma once
#include <chrono>
#include <string>

#include "tuner/cli/output.hpp"

namespace tilewise::cli {

/// A progress line on stderr: rewritten in place on a terminal with escape sequences, a plain line
/// every few seconds elsewhere, nothing with --quiet. Not thread-safe.
class Progress {
 public:
  explicit Progress(const Output& output);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the progress line. It is shown now, or not at all when the last one was shown just
  /// before.
  void show(const std::string& line);
  /// Prints a permanent line above the progress line.
  void say(const std::string& line);
  /// Removes the progress line.
  void clear() noexcept;

 private:
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tilewise::cli
