#pragma once
#include <chrono>
#include <string>

#include "tuner/cli/output.hpp"

namespace tilewise::cli {

/// One line about how far things are, on stderr: rewritten in place on a terminal with escape
/// sequences, a plain line every few seconds elsewhere, nothing with --quiet. Not thread-safe.
class Progress {
 public:
  explicit Progress(const Output& output);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The line as it stands; shown now or not at all.
  void show(const std::string& line);
  /// A line that stays, above the one that moves.
  void say(const std::string& line);
  /// Takes the moving line away.
  void clear() noexcept;

 private:
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tilewise::cli
