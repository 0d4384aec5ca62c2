#include "tuner/reference/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace tilewise {

int thread_count(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t index, int worker)>& task) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](int worker) {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i, worker);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const auto workers = static_cast<int>(
      std::min<std::int64_t>(thread_count(threads), std::max<std::int64_t>(count, 1)));
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

Crew::Crew(int threads) {
  const int count = thread_count(threads);
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  added_.notify_all();
}

std::future<void> Crew::run(std::function<void()> task) {
  std::packaged_task<void()> packaged(std::move(task));
  std::future<void> done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(packaged));
  }
  added_.notify_one();
  return done;
}

void Crew::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace tilewise
