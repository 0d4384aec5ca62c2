#include "tuner/cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace tilewise::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(5);

std::size_t width_of_stderr() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(const Output& output)
    : quiet_(output.quiet),
      terminal_(escapes(StandardStream::err)),
      last_(Clock::now() -
            (terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration::zero())) {}

void Progress::show(const std::string& line) {
  const auto now = Clock::now();
  if (quiet_ || now - last_ < (terminal_ ? Clock::duration(kTerminalInterval) : kPlainInterval))
    return;
  last_ = now;
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s", line.substr(0, width_of_stderr() - 1).c_str());
    shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::clear() noexcept {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace tilewise::cli
