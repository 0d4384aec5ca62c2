#include "vocabulary/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "vocabulary/machine_limits.hpp"

namespace tilewise {

int thread_count(int threads) { return threads > 0 ? threads : usable_cores(); }

/// A for_each() in progress.
struct ThreadPool::Loop {
  const std::int64_t count;
  const std::function<void(std::int64_t, int)>& task;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex{};  // guards all members below
  std::condition_variable share_ended{};
  std::size_t shares = 0;  // pool threads' shares that have not ended
  std::exception_ptr failure{};

  void take_indices(int worker) {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i, worker);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  void end_shares(std::size_t ended) {
    const std::lock_guard lock(mutex);
    shares -= ended;
    // Under the lock: the caller destroys the loop as soon as no share is left.
    if (shares == 0) share_ended.notify_one();
  }
};

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i <= threads; ++i) threads_.emplace_back([this, i] { wait_for_tasks(i); });
  } catch (...) {  // the system refused a thread: earlier threads must not wait for ever
    end();
    throw;
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  task_added_.notify_all();
}

std::future<void> ThreadPool::run(std::function<void()> task) {
  const auto packaged = std::make_shared<std::packaged_task<void()>>(std::move(task));
  std::future<void> done = packaged->get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({[packaged](int) { (*packaged)(); }});
  }
  task_added_.notify_one();
  return done;
}

void ThreadPool::for_each(std::int64_t count, const std::function<void(std::int64_t, int)>& task) {
  Loop loop{count, task};
  const auto others = std::min<std::int64_t>(std::ssize(threads_), count - 1);
  if (others > 0) {
    loop.shares = static_cast<std::size_t>(others);
    {
      const std::lock_guard lock(mutex_);
      for (std::int64_t i = 0; i < others; ++i)
        tasks_.push_back({[&loop](int worker) {
                            loop.take_indices(worker);
                            loop.end_shares(1);
                          },
                          &loop});
    }
    task_added_.notify_all();
  }
  loop.take_indices(0);
  if (others > 0) {
    std::size_t not_begun = 0;
    {  // drops the shares that have not begun: no index is left
      const std::lock_guard lock(mutex_);
      not_begun = std::erase_if(tasks_, [&](const Task& t) { return t.loop == &loop; });
    }
    loop.end_shares(not_begun);
    std::unique_lock lock(loop.mutex);
    loop.share_ended.wait(lock, [&] { return loop.shares == 0; });
  }
  if (loop.failure) std::rethrow_exception(loop.failure);
}

void ThreadPool::wait_for_tasks(int worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    task_added_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.work(worker);
    lock.lock();
  }
}

void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t, int)>& task) {
  const std::int64_t workers = std::min<std::int64_t>(thread_count(threads), count);
  ThreadPool(static_cast<int>(std::max<std::int64_t>(workers, 1) - 1)).for_each(count, task);
}

}  // namespace tilewise
