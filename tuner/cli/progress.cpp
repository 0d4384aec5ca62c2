#include "tuner/cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace tilewise::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(5);

struct Screen {
  std::size_t columns = 80, rows = 24;
};
Screen screen_of_stderr() {
  winsize size{};
  Screen screen;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return screen;
  if (size.ws_col > 0) screen.columns = size.ws_col;
  if (size.ws_row > 0) screen.rows = size.ws_row;
  return screen;
}

}  // namespace

Progress::Progress(const Output& output)
    : quiet_(output.quiet),
      terminal_(escapes(StandardStream::err)),
      last_(Clock::now() -
            (terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration::zero())) {}

void Progress::show(const std::vector<std::string>& lines) {
  const auto now = Clock::now();
  const auto interval = terminal_ ? Clock::duration(kTerminalInterval)
                                  : kPlainInterval * static_cast<int>(lines.size());
  if (quiet_ || now - last_ < interval) return;
  last_ = now;
  if (terminal_)
    rewrite(lines);
  else
    for (const std::string& line : lines) std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

/// The cursor stays at the end of the last line. Lines that do not fit the screen are left out.
void Progress::rewrite(const std::vector<std::string>& lines) {
  const Screen screen = screen_of_stderr();
  std::string text = erasing();
  shown_ = 0;
  for (const std::string& line : lines) {
    if (shown_ == screen.rows) break;
    text += (shown_ > 0 ? "\n" : "") + line.substr(0, screen.columns - 1);
    ++shown_;
  }
  std::fputs(text.c_str(), stderr);
}

/// The escape sequences that remove the lines on the terminal.
std::string Progress::erasing() const {
  std::string text = "\r\x1b[K";
  for (std::size_t line = 1; line < shown_; ++line) text += "\x1b[A\x1b[K";
  return text;
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::clear() noexcept {
  if (shown_ == 0) return;
  std::fputs("\r\x1b[K", stderr);
  for (; shown_ > 1; --shown_) std::fputs("\x1b[A\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = 0;
}

DevicesProgress::DevicesProgress(const Output& output, std::vector<std::string> names,
                                 std::function<std::string()> together)
    : names_(std::move(names)),
      together_(std::move(together)),
      progress_(output),
      lines_(names_.size()) {}

std::string DevicesProgress::with_name(std::size_t device, const std::string& line) const {
  return names_.size() == 1 ? line : names_[device] + ": " + line;
}

void DevicesProgress::show(std::size_t device, const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_[device] = line;
  if (names_.size() == 1) {
    if (!line.empty()) progress_.show(line);
    return;
  }
  std::vector<std::string> lines{together_()};
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!lines_[i].empty()) lines.push_back(with_name(i, lines_[i]));
  if (lines.size() > 1) progress_.show(lines);
}

void DevicesProgress::say(std::size_t device, const std::string& line) {
  const std::lock_guard lock(mutex_);
  progress_.say(with_name(device, line));
}

void DevicesProgress::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  cli::warn(text);
}

}  // namespace tilewise::cli
