#include "tuner/worker/process.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/spawn.hpp"

namespace tilewise {
namespace {

constexpr int kChildFd = 3;
// A driver that destroys a context with a running kernel may keep the process for seconds.
constexpr double kKillSeconds = 30;
constexpr double kOwnEndSeconds = 2;

[[noreturn]] void fail(const std::string& program, int error) {
  throw Error(ErrorKind::io,
              "cannot start the worker process " + program + ": " + std::strerror(error));
}

std::string describe(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "an end of an unknown kind";
  const int number = WTERMSIG(status);
  return "signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

}  // namespace

WorkerProcess::WorkerProcess(const std::string& program) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) fail(program, errno);
  Spawn spawn;
  // The parent handles Ctrl-C and the end of a terminal.
  spawn.give(sockets[1], kChildFd).give(STDERR_FILENO, STDOUT_FILENO).block({SIGINT, SIGHUP});
  const int error = spawn.start({program, "worker", "--fd", std::to_string(kChildFd)}, pid_);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    fail(program, error);
  }
  socket_ = sockets[0];
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept { *this = std::move(other); }

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(socket_, other.socket_);
  std::swap(status_, other.status_);
  return *this;
}

WorkerProcess::~WorkerProcess() {
  end();
  if (socket_ >= 0) close(socket_);
}

// Whether the process ends within `seconds`; stores its status.
bool WorkerProcess::reap(double seconds) noexcept {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const pid_t reaped = waitpid(pid_, &status_, WNOHANG);
    if (reaped != 0 && !(reaped < 0 && errno == EINTR)) {
      pid_ = -1;
      return true;
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string WorkerProcess::end() noexcept {
  if (pid_ < 0) return describe(status_);
  kill(pid_, SIGKILL);
  const bool over = reap(kKillSeconds);
  pid_ = -1;  // does not wait for a process that the driver keeps longer
  return over ? "killed" : "killed, but still held by the driver";
}

bool WorkerProcess::killed_from_outside() const noexcept {
  if (!WIFSIGNALED(status_)) return false;
  switch (WTERMSIG(status_)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
      return false;
    default:
      return true;
  }
}

std::string WorkerProcess::own_end() noexcept {
  if (pid_ >= 0 && !reap(kOwnEndSeconds)) return end();
  return describe(status_);
}

}  // namespace tilewise
