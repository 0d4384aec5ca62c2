#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.hpp"
#include "matmul/host_plan.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

/// Threads that copy between the caller's memory and page-locked buffers, and these buffers. One
/// core copies at about 10 GB/s, a link at up to 55 GB/s each way, so several threads share each
/// direction. Used by one product at a time.
class HostStaging {
 public:
  /// A buffer of chunk_bytes() and the end of the last copy from or to it.
  struct Buffer {
    std::byte* data = nullptr;
    Event* copied = nullptr;
  };
  static int threads(const HostSettings& settings);
  static std::int64_t bytes(const HostSettings& settings);

  HostStaging(Device& device, const HostSettings& settings);
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  ~HostStaging();

  std::int64_t chunk_bytes() const { return chunk_bytes_; }
  ThreadPool& uploaders() { return uploaders_; }
  ThreadPool& downloaders() { return downloaders_; }
  /// An uploader has two buffers, in turn: it fills one while the other is copied.
  Buffer to_upload(int worker);
  Buffer to_download(int worker);

 private:
  struct Worker {
    std::unique_ptr<Event> copied[3];
    int turn = 0;
  };
  Buffer buffer(int worker, int which);

  Device& device_;
  const std::int64_t chunk_bytes_;
  std::vector<Worker> workers_;
  std::byte* memory_ = nullptr;  // before the threads that use it
  ThreadPool uploaders_, downloaders_;
};

/// Keeps one HostStaging between products, since page-locking memory is slow. Thread-safe.
class HostStagingShelf {
 public:
  /// The one that is kept, else a new one.
  std::unique_ptr<HostStaging> take(Device& device, const HostSettings& settings);
  /// Keeps it, unless one is kept already.
  void put_back(std::unique_ptr<HostStaging> staging);

 private:
  std::mutex mutex_;
  std::unique_ptr<HostStaging> kept_;
};

}  // namespace tilewise
