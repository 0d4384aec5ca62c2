#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "matmul/build.hpp"
#include "tuner/busy_clock.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

/// How long to wait for a build before checking the clock and Ctrl-C again.
inline constexpr std::chrono::milliseconds kBuildPatience{50};

/// A pool of threads that builds candidates while the device measures others. Results are taken in
/// the order in which they finish. Used from one thread. The destructor waits for running compiles
/// and drops candidates that wait for a thread or for another process.
class CompileAhead {
 public:
  /// `threads` 0 = all cores.
  CompileAhead(const Problem& problem, const DeviceInfo& device, const ImageStore& store,
               int threads);
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead();

  /// A build that would start compiling after `latest` is `late`.
  void add(const Candidate& candidate, const KernelTemplate& kernel,
           Patience::Clock::time_point latest = Patience::Clock::time_point::max());
  /// The next finished build; empty when none finished within `patience`. Rethrows the build's
  /// exception.
  std::optional<Built> take(std::chrono::milliseconds patience);
  /// Ends the threads after the running compiles. Returns the builds not taken yet, except those
  /// that threw. add() must not be called afterwards.
  std::vector<Built> end();
  /// Candidates added and not yet taken.
  std::size_t under_way() const { return under_way_; }
  /// Whether enough builds are under way to keep every thread busy. With more, a search would
  /// choose without results that it could have waited for.
  bool full() const { return under_way_ > threads_; }
  /// `clock` is notified when all threads have a build, and when one has none. Call before the
  /// first add().
  void set_clock(BusyClock* clock) { clock_ = clock; }

 private:
  struct Result {
    Built built;
    std::exception_ptr error;
  };
  Result result_of(const Candidate& candidate, const KernelTemplate& kernel,
                   Patience::Clock::time_point latest) const;

  const Problem problem_;
  const DeviceInfo device_;
  const ImageStore& store_;
  const std::size_t threads_;
  void note_unfinished();

  BusyClock* clock_ = nullptr;
  std::size_t under_way_ = 0;
  std::atomic<std::size_t> builds_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // guards all members below
  std::condition_variable result_added_;
  std::deque<Result> results_;
  std::size_t unfinished_ = 0;      ///< builds added and not done
  std::optional<ThreadPool> pool_;  // last: its threads use all other members; empty after end()
};

}  // namespace tilewise
