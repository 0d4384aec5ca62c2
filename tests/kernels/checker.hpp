#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/cpu/cpu.hpp"
#include "device/device.hpp"
#include "tests/kernels/check_cases.hpp"
#include "tests/kernels/problem_run.hpp"

namespace tilewise::check {

/// The beginning of Checker::check()'s text for a case whose kernel does not compile.
inline constexpr std::string_view kDoesNotCompile = "does not compile";

/// The CPU executor's device for the checks. Persistent kernels have the same number of blocks on
/// any machine.
inline DeviceInfo checked_info(const Options& options) {
  DeviceInfo info = cpu::device_info(options.device);
  info.multiprocessors = 2;
  return info;
}

/// Runs cases in this process, with blocks on the calling thread, or on a GPU.
class Checker {
 public:
  Checker(const Options& options, const Compiler& compiler, Device* gpu = nullptr);

  /// Checks a case. Returns "", or a description of the failure with its source line if it can be
  /// found. The case's number determines which shape has which thread order. Adds the number of
  /// products to `products`.
  std::string check(const Case& c, std::size_t number, std::atomic<std::int64_t>& products);

 private:
  struct Run {  // one product of a case
    Device& device;
    cpu::ThreadOrder order;
    Problem problem;
    Round round;
    std::uint64_t seed;
  };
  /// `watch`: report the store to the first wrong element.
  std::string check(const Case& c, const Run& run, bool watch);
  /// Compiles the image of each step. Returns "", or the compiler's message.
  std::string images_of(const Plan& plan, std::vector<Image>& images);
  std::string explain(const Case& c, const Run& run);
  const CompileResult& image(const KernelSpec& kernel);

  const Options& options_;
  const Compiler& compiler_;
  Device* gpu_;
  const DeviceInfo info_;
  std::map<KernelSpec, CompileResult> images_;  ///< packs and reductions occur in many plans
};

}  // namespace tilewise::check
