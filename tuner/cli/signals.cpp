#include "tuner/cli/signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tuner/cli/command.hpp"

namespace tilewise::cli {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "the handler below may only touch such a flag");

void on_interrupt(int) {
  if (interrupt_flag.exchange(true)) _exit(kInterrupted);
  static constexpr char kText[] =
      "\nstopping after the current candidate; Ctrl-C again stops at once\n";
  const int kept = errno;
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) { /* nobody to tell */
  }
  errno = kept;
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

void catch_interrupts() { handle(on_interrupt); }

void ignore_interrupts() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

const std::atomic<bool>& interrupted() { return interrupt_flag; }

}  // namespace tilewise::cli
