#include "cli/common/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "vocabulary/text.hpp"

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

constexpr const char* kEraseRow = "\r\x1b[K";
constexpr const char* kEraseRowAbove = "\x1b[A\x1b[K";
constexpr const char* kBetweenParts = "  ";
// A part that does not fit is cut if it is long and this much of it remains, otherwise left out.
constexpr std::size_t kLongPart = 24, kLeastOfPart = 12;

using Parts = std::vector<std::string>;

/// The parts that fit `width` columns. Cuts the first part if needed, and the last one if it is
/// long.
Parts fitted(const Parts& parts, std::size_t width) {
  Parts shown;
  std::size_t used = 0;
  for (const std::string& part : parts) {
    const std::size_t gap = shown.empty() ? 0 : 2, left = width - std::min(width, used + gap);
    if (part.size() <= left) {
      shown.push_back(part);
      used += gap + part.size();
      continue;
    }
    if (shown.empty() || (part.size() > kLongPart && left >= kLeastOfPart))
      shown.push_back(part.substr(0, left - std::min<std::size_t>(left, 2)) + "..");
    break;
  }
  return shown;
}

/// Puts the best time right after the first part.
Parts in_one_line(const ProgressLine& line) {
  Parts parts = line.parts;
  parts.insert(parts.begin() + (parts.empty() ? 0 : 1), line.best.begin(), line.best.end());
  return parts;
}

/// A row of the terminal; the first part may have a style.
struct ScreenRow {
  Parts parts;
  Style style = Style::plain;
};
std::vector<ScreenRow> rows_of(const std::vector<ProgressLine>& lines) {
  std::vector<ScreenRow> rows;
  for (const ProgressLine& line : lines) {
    rows.push_back({line.parts});
    if (!line.best.empty()) rows.push_back({line.best, Style::good});
  }
  return rows;
}

/// Guards every Progress and the lines that it has shown.
std::mutex& screen_mutex() {
  static std::mutex& mutex = *new std::mutex;  // a thread may warn while the program ends
  return mutex;
}
std::vector<Progress*> all_progress;  // guarded by screen_mutex()

}  // namespace

Progress::Progress(const Output& output)
    : quiet_(output.quiet),
      terminal_(escapes(StandardStream::err)),
      colour_(colours(StandardStream::err)),
      last_(Clock::now() -
            (terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration::zero())) {
  const std::lock_guard lock(screen_mutex());
  all_progress.push_back(this);
}

Progress::~Progress() {
  const std::lock_guard lock(screen_mutex());
  erase();
  std::erase(all_progress, this);
}

void Progress::show(const std::vector<ProgressLine>& lines) {
  const std::lock_guard lock(screen_mutex());
  const auto now = Clock::now();
  const auto interval = terminal_ ? Clock::duration(kTerminalInterval)
                                  : kPlainInterval * static_cast<int>(lines.size());
  if (quiet_ || now - last_ < interval) return;
  last_ = now;
  if (terminal_)
    rewrite(lines);
  else
    for (const ProgressLine& line : lines)
      std::fprintf(stderr, "%s\n", join(in_one_line(line), kBetweenParts).c_str());
  std::fflush(stderr);
}

/// Leaves the cursor at the end of the last line. Lines that do not fit the screen are left out.
void Progress::rewrite(const std::vector<ProgressLine>& lines) {
  const Screen screen = screen_of_stderr();
  std::string text = kEraseRow;
  for (std::size_t row = 1; row < rows(); ++row) text += kEraseRowAbove;
  shown_.clear();
  for (const ScreenRow& row : rows_of(lines)) {
    if (shown_.size() == screen.rows) break;
    const Parts parts = fitted(row.parts, screen.columns - 1);
    if (parts.empty()) continue;
    const std::string line = join(parts, kBetweenParts), &first = parts.front();
    text += (shown_.empty() ? "" : "\n") + styled(first, row.style, colour_) +
            line.substr(first.size());
    shown_.push_back(line.size());
  }
  std::fputs(text.c_str(), stderr);
}

/// The rows that the lines occupy. A terminal that became narrower wraps lines that are too long.
std::size_t Progress::rows() const noexcept {
  const std::size_t columns = screen_of_stderr().columns;
  std::size_t rows = 0;
  for (const std::size_t length : shown_)
    rows += std::max<std::size_t>(1, (length + columns - 1) / columns);
  return rows;
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  const std::lock_guard lock(screen_mutex());
  erase();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::clear() noexcept {
  const std::lock_guard lock(screen_mutex());
  erase();
}

void Progress::clear_all() noexcept {
  const std::lock_guard lock(screen_mutex());
  for (Progress* const one : all_progress) one->erase();
}

void Progress::erase() noexcept {
  if (shown_.empty()) return;
  std::fputs(kEraseRow, stderr);
  for (std::size_t row = 1; row < rows(); ++row) std::fputs(kEraseRowAbove, stderr);
  std::fflush(stderr);
  shown_.clear();
}

DevicesProgress::DevicesProgress(const Output& output, std::vector<std::string> names,
                                 std::function<std::string()> together)
    : names_(std::move(names)),
      together_(std::move(together)),
      progress_(output),
      lines_(names_.size()) {}

std::string DevicesProgress::with_name(std::size_t device, const std::string& text) const {
  return names_.size() == 1 ? text : names_[device] + ": " + text;
}

void DevicesProgress::show(std::size_t device, const ProgressLine& line) {
  const std::lock_guard lock(mutex_);
  lines_[device] = line;
  std::vector<ProgressLine> lines;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (lines_[i].parts.empty()) continue;
    lines.push_back(names_.size() == 1 ? lines_[i] : ProgressLine{in_one_line(lines_[i])});
    lines.back().parts.front() = with_name(i, lines.back().parts.front());
  }
  if (lines.empty()) return;
  if (const std::string all = together_(); !all.empty())
    lines.insert(lines.begin(), ProgressLine{{all}});
  progress_.show(lines);
}

void DevicesProgress::say(std::size_t device, const std::string& line) {
  const std::lock_guard lock(mutex_);
  progress_.say(with_name(device, line));
}

void DevicesProgress::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  cli::warn(text);
}

}  // namespace tilewise::cli
