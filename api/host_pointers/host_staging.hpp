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

/// A stream with an owner.
class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { device_.destroy_stream(stream_); }
  Stream get() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

/// What products on host pointers keep for the next one. Threads that copy between the caller's
/// memory and page-locked buffers, and these buffers. One core copies at about 10 GB/s, a link at
/// up to 55 GB/s each way, so several threads share each direction. Used by one product at a time.
class HostStaging {
 public:
  /// A buffer of chunk_bytes() and the end of the last copy from or to it.
  struct Buffer {
    std::byte* data = nullptr;
    Event* copied = nullptr;
  };
  const OwnStream up, compute, down;

  static int threads(const HostSettings& settings);
  static std::int64_t bytes(const HostSettings& settings);

  HostStaging(Device& device, const HostSettings& settings);
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  ~HostStaging();

  std::int64_t chunk_bytes() const { return chunk_bytes_; }
  /// Device memory of at least that many bytes; what was returned before is not valid any more.
  void* device_memory(std::int64_t bytes);
  /// Frees it where it is more than `most` bytes.
  void limit_device_memory(std::int64_t most) {
    if (device_memory_.bytes() > most) device_memory_ = {};
  }
  std::int64_t device_bytes() const { return device_memory_.bytes(); }
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
  DeviceBuffer device_memory_;
  std::byte* memory_ = nullptr;  // before the threads that use it
  ThreadPool uploaders_, downloaders_;
};

/// Keeps one HostStaging between products, since page-locking memory is slow, and streams.
/// Thread-safe.
class HostStagingShelf {
 public:
  /// The one that is kept, else a new one.
  std::unique_ptr<HostStaging> take(Device& device, const HostSettings& settings);
  /// Keeps it, unless one is kept already. Its device memory is kept where the caller has set a
  /// limit.
  void put_back(std::unique_ptr<HostStaging> staging, const HostSettings& settings);
  /// Device memory that the next product finds allocated.
  std::int64_t device_bytes() const;
  void free_device_memory();

  /// A stream without work for one small product.
  std::unique_ptr<OwnStream> take_stream(Device& device);
  void put_back(std::unique_ptr<OwnStream> stream);

 private:
  static constexpr std::size_t kMostStreams = 8;
  mutable std::mutex mutex_;  // guards all below
  std::unique_ptr<HostStaging> kept_;
  std::vector<std::unique_ptr<OwnStream>> streams_;
};

}  // namespace tilewise
