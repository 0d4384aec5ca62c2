#pragma once
#include <sys/types.h>

#include <string>

#include "tuner/worker/protocol.hpp"

namespace tilewise {

/// A worker process and the parent's end of its socket. The destructor kills it. Move-only.
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
  /// Kills a running process, waits for its end and describes it: "exit status 3", "signal 11
  /// (Segmentation fault)", "killed".
  std::string end() noexcept;
  /// After the end: whether a signal ended it that a kernel's fault does not raise (SIGKILL,
  /// SIGTERM, ...).
  bool killed_from_outside() const noexcept;
  /// Waits a moment for a process that closed its socket, in order to report its own end instead of
  /// the kill.
  std::string own_end() noexcept;

 private:
  bool reap(double seconds) noexcept;
  pid_t pid_ = -1;
  int socket_ = -1;
  int status_ = 0;
};

}  // namespace tilewise
