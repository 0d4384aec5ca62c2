#include "tuner/compile_ahead.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "device/elf.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

// Beyond this the device is the bottleneck for any kernel worth timing, and a search that is so
// many proposals ahead of its results learns late.
constexpr unsigned kMostThreads = 16;

constexpr std::size_t kBuildsBetweenTrims = 8;

// A compile takes some 30 MB and frees them, of which the C library keeps more and more for each
// thread: without this, 600 MB after a hundred compiles on 16 threads; with it, 200 to 350.
void give_memory_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

std::size_t thread_count(int asked) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return std::min(asked > 0 ? static_cast<unsigned>(asked) : cores, kMostThreads);
}

const LaunchStep* multiply_step(const Plan& plan) {
  const auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                                 [](const LaunchStep& s) { return s.role == StepRole::multiply; });
  return step == plan.steps.end() ? nullptr : &*step;
}

}  // namespace

Built build(const Candidate& candidate, const KernelTemplate& kernel, const Problem& problem,
            const DeviceInfo& device, const ImageStore& store, const Patience& patience) {
  Built built;
  built.candidate = candidate;
  built.launch_revision = launch_revision(kernel);
  built.plan = kernel.plan(problem, candidate.configuration, device);
  const LaunchStep* multiply = multiply_step(built.plan);
  if (multiply && store.compiler())
    built.source_hash = source_hash(multiply->kernel, store.compiler()->identity());
  std::string code;
  for (const LaunchStep& step : built.plan.steps) {
    if (!store.compiler() && !store.stored(step.kernel, device.target, built.launch_revision)) {
      built.missing = true;
      return built;
    }
    ImageStore::Made made;
    try {
      made = store.make(step.kernel, device.target, built.launch_revision, patience);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::database) throw;
      built.fault = error.what();
      return built;
    }
    built.compiled |= made.compiled;
    built.stopped = made.stopped;
    if (made.stopped) return built;
    if (!made.image) {
      built.refusal = made.log.empty() ? "the compiler gave no image and no reason" : made.log;
      return built;
    }
    built.compile_ms += made.image->compile_ms;
    if (&step == multiply) built.source_hash = made.image->source_hash;
    code += code_hash(made.image->binary);
    built.images.push_back(std::move(*made.image));
  }
  if (!code.empty()) built.code_hash = hash_text(code);
  return built;
}

std::string current_source_hash(const Candidate& candidate, const KernelTemplate& kernel,
                                const Problem& problem, const DeviceInfo& device,
                                const ImageStore& store) {
  const Plan plan = kernel.plan(problem, candidate.configuration, device);
  const LaunchStep* multiply = multiply_step(plan);
  if (!multiply) return "";
  if (store.compiler()) return source_hash(multiply->kernel, store.compiler()->identity());
  const auto image = store.stored(multiply->kernel, device.target, launch_revision(kernel));
  return image ? image->source_hash : "";
}

CompileAhead::CompileAhead(const Problem& problem, const DeviceInfo& device,
                           const ImageStore& store, int threads)
    : problem_(problem), device_(device), store_(store) {
  const std::size_t count = thread_count(threads);
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
}

CompileAhead::~CompileAhead() { join(); }

void CompileAhead::join() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  job_added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<Built> CompileAhead::end() {
  join();
  std::vector<Built> rest;
  for (Result& result : results_)
    if (!result.error) rest.push_back(std::move(result.built));
  results_.clear();
  under_way_ = 0;
  return rest;
}

void CompileAhead::add(const Candidate& candidate, const KernelTemplate& kernel) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({candidate, &kernel});
  }
  ++under_way_;
  job_added_.notify_one();
}

std::optional<Built> CompileAhead::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!result_added_.wait_for(lock, patience, [this] { return !results_.empty(); }))
    return std::nullopt;
  Result result = std::move(results_.front());
  results_.pop_front();
  --under_way_;
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.built);
}

void CompileAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    job_added_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (ending_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Result result;
    try {
      const Patience patience{.stopped = [this] { return ending_.load(); }};
      result.built = build(job.candidate, *job.kernel, problem_, device_, store_, patience);
    } catch (...) {
      result.error = std::current_exception();
    }
    if (++builds_ % kBuildsBetweenTrims == 0) give_memory_back();
    lock.lock();
    results_.push_back(std::move(result));
    result_added_.notify_one();
  }
}

}  // namespace tilewise
