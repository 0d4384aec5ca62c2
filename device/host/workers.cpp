#include "device/host/workers.hpp"

#include <sched.h>

#include <algorithm>

namespace tilewise::host {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Workers::Workers(const HostOptions& options) {
  const int count = options.workers > 0 ? options.workers : usable_cores();
  for (int i = 0; i < count; ++i) runners_.push_back(std::make_unique<BlockRunner>(options));
  for (std::size_t i = 1; i < runners_.size(); ++i)
    threads_.emplace_back([this, i] { wait_for_work(i); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::string Workers::run(const BlockWork& work) {
  const std::lock_guard one_grid(launch_);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    blocks_ = std::uint64_t{work.grid.x} * work.grid.y * work.grid.z;
    next_ = 0;
    failure_.clear();
    ++launches_;
    busy_ = blocks_ > 1 ? threads_.size() : 0;
  }
  if (blocks_ > 1) begun_.notify_all();
  take_blocks(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  return failure_;
}

void Workers::wait_for_work(std::size_t worker) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return ending_ || (launches_ != seen && busy_ > 0); });
    if (ending_) return;
    seen = launches_;
    lock.unlock();
    take_blocks(worker);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

void Workers::take_blocks(std::size_t worker) {
  const BlockWork& work = *work_;
  for (std::uint64_t i = next_++; i < blocks_; i = next_++) {
    const std::uint64_t row = i / work.grid.x;
    const Index block{static_cast<unsigned>(i % work.grid.x),
                      static_cast<unsigned>(row % work.grid.y),
                      static_cast<unsigned>(row / work.grid.y)};
    std::string wrong = runners_[worker]->run(work, block);
    if (wrong.empty()) continue;
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = std::move(wrong);
    next_ = blocks_;
  }
}

}  // namespace tilewise::host
