#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"
#include "device/host/host.hpp"
#include "tests/kernels/check_cases.hpp"
#include "tests/kernels/problem_run.hpp"

namespace tilewise::check {

/// Runs cases in this process, blocks on the calling thread, in each thread order.
class Checker {
 public:
  Checker(const Options& options, const Compiler& compiler);

  /// Empty, or what is wrong: with as much as can be found out of the line it comes from.
  /// `products` grows by what was multiplied.
  std::string check(const Case& c, std::int64_t& products);

 private:
  struct Run {  // one product of a case
    Device& device;
    host::ThreadOrder order;
    Problem problem;
    Round round;
    std::uint64_t seed;
  };
  /// `watch`: who writes the first wrong element is to be reported.
  std::string check(const Case& c, const Run& run, bool watch);
  /// Of each step. Empty, or what the compiler says.
  std::string images_of(const Plan& plan, std::vector<Image>& images);
  std::string explain(const Case& c, const Run& run);
  const CompileResult& image(const KernelSpec& kernel);

  const Options& options_;
  const Compiler& compiler_;
  const DeviceInfo info_;
  std::map<KernelSpec, CompileResult> images_;  ///< packs and reductions are in many plans
};

}  // namespace tilewise::check
