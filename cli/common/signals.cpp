#include "cli/common/signals.hpp"

#include <semaphore.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <thread>

#include "device/cpu/cpu.hpp"

namespace tilewise::cli {
namespace {

constexpr int kSignalled = 128;  // exit status offset, as in shells
// `timeout` signals its child and then the child's process group: two signals within this time
// count as one.
constexpr std::int64_t kOneSignalNanoseconds = 100'000'000;

std::atomic<bool> interrupt_flag{false};
std::atomic<int> first_signal{0}, last_signal{0};
std::atomic<std::int64_t> first_at{0};
sem_t end_at_once;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "the handler below may only touch such values");

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void print_notice() {
  static constexpr char kText[] =
      "\nstopping after the current candidate; Ctrl-C again stops at once\n";
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) { /* standard error is closed */
  }
}

void on_signal(int signal) {
  const int kept = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_at = nanoseconds();
    interrupt_flag = true;
    if (signal != SIGPIPE) print_notice();
  } else if ((signal == SIGINT || signal == SIGTERM) && first_at != 0 &&
             nanoseconds() - first_at > kOneSignalNanoseconds) {
    last_signal = signal;
    sem_post(&end_at_once);
  }
  errno = kept;
}

/// Ends the program in a thread, since a handler may neither lock nor remove folders.
void wait_for_second_signal() {
  while (sem_wait(&end_at_once) != 0) {
  }
  cpu::prepare_immediate_exit();
  _exit(kSignalled + last_signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

struct sigaction inherited_sigchld {
}, inherited_sigxfsz{};

}  // namespace

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void catch_interrupts() {
  sem_init(&end_at_once, 0, 0);
  std::thread(wait_for_second_signal).detach();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
    if (!is_ignored(signal)) handle(signal, on_signal);
}

void set_own_signals() {
  sigaction(SIGCHLD, nullptr, &inherited_sigchld);
  sigaction(SIGXFSZ, nullptr, &inherited_sigxfsz);
  handle(SIGCHLD, SIG_DFL);
  handle(SIGXFSZ, SIG_IGN);
}

void restore_own_signals() {
  sigaction(SIGCHLD, &inherited_sigchld, nullptr);
  sigaction(SIGXFSZ, &inherited_sigxfsz, nullptr);
}

void ignore_interrupts() {
  for (const int signal : {SIGINT, SIGHUP, SIGPIPE}) handle(signal, SIG_IGN);
}

const std::atomic<bool>& interrupted() { return interrupt_flag; }

int interrupt_status() {
  const int signal = first_signal;
  return signal == 0 ? 0 : kSignalled + signal;
}

}  // namespace tilewise::cli
