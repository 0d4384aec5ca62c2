#include "drop_in/signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

namespace tilewise::drop_in {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP};

std::atomic<int> to_thread{-1};  // write end of a pipe
std::atomic<pid_t> owner{0};

/// Passes a signal to the thread. Further signals have no effect: the process ends once `finish`
/// returns.
void tell_thread(int signal) {
  const int before = errno;
  if (owner != getpid()) {  // a child has no such thread
    std::signal(signal, SIG_DFL);
    raise(signal);
  } else {
    const auto number = static_cast<unsigned char>(signal);
    static_cast<void>(!::write(to_thread, &number, 1));
  }
  errno = before;
}

void wait_for_signal(int from, void (*finish)()) {
  unsigned char signal = 0;
  while (::read(from, &signal, 1) != 1)
    if (errno != EINTR) return;
  finish();
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
}

}  // namespace

void finish_on_signals(void (*finish)()) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  // The thread handles no signal of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(wait_for_signal, ends[0], finish).detach();
    to_thread = ends[1];
    owner = getpid();
  } catch (...) {  // without the thread, signals end the process as usual
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (owner == 0) return;
  for (const int signal : kSignals) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction mine {};
    mine.sa_handler = tell_thread;
    mine.sa_flags = SA_RESTART;
    sigaction(signal, &mine, nullptr);
  }
}

}  // namespace tilewise::drop_in
