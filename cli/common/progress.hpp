#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cli/common/output.hpp"

namespace tilewise::cli {

/// A line of progress in parts, the most important first. Where a terminal is too narrow, the last
/// ones are left out.
struct ProgressLine {
  std::vector<std::string> parts;
  /// What was reached so far: on a terminal a line of its own, elsewhere behind the first part.
  std::vector<std::string> best = {};
};

/// Progress lines on stderr: rewritten in place on a terminal with escape sequences, on average a
/// plain line every five seconds elsewhere, nothing with --quiet. Thread-safe.
class Progress {
 public:
  explicit Progress(const Output& output);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the progress lines. They are shown now, or not at all when the last ones were shown just
  /// before.
  void show(const std::vector<ProgressLine>& lines);
  void show(const ProgressLine& line) { show(std::vector{line}); }
  void show(const std::string& line) { show(ProgressLine{{line}}); }
  /// Prints a permanent line above the progress lines.
  void say(const std::string& line);
  /// Removes the progress lines.
  void clear() noexcept;
  /// Removes those of every object, before other text is printed on stderr.
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

/// The progress of devices: a line of all together, then one of each that works. Of several devices
/// the best is in that line. Thread-safe.
class DevicesProgress {
 public:
  /// `together` makes the first line; empty: there is none. `names` are those of the devices.
  DevicesProgress(const Output& output, std::vector<std::string> names,
                  std::function<std::string()> together);
  /// Sets a device's line; without parts: the device has nothing to do.
  void show(std::size_t device, const ProgressLine& line);
  /// Prints a permanent line of a device.
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
