#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace tilewise {

/// `threads`, or usable_cores() when it is 0.
int thread_count(int threads);

/// A pool of threads that run tasks. Thread-safe. fork() copies no threads: a child process must
/// not use its parent's pool.
class ThreadPool {
 public:
  /// Throws std::system_error if the system refuses a thread.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  /// Finishes running tasks and drops waiting ones.
  ~ThreadPool();

  std::size_t size() const { return threads_.size(); }

  /// Runs the task in a pool thread. The future becomes ready at its end, with an exception if the
  /// task threw.
  std::future<void> run(std::function<void()> task);

  /// Calls task(index, worker) once for each index in 0 .. count-1, in any order, on the calling
  /// thread (worker 0) and the pool's threads (1 .. size()); a worker makes one call at a time.
  /// Returns after the last call. After the first exception no further index begins; the exception
  /// is rethrown here.
  void for_each(std::int64_t count,
                const std::function<void(std::int64_t index, int worker)>& task);

 private:
  struct Loop;
  struct Task {
    std::function<void(int worker)> work;
    const Loop* loop = nullptr;  // the loop of this share, if any
  };
  void wait_for_tasks(int worker);
  void end();

  std::mutex mutex_;  // guards all members below
  std::condition_variable task_added_;
  bool ending_ = false;
  std::deque<Task> tasks_;
  std::vector<std::jthread> threads_;  // last: they use all other members
};

/// ThreadPool::for_each() on its own `threads` threads (0 = all cores), at most one per index.
void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t index, int worker)>& task);

}  // namespace tilewise
