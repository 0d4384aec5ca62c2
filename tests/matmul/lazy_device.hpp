#pragma once
// A fake device whose streams run as late as possible, so that a missing wait causes a wrong
// result.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "fake_product.hpp"

namespace tilewise::test {

/// Work stays in its stream until the host waits for it, directly or through other work.
/// Thread-safe. Also counts memory and can fail.
class LazyDevice : public FakeDevice {
 public:
  ~LazyDevice() override { EXPECT_EQ(streams_.size(), 0U) << "every stream is destroyed"; }

  // Set by tests before the product.
  int fail_at_copy = -1;  ///< index of the copy that fails, in either direction
  int fail_at_launch = -1;
  std::atomic<std::int64_t> most_taken{0};  ///< largest number of bytes of device memory in use

  void* allocate(std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    void* made = FakeDevice::allocate(bytes);
    count(bytes);
    return made;
  }
  void free(void* pointer) noexcept override {
    const std::lock_guard lock(mutex_);
    taken_ = 0;  // a test runs one product at a time, with one allocation
    FakeDevice::free(pointer);
  }
  void* allocate_async(std::int64_t bytes, Stream stream) override {
    const std::lock_guard lock(mutex_);
    void* made = FakeDevice::allocate_async(bytes, stream);
    count(bytes);
    workspace_bytes_[made] = bytes;
    return made;
  }
  void free_async(void* pointer, Stream stream) override {
    push(stream, [this, pointer, stream] {
      taken_ -= workspace_bytes_[pointer];
      FakeDevice::free_async(pointer, stream);
    });
  }
  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    if (copies_++ == fail_at_copy) throw Error(ErrorKind::device, "fake: the copy failed");
    push(stream, [=, this] { FakeDevice::copy_to_device(to, from, bytes, stream); });
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    if (copies_++ == fail_at_copy) throw Error(ErrorKind::device, "fake: the copy failed");
    push(stream, [=, this] { FakeDevice::copy_to_host(to, from, bytes, stream); });
  }
  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) override {
    if (launches_++ == fail_at_launch) throw Error(ErrorKind::device, "fake: the launch failed");
    std::vector<std::byte> kept(sizeof(FakeMultiplyArgs));
    std::memcpy(kept.data(), arguments, kept.size());
    push(stream, [=, this, &kernel] { FakeDevice::launch(kernel, shape, kept.data(), stream); });
  }

  Stream create_stream() override {
    const std::lock_guard lock(mutex_);
    auto made = std::make_unique<Queue>();
    const Stream stream(static_cast<void*>(made.get()));
    streams_[stream] = std::move(made);
    return stream;
  }
  void destroy_stream(Stream stream) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streams_[stream]->work.empty()) << "a stream is waited for before it ends";
    streams_.erase(stream);
  }
  void synchronize(Stream stream) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = streams_.find(stream); found != streams_.end())
      run(*found->second, found->second->pushed);
  }
  std::unique_ptr<tilewise::Event> create_event() override {
    return std::make_unique<Event>(*this);
  }

 private:
  struct Queue {
    std::deque<std::function<void()>> work;
    std::int64_t pushed = 0, done = 0;
  };

  class Event : public tilewise::Event {
   public:
    explicit Event(LazyDevice& device) : device_(device) {}
    void record(Stream stream) override {
      const std::lock_guard lock(device_.mutex_);
      queue_ = stream;
      at_ = device_.streams_.at(stream)->pushed;
    }
    void wait() override {
      const std::lock_guard lock(device_.mutex_);
      device_.reach(queue_, at_);
    }
    void delay(Stream stream) override {
      device_.push(stream, [this, queue = queue_, at = at_] { device_.reach(queue, at); });
    }
    bool reached() const override { return true; }
    double microseconds_since(const tilewise::Event&) const override { return 0; }

   private:
    LazyDevice& device_;
    Stream queue_;
    std::int64_t at_ = 0;
  };

  void push(Stream stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    Queue& queue = *streams_.at(stream);
    queue.work.push_back(std::move(work));
    ++queue.pushed;
  }
  /// The work of a destroyed stream is done.
  void reach(Stream stream, std::int64_t at) {
    if (const auto found = streams_.find(stream); found != streams_.end()) run(*found->second, at);
  }
  static void run(Queue& queue, std::int64_t until) {
    while (queue.done < until && !queue.work.empty()) {
      const std::function<void()> next = std::move(queue.work.front());
      queue.work.pop_front();
      ++queue.done;
      next();
    }
  }
  void count(std::int64_t bytes) {
    taken_ += bytes;
    most_taken = std::max<std::int64_t>(most_taken, taken_);
  }

  std::recursive_mutex mutex_;  // guards all below
  std::map<Stream, std::unique_ptr<Queue>> streams_;
  std::map<void*, std::int64_t> workspace_bytes_;
  std::int64_t taken_ = 0;
  std::atomic<int> copies_{0}, launches_{0};
};

}  // namespace tilewise::test
