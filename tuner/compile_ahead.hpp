#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "matmul/build.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

/// A pool of threads that builds candidates while the device measures others. They come back as
/// they are ready. Used from one thread; ends after the compiles under way, dropping what waits for
/// a thread, or for another process.
class CompileAhead {
 public:
  /// `threads` 0 = all cores.
  CompileAhead(const Problem& problem, const DeviceInfo& device, const ImageStore& store,
               int threads);
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead();

  void add(const Candidate& candidate, const KernelTemplate& kernel);
  /// The next that is ready; nothing when none was within `patience`. Throws what its build threw.
  std::optional<Built> take(std::chrono::milliseconds patience);
  /// Ends the threads, after the compiles under way. Returns what was ready or has been made ready
  /// by then; builds that threw are left out. Nothing can be added any more.
  std::vector<Built> end();
  /// Added and not yet taken.
  std::size_t under_way() const { return under_way_; }
  /// Enough is under way to keep every thread busy. More would only make a search choose with less
  /// known.
  bool full() const { return under_way_ > pool_->size(); }

 private:
  struct Result {
    Built built;
    std::exception_ptr error;
  };
  Result result_of(const Candidate& candidate, const KernelTemplate& kernel) const;

  const Problem problem_;
  const DeviceInfo device_;
  const ImageStore& store_;
  std::size_t under_way_ = 0;
  std::atomic<std::size_t> builds_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable result_added_;
  std::deque<Result> results_;
  std::optional<ThreadPool> pool_;  // last: its threads use all the others; none after end()
};

}  // namespace tilewise
