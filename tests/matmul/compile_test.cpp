// Each template compiles by NVRTC for every supported architecture, in a pairwise spread of
// configurations shared out over the architectures; no GPU. TILEWISE_FULL=1 runs five times as
// many.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "device/cuda/cuda.hpp"
#include "templates/search_space.hpp"
#include "templates/sources.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

struct Job {
  KernelSpec kernel;
  Target target;
  LaunchStep step;
};

/// `limit` configurations a template, in turn for each target that the compiler and the project
/// know.
std::vector<Job> jobs_for(const std::vector<Target>& targets, std::size_t limit) {
  std::vector<Job> jobs;
  for (const KernelTemplate& kernel : catalog()) {
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const DeviceInfo device = nominal_device(targets[t]);
      const auto problems =
          test::typical_problems(kernel, device, test::kLayouts[t % 4], t % 2 ? 16 : 4);
      for (const Problem& problem : problems) {
        const SearchSpace space(problem, device, {&kernel});
        for (const Candidate& c : test::pairwise_cover(space, t, limit / problems.size()))
          for (const LaunchStep& step : kernel.plan(problem, c.configuration, device).steps)
            jobs.push_back({step.kernel, targets[t], step});
      }
    }
  }
  // A pack or reduce step appears in many plans: once is enough.
  std::map<std::string, Job> distinct;
  for (const Job& job : jobs) distinct.emplace(to_string(job.target) + to_string(job.kernel), job);
  jobs.clear();
  for (auto& [key, job] : distinct) jobs.push_back(std::move(job));
  return jobs;
}

TEST(CompileEverything, TemplatesCompileForEveryArchitecture) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<Target> targets;
  const std::vector<Target> compilable = compiler->targets();
  for (const Target& target : known_targets())
    for (const Target& can : compilable)
      if (can.major == target.major && can.minor == target.minor) {
        targets.push_back(target);
        break;
      }
  ASSERT_GE(targets.size(), 5u);

  const bool full = std::getenv("TILEWISE_FULL") != nullptr;
  const std::vector<Job> jobs = jobs_for(targets, full ? 60 : 12);
  ASSERT_GE(jobs.size(), 100u);
  std::atomic<std::size_t> next = 0;
  std::atomic<int> spilled = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      const Job& job = jobs[i];
      const KernelSource& source = kernel_source(job.kernel.source);
      const CompileResult made =
          compiler->compile({job.kernel, source.text, source.headers, job.target});
      std::string wrong;
      if (!made.image) {
        wrong = made.log;
      } else {
        const ResourceUsage& usage = made.image->usage;
        const DeviceInfo device = nominal_device(job.target);
        if (usage.registers <= 0 || usage.registers > 255)
          wrong = "registers not read from the log";
        if (usage.static_shared_bytes != 0) wrong = "static shared memory: the dialect has none";
        // The launch bounds promise that BLOCKS_PER_SM blocks fit.
        int promised = 1;
        for (const auto& [name, value] : job.kernel.defines)
          if (name == "BLOCKS_PER_SM") promised = int(value);
        if (occupancy_of(job.step, usage, device).blocks < promised)
          wrong = "fewer blocks fit than promised";
        spilled += usage.spill_bytes > 0;
      }
      if (!wrong.empty()) {
        const std::lock_guard lock(mutex);
        failures.push_back(to_string(job.target) + ' ' + to_string(job.kernel) + ": " + wrong);
      }
    }
  };
  std::vector<std::jthread> pool;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    pool.emplace_back(work);
  pool.clear();
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
  // registers_fit is an estimate: it may be wrong now and then, not as a rule.
  EXPECT_LT(spilled, int(jobs.size()) / 4) << "of " << jobs.size();
  std::printf("%zu kernels for %zu architectures, %d with spills\n", jobs.size(), targets.size(),
              spilled.load());
}

}  // namespace
}  // namespace tilewise
