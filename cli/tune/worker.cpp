#include "tuner/worker/worker.hpp"
#include "cli/command.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/signals.hpp"
#include "device/machines.hpp"

namespace tilewise::cli {
namespace {

/// The hidden subcommand that the tuner starts as a worker process; it validates and times.
struct WorkerCommand {
  int fd = -1;
};

void setup(CLI::App& app, WorkerCommand& options) {
  app.add_option("--fd", options.fd, "Socket to the parent")
      ->required()
      ->transform(whole_number(0));
  app.group("");  // hidden
}

int run(const WorkerCommand& options, const Output&) {
  ignore_interrupts();
  return run_worker(options.fd, [](const std::string& which) {
    WorkerDevice worker;
    worker.device = open_device(which);
    worker.baselines = load_baselines(*worker.device);
    return worker;
  });
}

}  // namespace

void add_worker(CLI::App& app, Selection& selection) {
  add_command<WorkerCommand>(app, selection, "worker", "Serves evaluations to a tuner", setup, run);
}

}  // namespace tilewise::cli
