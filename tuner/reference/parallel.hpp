#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace tilewise {

/// 0 means all cores this process may use.
int thread_count(int threads);

/// Calls task(index, worker) once for each index in 0 .. count-1, from `threads` threads (0 = all
/// cores; worker is 0 .. threads-1), in no order. Returns when all are done; the first exception
/// thrown by a task is thrown again here.
void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t index, int worker)>& task);

/// Threads that wait for work, for those who have some again and again. Thread-safe.
class Crew {
 public:
  /// `threads` 0 = all cores.
  explicit Crew(int threads = 0);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Tasks under way are finished, those that wait are dropped.
  ~Crew();
  /// Has a thread run it; the future says when it has, or carries what it threw.
  std::future<void> run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable added_;
  bool ending_ = false;
  std::deque<std::packaged_task<void()>> tasks_;
  std::vector<std::jthread> threads_;  // last: they use all the others
};

}  // namespace tilewise
