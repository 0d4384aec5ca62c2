#pragma once
#include <sys/types.h>

#include <string>

#include "tuner/worker/protocol.hpp"

namespace tilewise {

/// A worker process and this side's end of its socket. Killed when it goes out of scope. Move-only.
class WorkerProcess {
 public:
  /// Starts `program worker --fd N` with SIGINT and SIGHUP blocked and its standard output joined
  /// to standard error. Throws Error(io) naming the program.
  explicit WorkerProcess(const std::string& program);
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();

  Channel channel() const { return Channel(socket_); }
  pid_t id() const { return pid_; }
  /// Kills it if it lives, waits for its end and says what that was: "exit status 3", "signal 11
  /// (Segmentation fault)", "killed".
  std::string end() noexcept;
  /// Once it is over: whether a signal ended it that a kernel's fault does not raise (SIGKILL,
  /// SIGTERM, ...).
  bool killed_from_outside() const noexcept;
  /// Waits up to a moment for one that closed its socket, so that its own end is seen and not ours.
  std::string own_end() noexcept;

 private:
  bool reap(double seconds) noexcept;
  pid_t pid_ = -1;
  int socket_ = -1;
  int status_ = 0;
};

}  // namespace tilewise
