#include "tuner/compile_ahead.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tilewise {
namespace {

// With more threads the device is the bottleneck for any kernel worth timing, and a search with so
// many proposals ahead of its results learns late.
constexpr int kMostThreads = 16;

constexpr std::size_t kBuildsBetweenTrims = 8;

// A compile allocates and frees some 30 MB; the C library retains more of it with each thread.
// After a hundred compiles on 16 threads: 600 MB without the trim, 200 to 350 MB with it.
void give_memory_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

CompileAhead::CompileAhead(const Problem& problem, const DeviceInfo& device,
                           const ImageStore& store, int threads)
    : problem_(problem),
      device_(device),
      store_(store),
      threads_(static_cast<std::size_t>(std::min(thread_count(threads), kMostThreads))),
      pool_(std::in_place, static_cast<int>(threads_)) {}

CompileAhead::~CompileAhead() { ending_ = true; }

std::vector<Built> CompileAhead::end() {
  ending_ = true;
  pool_.reset();
  std::vector<Built> rest;
  for (Result& result : results_)
    if (!result.error) rest.push_back(std::move(result.built));
  results_.clear();
  under_way_ = 0;
  return rest;
}

void CompileAhead::add(const Candidate& candidate, const KernelTemplate& kernel,
                       Patience::Clock::time_point latest) {
  ++under_way_;
  {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
    note_unfinished();
  }
  pool_->run([this, candidate, &kernel, latest] {
    Result result = result_of(candidate, kernel, latest);
    if (++builds_ % kBuildsBetweenTrims == 0) give_memory_back();
    const std::lock_guard lock(mutex_);
    --unfinished_;
    note_unfinished();
    results_.push_back(std::move(result));
    result_added_.notify_one();
  });
}

CompileAhead::Result CompileAhead::result_of(const Candidate& candidate,
                                             const KernelTemplate& kernel,
                                             Patience::Clock::time_point latest) const {
  Result result;
  try {
    const Patience patience{.stopped = [this] { return ending_.load(); }, .latest = latest};
    result.built = build(candidate, kernel, problem_, device_, store_, patience);
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

/// Requires the locked mutex.
void CompileAhead::note_unfinished() {
  if (clock_) clock_->set(BusyClock::compilers, unfinished_ >= threads_);
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

}  // namespace tilewise
