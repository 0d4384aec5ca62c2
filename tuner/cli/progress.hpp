#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/cli/output.hpp"

namespace tilewise::cli {

/// Progress lines on stderr: rewritten in place on a terminal with escape sequences, on average a
/// plain line every five seconds elsewhere, nothing with --quiet. Not thread-safe.
class Progress {
 public:
  explicit Progress(const Output& output);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the progress lines. They are shown now, or not at all when the last ones were shown just
  /// before.
  void show(const std::vector<std::string>& lines);
  void show(const std::string& line) { show(std::vector{line}); }
  /// Prints a permanent line above the progress lines.
  void say(const std::string& line);
  /// Removes the progress lines.
  void clear() noexcept;

 private:
  std::string erasing() const;
  void rewrite(const std::vector<std::string>& lines);

  bool quiet_;
  bool terminal_;
  std::size_t shown_ = 0;  ///< lines on the terminal
  std::chrono::steady_clock::time_point last_;
};

/// The progress of several devices: a line of all together, then one of each that works. That of a
/// single device is its line alone. Thread-safe.
class DevicesProgress {
 public:
  /// `together` makes the first line. `names` are those of the devices.
  DevicesProgress(const Output& output, std::vector<std::string> names,
                  std::function<std::string()> together);
  /// Sets a device's line; empty: the device has nothing to do.
  void show(std::size_t device, const std::string& line);
  /// Prints a permanent line of a device.
  void say(std::size_t device, const std::string& line);
  /// warn(), above the progress lines.
  void warn(const std::string& text);

 private:
  std::string with_name(std::size_t device, const std::string& line) const;

  const std::vector<std::string> names_;
  const std::function<std::string()> together_;
  std::mutex mutex_;  // guards all below
  Progress progress_;
  std::vector<std::string> lines_;
};

}  // namespace tilewise::cli
