#include <filesystem>
#include <set>

#include "db/image_cache.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "matmul/executable.hpp"
#include "matmul/image_store.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"
#include "tests/drop_in/random_calls.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::drop_in {
namespace {

/// Compiles, on all cores, the kernels with which the drop-in answers these problems without a
/// database. The drop-in itself compiles one at a time.
void compile(const std::vector<Problem>& problems, const DeviceInfo& info, ImageCache& cache) {
  const Resolver stored({}, info),
      portfolio({}, info, "", portfolio_for(info),
                [&](const Problem&kind) { return portfolio_corrections(kind, info); });
  struct Job {
    Candidate candidate;
    Problem problem;
  };
  std::vector<Job> jobs;
  std::set<KernelSpec> kernels;
  for (const Problem& problem : problems) {
    const Candidate candidate = resolve_with_portfolio(
                                    stored, [&] { return &portfolio; }, problem)
                                    .candidate;
    bool is_new = false;
    for (const auto& [kernel, need] : kernel_needs(plan_of(candidate, problem, info)))
      is_new |= kernels.insert(kernel).second;
    if (is_new) jobs.push_back({candidate, problem});
  }
  const std::unique_ptr<Compiler> compiler = load_compiler(info.target);
  const ImageStore store(nullptr, &cache, compiler.get());
  parallel_for(static_cast<std::int64_t>(jobs.size()), 0, [&](std::int64_t i, int) {
    const auto& [candidate, problem] = jobs[static_cast<std::size_t>(i)];
    build(candidate, find_template(candidate.kernel_template), problem, info, store);
  });
}

TEST_F(RandomCalls, HaveTheResultsOfCublas) {
  std::unique_ptr<Device> device;
  try {
    device = open_device("auto");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  if (device->info().target.host) GTEST_SKIP() << "no GPU";
  // Without a database, so the shipped portfolio answers.
  const std::filesystem::path none = testing::TempDir() + "drop_in_random_calls_gpu/none.db";
  setenv("TILEWISE_DB", none.c_str(), 1);
  const int calls = count(2000);
  if (!start(std::move(device), {"libcublas.so.13", "libcublas.so.12"},
             std::clamp(calls / 50, 64, 2000), 200, 96 << 20))
    GTEST_SKIP() << "no cuBLAS";
  ImageCache cache(image_cache_path(none));
  compile(problems(), device_->info(), cache);
  compare(calls);
}

}  // namespace
}  // namespace tilewise::drop_in
