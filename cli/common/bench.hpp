#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/common/gpus.hpp"
#include "device/compiler.hpp"
#include "tuner/evaluate/evaluator.hpp"

/// What measuring subcommands share: options, and a GPU with an evaluator.
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

/// choose_gpus(). Prints a note when the CPU is chosen, and which alike GPUs are left out. The
/// error of "all" without a GPU names what works without one.
std::vector<Gpu> gpus_to_measure_on(const std::string& device, const Output& output,
                                    bool one_of_each_kind);

/// The target's compiler; null with a warning where there is none, since stored images may suffice.
/// Throws when --nvrtc names an NVRTC that is not there.
std::unique_ptr<Compiler> compiler_if_any(const Target& target, const std::string& nvrtc);

/// How products are timed on a device: cold unless `warm`; on the CPU always warm, and briefly.
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

/// Its evaluator, which owns the rest.
std::shared_ptr<Evaluator> open_evaluator(const Gpu& gpu, const BenchOptions& options);

/// The state of a GPU now. Opens the device and closes it again.
DeviceStatus status_of(const Gpu& gpu);
/// Whether energy can be measured on it. Opens the device and closes it again.
bool measures_energy(const Gpu& gpu);

}  // namespace tilewise::cli
