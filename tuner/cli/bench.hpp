#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "tuner/cli/gpus.hpp"
#include "tuner/evaluate/evaluator.hpp"

/// What subcommands that measure share: their options, and a GPU with an evaluator.
namespace tilewise::cli {

struct BenchOptions {
  std::string device = "auto";
  bool in_process = false;
  bool warm = false;
  std::string nvrtc;
};
void add_bench_options(CLI::App& app, BenchOptions& options);
/// --device alone.
void add_device_option(CLI::App& app, std::string& device, const std::string& text);
/// --nvrtc alone.
void add_nvrtc_option(CLI::App& app, std::string& nvrtc);
/// --db and --trust-files.
void add_database_option(CLI::App& app, std::string& database);

/// choose_gpus(), one of each kind. Says plainly when that is the CPU, and which alike GPUs are
/// left out; where "all" finds no GPU, the error says what can be done without one.
std::vector<Gpu> gpus_to_measure_on(const std::string& device, const Output& output);

/// The target's compiler, or null with a warning where none is found: what is stored may do. An
/// NVRTC that --nvrtc names must be there.
std::unique_ptr<Compiler> compiler_if_any(const Target& target, const std::string& nvrtc);

/// How products are timed on a device: cold unless `warm`; on the CPU always warm, and briefly.
TimingOptions timing_on(const DeviceInfo& info, bool warm);

/// A GPU being measured on. The worker process (or the device, in process) lives as long as this.
class Bench {
 public:
  Bench(const Gpu& gpu, const BenchOptions& options);
  Evaluator& evaluator() { return *evaluator_; }

 private:
  std::unique_ptr<Device> device_;
  BaselineLibraries baselines_;
  std::unique_ptr<Evaluator> evaluator_;
};

/// The state of a GPU now. Opens the device and closes it again.
DeviceStatus status_of(const Gpu& gpu);

}  // namespace tilewise::cli
