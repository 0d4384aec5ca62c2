#include "cli/common/bench.hpp"

#include <cstdlib>

#include "cli/common/inputs.hpp"
#include "cli/common/output.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/evaluate/evaluator_local.hpp"
#include "tuner/worker/worker.hpp"

namespace tilewise::cli {

void add_device_option(CLI::App& app, std::string& device, const std::string& text) {
  add_list_option(app, "--device", device, text)->type_name("{auto,all,0,1,UUID,host}");
}

void add_nvrtc_option(CLI::App& app, std::string& nvrtc) {
  app.add_option("--nvrtc", nvrtc,
                 "NVRTC: the library file or its folder (else TILEWISE_NVRTC, else searched)")
      ->type_name("PATH");
}

void add_database_option(CLI::App& app, std::string& database) {
  app.add_option("--db", database, "Database file (else TILEWISE_DB, else the user's data folder)")
      ->type_name("FILE");
  // The worker process inherits the environment variable.
  app.add_flag_callback(
      "--trust-files", [] { setenv("TILEWISE_TRUST_FILES", "1", 1); },
      "Use a database that other users own or may write: what is stored in it is run");
}

void add_bench_options(CLI::App& app, BenchOptions& options) {
  add_device_option(
      app, options.device,
      "GPU: auto (the first, else the CPU), all, an index, a UUID; or the CPU: host, host:sm_90; "
      "several as 0,1");
  app.add_flag("--in-process", options.in_process,
               "Measure in this process, not in a worker that may die (for debuggers)");
  app.add_flag("--warm", options.warm, "Time with operands left in the cache");
  add_nvrtc_option(app, options.nvrtc);
}

std::vector<Gpu> gpus_to_measure_on(const std::string& device, const Output& output,
                                    bool one_of_each_kind) {
  std::vector<Gpu> gpus;
  try {
    gpus = choose_gpus(device, one_of_each_kind);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::no_device || device != "all") throw;
    throw Error(ErrorKind::no_device,
                std::string(error.what()) +
                    "; without a GPU, kernels can be compiled (autotune compile --arch sm_90 "
                    "--sizes 1024), and run on the CPU (--device host)");
  }
  for (const auto& identical : group_identical(gpus))
    if (const Gpu& gpu = identical.front(); gpu.info.target.host)
      warn((gpu.why_host.empty() ? "" : gpu.why_host + ", so ") + "kernels run on the CPU, as " +
           to_string(gpu.info.target).substr(5) +
           "; times are the CPU's and say nothing about a GPU");
  print_left_out(gpus, output);
  return gpus;
}

std::unique_ptr<Compiler> compiler_if_any(const Target& target, const std::string& nvrtc) {
  try {
    return load_compiler(target, nvrtc);
  } catch (const Error& error) {
    if (!nvrtc.empty() || error.kind() != ErrorKind::compiler) throw;
    warn(std::string(error.what()) + " (only stored images can be measured)");
    return nullptr;
  }
}

// Times on the CPU only compare candidates: operands are warm, and other processes disturb the
// times whatever the number of samples.
TimingOptions timing_on(const DeviceInfo& info, bool warm) {
  TimingOptions timing;
  timing.cold = !warm;
  if (!info.target.host) return timing;
  timing.cold = false;
  timing.max_seconds = 0.1;
  timing.max_samples = 20;
  timing.target_spread = 0.02;
  timing.race_rounds = 5;
  return timing;
}

Bench::Bench(const Gpu& gpu, const BenchOptions& options) {
  const TimingOptions timing = timing_on(gpu.info, options.warm);
  if (options.in_process) {
    device_ = open_device(gpu.which);
    baselines_ = load_baselines(*device_);
    evaluator_ = make_local_evaluator(*device_, pointers_to(baselines_), timing);
    return;
  }
  WorkerOptions worker;
  worker.device = gpu.which;
  worker.timing = timing;
  evaluator_ = make_worker_evaluator(worker);
}

std::shared_ptr<Evaluator> open_evaluator(const Gpu& gpu, const BenchOptions& options) {
  auto bench = std::make_shared<Bench>(gpu, options);
  Evaluator* const evaluator = &bench->evaluator();
  return std::shared_ptr<Evaluator>(std::move(bench), evaluator);
}

DeviceStatus status_of(const Gpu& gpu) { return open_device(gpu.which)->status(); }

bool measures_energy(const Gpu& gpu) { return tilewise::measures_energy(*open_device(gpu.which)); }

}  // namespace tilewise::cli
