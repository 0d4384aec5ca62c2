// The winners of the template "small" on the one measured GPU compile for every architecture
// without spills: two winners for each, with TILEWISE_FULL=1 all. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "device/cuda/cuda.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

namespace tilewise::small_compile_test {
namespace {

struct Winning {
  DType type;
  std::int64_t size;
  Configuration changed;  // changes to the default
};

std::vector<Winning> winning() {
  return {{DType::f32, 8, {{"PRODUCTS", 8}}},
          {DType::f32, 16, {{"THREAD_M", 2}, {"THREAD_N", 8}, {"PRODUCTS", 4}, {"UNROLL", 4}}},
          {DType::f32, 64, {{"THREAD_M", 8}, {"UNROLL", 4}, {"SQUARES", 1}}},
          {DType::f16, 32, {{"THREAD_M", 8}, {"THREAD_N", 8}, {"PRODUCTS", 2}, {"VECTOR_C", 8}}},
          {DType::f64, 32, {{"UNROLL", 4}}}};
}

TEST(SmallCompiles, WithoutSpillsForEveryArchitecture) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const KernelTemplate& kernel = find_template("small");
  int architectures = 0;
  for (const Target& target : known_targets()) {
    const auto targets = compiler->targets();
    const auto same = [&](const Target& t) {
      return t.major == target.major && t.minor == target.minor;
    };
    if (std::none_of(targets.begin(), targets.end(), same)) continue;
    const DeviceInfo device = nominal_device(target);
    std::vector<Winning> winners = winning();
    std::rotate(winners.begin(), winners.begin() + architectures++ % 5, winners.end());
    if (!std::getenv("TILEWISE_FULL")) winners.resize(2);
    for (const Winning& w : winners) {
      Problem problem = test::make_problem(Layout::nn, w.size, w.size, w.size);
      set_types(problem, w.type, w.type, MathMode::strict);
      problem.batch = 4096;
      Configuration c = kernel.default_configuration(problem, device);
      for (const auto& [name, value] : w.changed.values()) c.set(name, value);
      ASSERT_EQ(rejection(kernel, problem, c, device), "") << to_string(problem);
      const KernelSpec spec = kernel.plan(problem, c, device).steps.at(0).kernel;
      const KernelSource& source = kernel_source(spec.source);
      const CompileResult made = compiler->compile({spec, source.text, source.headers, target});
      ASSERT_TRUE(made.image) << to_string(spec) << made.log;
      EXPECT_EQ(made.image->usage.spill_bytes, 0) << to_string(target) << ' ' << to_string(spec);
      EXPECT_EQ(made.image->usage.static_shared_bytes, 0);
    }
  }
  EXPECT_GE(architectures, 5);
}

}  // namespace
}  // namespace tilewise::small_compile_test
