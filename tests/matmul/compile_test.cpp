// NVRTC compiles each template for every supported architecture: a pairwise cover of
// configurations, divided among the architectures. Needs no GPU. TILEWISE_FULL=1 compiles more
// configurations, for a third of the kinds of products on each architecture instead of a twentieth.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "device/cuda/cuda.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

#ifdef __SANITIZE_THREAD__
// NVRTC is not built for ThreadSanitizer, which misses how its threads synchronise.
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_suppressions() {
  return "called_from_lib:libnvrtc.so\n";
}
#endif

namespace tilewise::compile_test {
namespace {

struct Job {
  KernelSpec kernel;
  Target target;
  LaunchStep step;
};

/// Problems of the first kind and of every `turns`-th other kind. Layout, alignment and batch of a
/// kind differ between its targets.
std::vector<Problem> problems_for(const KernelTemplate& kernel, const DeviceInfo& device,
                                  std::size_t t, std::size_t turns) {
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < product_kinds().size(); ++i) {
    if (i > 0 && i % turns != t % turns) continue;
    const std::size_t round = t / turns;
    for (const Problem& problem : test::typical_problems(
             kernel, device, test::kLayouts[(t + round + i / turns) % 4], (t + round) % 2 ? 16 : 1,
             product_kinds()[i], (i + round) % 2 ? 3 : 1))
      problems.push_back(problem);
  }
  return problems;
}

/// `limit` configurations per template and target (known to the compiler and the project), divided
/// among the target's problems, each from that many draws.
std::vector<Job> jobs_for(const std::vector<Target>& targets, std::size_t limit, std::size_t turns,
                          int draws) {
  std::vector<Job> jobs;
  for (const KernelTemplate& kernel : catalog()) {
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const DeviceInfo device = nominal_device(targets[t]);
      const std::vector<Problem> problems = problems_for(kernel, device, t, turns);
      for (const Problem& problem : problems) {
        const SearchSpace space(problem, device, {&kernel});
        const std::size_t share = std::max<std::size_t>(1, limit / problems.size());
        for (const Candidate& c : test::pairwise_cover(space, t, share, draws))
          for (const LaunchStep& step : kernel.plan(problem, c.configuration, device).steps)
            jobs.push_back({step.kernel, targets[t], step});
      }
    }
  }
  // Many plans have the same pack or reduce step, which is compiled once.
  std::map<std::string, Job> distinct;
  for (const Job& job : jobs) distinct.emplace(to_string(job.target) + to_string(job.kernel), job);
  jobs.clear();
  for (auto& [key, job] : distinct) jobs.push_back(std::move(job));
  return jobs;
}

/// The blocks per multiprocessor that must fit: BLOCKS_PER_SM by the launch bounds. A programmatic
/// step may be limited to its share of the grid instead (spread_blocks()).
int promised_blocks(const Job& job, const DeviceInfo& device) {
  int promised = 1;
  for (const auto& [name, value] : job.kernel.defines)
    if (name == "BLOCKS_PER_SM") promised = int(value);
  if (!job.step.programmatic) return promised;
  const auto multiprocessors = std::uint64_t(device.multiprocessors);
  const std::uint64_t share = (volume(job.step.grid) + multiprocessors - 1) / multiprocessors;
  return int(std::min(std::uint64_t(promised), share));
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
  const std::vector<Job> jobs = full ? jobs_for(targets, 15, 3, 100) : jobs_for(targets, 2, 20, 10);
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
        if (occupancy_of(job.step, usage, device).blocks < promised_blocks(job, device))
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
  // registers_fit is an estimate: it may be wrong for a few configurations.
  EXPECT_LT(spilled, int(jobs.size()) / 4) << "of " << jobs.size();
  std::printf("%zu kernels for %zu architectures, %d with spills\n", jobs.size(), targets.size(),
              spilled.load());
}

// What portfolios serve for large products on architectures without measurements.
TEST(CompileEverything, PortfoliosCompileForEveryArchitecture) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  int compiled = 0;
  for (const Target& target : known_targets()) {
    const std::vector<Target> can = compiler->targets();
    if (target.major == 9 || std::none_of(can.begin(), can.end(), [&](const Target& one) {
          return one.major == target.major && one.minor == target.minor;
        }))
      continue;
    const DeviceInfo device = nominal_device(target);
    const Resolver portfolio({}, device, "", portfolio_for(device)), none({}, device);
    for (const DType type : {DType::f32, DType::f16}) {
      const Problem problem =
          typed_problem(compiled % 2 == 0 ? Layout::nn : Layout::nt, 2000, 2000, 2000, type, type);
      const Resolution served = resolve_with_portfolio(
          none, [&] { return &portfolio; }, problem);
      for (const LaunchStep& step : plan_of(served.candidate, problem, device).steps) {
        const KernelSource& source = kernel_source(step.kernel.source);
        const CompileResult made =
            compiler->compile({step.kernel, source.text, source.headers, target});
        EXPECT_TRUE(made.image) << to_string(target) << " " << to_string(served.candidate) << ": "
                                << made.log;
        ++compiled;
      }
    }
  }
  EXPECT_GE(compiled, 10);
}

// The winners on the one measured architecture, with the pipeline of each other architecture: large
// register tiles for large products, sliced-K for small ones, vectors for few rows.
std::vector<Candidate> likely_winners(const DeviceInfo& device, const Problem& problem) {
  const int flow = has(device.features, Feature::tma)        ? 6
                   : has(device.features, Feature::cp_async) ? 4
                                                             : 2;
  const auto simt = [&](const Configuration& changed) {
    Configuration c = find_template("simt").default_configuration(problem, device);
    c.set("PREFETCH", flow);
    for (const char* vector : {"VECTOR_A", "VECTOR_B", "VECTOR_C"}) c.set(vector, 4);
    for (const auto& [name, value] : changed.values()) c.set(name, value);
    return Candidate{"simt", c};
  };
  Configuration skinny = find_template("skinny").default_configuration(problem, device);
  skinny.set("VECTOR", 4);
  return {simt({{"TILE_M", 128},
                {"TILE_N", 128},
                {"THREAD_N", 8},
                {"WARP_M", 4},
                {"UNROLL", 8},
                {"BLOCKS_PER_SM", 1}}),
          simt({{"TILE_M", 64},
                {"TILE_N", 128},
                {"THREAD_N", 8},
                {"WARP_M", 4},
                {"UNROLL", 8},
                {"SLICE_K", 2},
                {"BLOCKS_PER_SM", 1}}),
          {"skinny", skinny}};
}

// Compiles one of the three for each architecture; with TILEWISE_FULL=1 all.
TEST(CompileEverything, LikelyWinnersDoNotSpill) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const Problem problem = test::make_problem(Layout::tn, 4096, 4096, 4096);
  int architectures = 0;
  for (const Target& target : compiler->targets()) {
    const auto known = known_targets();
    const auto same = std::find_if(known.begin(), known.end(), [&](const Target& t) {
      return t.major == target.major && t.minor == target.minor;
    });
    if (same == known.end()) continue;
    ++architectures;
    const DeviceInfo device = nominal_device(*same);
    std::vector<Candidate> winners = likely_winners(device, problem);
    if (!std::getenv("TILEWISE_FULL")) winners = {winners[std::size_t(architectures % 3)]};
    for (const Candidate& c : winners) {
      const KernelTemplate& kernel = find_template(c.kernel_template);
      ASSERT_EQ(rejection(kernel, problem, c.configuration, device), "") << to_string(*same);
      const KernelSpec spec = kernel.plan(problem, c.configuration, device).steps.back().kernel;
      const KernelSource& source = kernel_source(spec.source);
      const CompileResult made = compiler->compile({spec, source.text, source.headers, *same});
      ASSERT_TRUE(made.image) << to_string(spec) << made.log;
      EXPECT_EQ(made.image->usage.spill_bytes, 0) << to_string(*same) << ' ' << to_string(spec);
    }
  }
  EXPECT_GE(architectures, 5);
}

// Code that is repeated for each row of C is most of the code and of the compile time. A search
// would try half as many candidates with it.
TEST(CompileEverything, LargeWarpTilesWriteTheirRowsByOneCode) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  Problem problem = test::make_problem(Layout::nn, 4096, 4096, 4096);
  set_types(problem, DType::bf16, DType::bf16, MathMode::strict);
  const Target target{9, 0, true};
  const DeviceInfo device = nominal_device(target);
  const KernelTemplate& mma = find_template("mma");
  const auto code_bytes = [&](int warp_m, int tile_m, int epilogue) {
    Configuration c = mma.default_configuration(problem, device);
    const std::pair<const char*, int> changes[] = {
        {"TILE_M", tile_m},  {"TILE_N", 256},        {"WARP_M", warp_m},
        {"WARP_N", 64},      {"STAGES", 3},          {"BYTES_A", 16},
        {"BYTES_B", 16},     {"EPILOGUE", epilogue}, {"VECTOR_C", epilogue ? 8 : 2},
        {"BLOCKS_PER_SM", 1}};
    for (const auto& [name, value] : changes) c.set(name, value);
    EXPECT_EQ(rejection(mma, problem, c, device), "") << c.text();
    const KernelSpec spec = mma.plan(problem, c, device).steps.back().kernel;
    const KernelSource& source = kernel_source(spec.source);
    const CompileResult made = compiler->compile({spec, source.text, source.headers, target});
    EXPECT_TRUE(made.image) << made.log;
    return made.image ? made.image->binary.size() : 0;
  };
  for (const int epilogue : {0, 1}) {
    const std::size_t one_row = code_bytes(16, 32, epilogue), four = code_bytes(64, 128, epilogue);
    EXPECT_LT(double(four), 1.5 * double(one_row)) << "EPILOGUE " << epilogue;
  }
}

}  // namespace
}  // namespace tilewise::compile_test
