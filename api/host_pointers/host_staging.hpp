#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/host_pointers/host_plan.hpp"
#include "device/device.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

/// Resources that one product on host pointers leaves for the next: page-locked buffers, and
/// threads that copy between them and the caller's memory. One core copies at about 10 GB/s, a link
/// at up to 55 GB/s each way, so several threads share each direction. Used by one product at a
/// time.
class HostStaging {
 public:
  /// A buffer of chunk_bytes() and the event that ends its last copy.
  struct Buffer {
    std::byte* data = nullptr;
    Event* copied = nullptr;
  };
  const OwnedStream up, compute, down;

  static int threads(const HostSettings& settings);
  static std::int64_t bytes(const HostSettings& settings);

  HostStaging(Device& device, const HostSettings& settings);

  std::int64_t chunk_bytes() const { return chunk_bytes_; }
  /// Device memory of at least that many bytes. Invalidates memory returned before.
  void* device_memory(std::int64_t bytes);
  /// Frees the device memory if it is more than `most` bytes.
  void limit_device_memory(std::int64_t most) {
    if (device_memory_.bytes() > most) device_memory_ = {};
  }
  std::int64_t device_bytes() const { return device_memory_.bytes(); }
  ThreadPool& uploaders() { return uploaders_; }
  ThreadPool& downloaders() { return downloaders_; }
  /// The next of an uploader's two buffers: it fills one while the other is copied.
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
  DeviceBuffer device_memory_;
  const HostBuffer memory_;  // declared before the threads that use it
  ThreadPool uploaders_, downloaders_;
};

/// Keeps one HostStaging between products, because page-locking memory is slow, and streams.
/// Thread-safe.
class HostStagingShelf {
 public:
  /// The kept HostStaging, otherwise a new one.
  std::unique_ptr<HostStaging> take(Device& device, const HostSettings& settings);
  /// Keeps `staging` unless one is kept already. Its device memory is kept if the caller has set a
  /// limit.
  void put_back(std::unique_ptr<HostStaging> staging, const HostSettings& settings);
  /// Bytes of device memory that are kept for the next product.
  std::int64_t device_bytes() const;
  void free_device_memory();

  /// An idle stream for one small product.
  std::unique_ptr<OwnedStream> take_stream(Device& device);
  void put_back(std::unique_ptr<OwnedStream> stream);

 private:
  static constexpr std::size_t kMostStreams = 8;
  mutable std::mutex mutex_;  // guards all below
  std::unique_ptr<HostStaging> kept_;
  std::vector<std::unique_ptr<OwnedStream>> streams_;
};

}  // namespace tilewise
