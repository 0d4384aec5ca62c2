#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cli/common/output.hpp"

namespace tilewise::cli {

/// A line of progress in parts, the most important first. A terminal that is too narrow omits the
/// last ones.
struct ProgressLine {
  std::vector<std::string> parts;
  /// The best result so far: a separate line on a terminal, otherwise after the first part.
  std::vector<std::string> best = {};
};

/// Progress lines on stderr. A terminal with escape sequences rewrites them in place; other streams
/// get a plain line every five seconds on average; --quiet prints none. Thread-safe.
class Progress {
 public:
  explicit Progress(const Output& output);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the progress lines. Shows them now, or not at all when the last ones were shown just
  /// before.
  void show(const std::vector<ProgressLine>& lines);
  void show(const ProgressLine& line) { show(std::vector{line}); }
  void show(const std::string& line) { show(ProgressLine{{line}}); }
  /// Prints a permanent line above the progress lines.
  void say(const std::string& line);
  /// Removes the progress lines.
  void clear() noexcept;
  /// Removes the progress lines of every object, before other text is printed on stderr.
  static void clear_all() noexcept;

 private:
  std::size_t rows() const noexcept;
  void rewrite(const std::vector<ProgressLine>& lines);
  void erase() noexcept;

  bool quiet_;
  bool terminal_;
  bool colour_;
  std::vector<std::size_t> shown_;  ///< lengths of the lines on the terminal
  std::chrono::steady_clock::time_point last_;
};

/// The progress of devices: one line for all, then one for each busy device. With several devices,
/// each device's line has its best result. Thread-safe.
class DevicesProgress {
 public:
  /// `together` makes the first line; empty: no such line. `names` are the names of the devices.
  DevicesProgress(const Output& output, std::vector<std::string> names,
                  std::function<std::string()> together);
  /// Sets a device's line. Without parts, the device is idle.
  void show(std::size_t device, const ProgressLine& line);
  /// Prints a permanent line about a device.
  void say(std::size_t device, const std::string& line);
  /// warn(), above the progress lines.
  void warn(const std::string& text);

 private:
  std::string with_name(std::size_t device, const std::string& text) const;

  const std::vector<std::string> names_;
  const std::function<std::string()> together_;
  std::mutex mutex_;  // guards all below
  Progress progress_;
  std::vector<ProgressLine> lines_;
};

}  // namespace tilewise::cli
