#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tuner/evaluate/evaluator.hpp"

namespace tilewise {

struct WorkerOptions {
  std::string program;  ///< executable that has the hidden `worker` subcommand; empty: this one
  std::string device = "auto";  ///< as `--device`
  double timeout_seconds =
      20;  ///< watchdog per evaluation; a hang is killed and is Outcome::timeout
  TimingOptions timing;
};

/// In a child process that may die: an illegal address, a hang or a crash is an outcome, the worker
/// is started again and the run goes on. Throws Error(no_device) and the like when the worker
/// cannot start at all.
std::unique_ptr<Evaluator> make_worker_evaluator(const WorkerOptions& options);

/// What a worker process works with.
struct WorkerDevice {
  std::unique_ptr<Device> device;
  BaselineLibraries baselines;
};

/// The child's side (`PROGRAM worker --fd N`): serves requests on the socket `fd` until it closes;
/// dies with its parent, ignores SIGINT. Returns the exit status. `open_device` is called once with
/// the device's name; what it throws reaches the parent.
int run_worker(int fd, const std::function<WorkerDevice(const std::string&)>& open_device);

}  // namespace tilewise
