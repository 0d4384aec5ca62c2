#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/common/gpus.hpp"
#include "device/compiler.hpp"
#include "tuner/evaluate/evaluator.hpp"

/// Shared by subcommands that measure: options, and a GPU with an evaluator.
namespace tilewise::cli {

struct BenchOptions {
  std::string device = "auto";
  bool in_process = false;
  bool warm = false;
  std::string nvrtc;
};
void add_bench_options(CLI::App& app, BenchOptions& options);
/// Adds only --device.
void add_device_option(CLI::App& app, std::string& device, const std::string& text);
/// Adds only --nvrtc.
void add_nvrtc_option(CLI::App& app, std::string& nvrtc);
/// Adds --db and --trust-files.
void add_database_option(CLI::App& app, std::string& database);

/// choose_gpus(). Prints a note when the CPU is chosen, and which identical GPUs are left out. For
/// "all" without a GPU, the error names devices that work without one.
std::vector<Gpu> gpus_to_measure_on(const std::string& device, const Output& output,
                                    bool one_of_each_kind);

/// The target's compiler. Null with a warning where there is none, since stored images may suffice.
/// Throws when --nvrtc names an NVRTC that is not there.
std::unique_ptr<Compiler> compiler_if_any(const Target& target, const std::string& nvrtc);

/// How products are timed on a device: cold unless `warm`. On the CPU times are short and always
/// warm.
TimingOptions timing_on(const DeviceInfo& info, bool warm);

/// A GPU with its evaluator. Owns the worker process (or the device, in process).
class Bench {
 public:
  Bench(const Gpu& gpu, const BenchOptions& options);
  Evaluator& evaluator() { return *evaluator_; }

 private:
  std::unique_ptr<Device> device_;
  BaselineLibraries baselines_;
  std::unique_ptr<Evaluator> evaluator_;
};

/// An evaluator of the GPU. It owns the bench.
std::shared_ptr<Evaluator> open_evaluator(const Gpu& gpu, const BenchOptions& options);

/// The current state of a GPU. Opens the device and closes it again.
DeviceStatus status_of(const Gpu& gpu);
/// Whether the GPU can measure energy. Opens the device and closes it again.
bool measures_energy(const Gpu& gpu);

}  // namespace tilewise::cli
