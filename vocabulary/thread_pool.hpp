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

/// Cores this process may use.
int usable_cores();
/// `threads`, or usable_cores() where it is 0.
int thread_count(int threads);

/// Threads that wait for tasks. Thread-safe. fork() copies no threads: a child process must not use
/// its parent's pool.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  /// Tasks under way are finished, waiting ones are dropped.
  ~ThreadPool();

  std::size_t size() const { return threads_.size(); }

  /// Runs the task in a thread; the future becomes ready when it ended, or holds what it threw.
  std::future<void> run(std::function<void()> task);

  /// Calls task(index, worker) once for each index in 0 .. count-1, in no order, from the calling
  /// thread (worker 0) and the pool's (1 .. size()); one worker makes one call at a time. Returns
  /// when all are done. After the first exception no further index begins; it is thrown here.
  void for_each(std::int64_t count,
                const std::function<void(std::int64_t index, int worker)>& task);

 private:
  struct Loop;
  struct Task {
    std::function<void(int worker)> work;
    const Loop* loop = nullptr;  // the loop it is a share of, if any
  };
  void wait_for_tasks(int worker);

  std::mutex mutex_;  // guards what follows
  std::condition_variable task_added_;
  bool ending_ = false;
  std::deque<Task> tasks_;
  std::vector<std::jthread> threads_;  // last: they use all the others
};

/// ThreadPool::for_each() with threads of its own: `threads` in all (0 = all cores), at most one
/// for each index.
void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t index, int worker)>& task);

}  // namespace tilewise
