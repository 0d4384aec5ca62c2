#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tuner/evaluate/evaluator.hpp"

namespace tilewise {

struct WorkerOptions {
  std::string program;          ///< executable with the hidden `worker` subcommand; empty: this one
  std::string device = "auto";  ///< as `--device`
  double timeout_seconds = 20;  ///< per evaluation; a hanging worker is killed: Outcome::timeout
  TimingOptions timing;
};

/// Evaluates in a child process: an illegal address, a hang or a crash becomes an outcome, and the
/// worker is restarted. Throws Error, for example Error(no_device), when the worker cannot start at
/// all.
std::unique_ptr<Evaluator> make_worker_evaluator(const WorkerOptions& options);

/// A worker process's device and libraries.
struct WorkerDevice {
  std::unique_ptr<Device> device;
  BaselineLibraries baselines;
};

/// The child's side (`PROGRAM worker --fd N`): serves requests on the socket `fd` until it closes;
/// exits with its parent, ignores SIGINT. Returns the exit status. Calls `open_device` once with
/// the device's name; sends its exceptions to the parent.
int run_worker(int fd, const std::function<WorkerDevice(const std::string&)>& open_device);

}  // namespace tilewise
