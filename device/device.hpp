#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// A loaded kernel, ready to launch. Must not outlive its device.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  /// Resources known after loading; spills are part of the stack.
  virtual ResourceUsage usage() const = 0;
};

/// A recorded sequence of launches that runs with one call. Not thread-safe.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  virtual void launch(Stream stream) = 0;
};

/// A point in time of a stream. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream stream) = 0;
  virtual void wait() = 0;  ///< blocks the host until reached
  /// Later work of `stream` begins after the work recorded last; the host does not wait. An event
  /// that was never recorded delays nothing.
  virtual void delay(Stream stream) = 0;
  virtual bool reached() const = 0;  ///< polls
  /// Microseconds from `start` to this event; both reached.
  virtual double microseconds_since(const Event& start) const = 0;
};

/// Shape of one launch, apart from arguments.
struct LaunchShape {
  Dim3 grid, block, cluster;
  std::uint32_t shared_bytes = 0;
  bool programmatic = false;
};

/// The current values of the machine's monitor; 0 where not known.
struct DeviceStatus {
  double sm_clock_mhz = 0;
  double memory_clock_mhz = 0;
  double power_w = 0;
  double power_limit_w = 0;
  double temperature_c = 0;
  int utilization_percent = -1;  ///< -1 when not known
  std::int64_t free_bytes = 0, total_bytes = 0;
  std::string throttle;      ///< "", or reasons in words: "power cap", "thermal"
  int other_processes = -1;  ///< other compute processes; -1 when not known
};

/// Bytes between the rows of a tensor map's matrix, and between matrices where its rank is 3.
struct MapStrides {
  std::int64_t row, batch;
  MapStrides(std::int64_t of_row, std::int64_t of_batch = 0) : row(of_row), batch(of_batch) {}
};

/// Device memory that a product's launches share. `kept` is for the device's own use.
struct WorkspaceMemory {
  void* data = nullptr;
  void* kept = nullptr;
};

/// One device: load, launch, memory, events. Uses the device's primary context and makes it current
/// in each call that needs it. Every function throws Error(device / out_of_memory) with the
/// driver's message. launch() is thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::string driver_version() const = 0;
  virtual DeviceStatus status() const = 0;
  /// Millijoules that the device has used since its driver was loaded, including idle time; empty
  /// if there is no such counter. It changes in steps.
  virtual std::optional<double> energy_mj() const { return {}; }

  /// `shared_bytes`: the most dynamic shared memory of its launches. `cluster_blocks`: the most
  /// blocks per cluster; over 8 needs the non-portable size.
  virtual std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                             std::uint32_t cluster_blocks) = 0;
  /// Hot path: no allocation, no lock. `arguments` is the struct that the kernel takes by value.
  virtual void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
                      Stream stream) = 0;
  /// Encodes a tensor map (128 bytes) for a base address and strides.
  virtual void encode_tensor_map(const TensorMapRecipe& recipe, const void* base,
                                 const MapStrides& strides, void* map) = 0;

  /// Plain device memory, 256-byte aligned. Prefer DeviceBuffer.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void free(void* pointer) noexcept = 0;
  /// Stream-ordered memory: valid inside stream capture, never shared by two products.
  virtual void* allocate_async(std::int64_t bytes, Stream stream) = 0;
  virtual void free_async(void* pointer, Stream stream) = 0;
  /// The workspace of one product: memory that its launches may use. Products of one stream may get
  /// the same memory; inside stream capture it is stream-ordered. Give it back once the launches
  /// are enqueued. Empty for 0 bytes.
  virtual WorkspaceMemory take_workspace(std::int64_t bytes, Stream stream) {
    return {allocate_async(bytes, stream), nullptr};
  }
  virtual void give_back_workspace(const WorkspaceMemory& workspace, Stream stream) {
    free_async(workspace.data, stream);
  }
  /// Page-locked host memory, for fast copies.
  virtual void* allocate_host(std::int64_t bytes) = 0;
  virtual void free_host(void* pointer) noexcept = 0;
  /// Free device memory in bytes, without the rest of status().
  virtual std::int64_t free_memory() const { return status().free_bytes; }
  /// Whether a whole range of host memory is in one page-locked allocation, which the device copies
  /// at full speed.
  virtual bool page_locked(const void* from, std::int64_t bytes) const {
    static_cast<void>(from), static_cast<void>(bytes);
    return false;
  }

  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  /// Copies rows; pitches are the bytes from one row to the next, each below 2^31. The bytes
  /// between rows are neither read nor written.
  virtual void copy_rows_to_device(void* to, std::int64_t to_pitch, const void* from,
                                   std::int64_t from_pitch, std::int64_t row_bytes,
                                   std::int64_t rows, Stream stream);
  virtual void copy_rows_to_host(void* to, std::int64_t to_pitch, const void* from,
                                 std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows,
                                 Stream stream);
  virtual void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  /// Whether two ranges of device memory hold the same bytes; waits for the work on `stream`. False
  /// when bytes differ and when the device cannot compare them: compare on the host in that case.
  virtual bool known_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) = 0;
  /// Enqueues an addition to the 64-bit word `sum` in device memory: the checksum of a range of
  /// device memory (checksum.hpp). `bytes`: a multiple of 4. Valid inside capture from the second
  /// call on. Returns false and enqueues nothing if the device has no checksums.
  virtual bool add_checksum(const void* from, std::int64_t bytes, void* sum, Stream stream) = 0;
  virtual void clear(void* to, std::int64_t bytes, Stream stream) = 0;  ///< all bits 0
  virtual void fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) = 0;

  /// A non-blocking stream: no order with the default stream.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  /// An event without a time, whose wait() leaves the core to other threads.
  virtual std::unique_ptr<Event> create_sleeping_event() { return create_event(); }
  /// Records the work that `enqueue` puts on `stream`. An exception of `enqueue` ends the capture
  /// and propagates. Throws Error(device) when the graph is empty.
  virtual std::unique_ptr<LaunchGraph> capture(Stream stream,
                                               const std::function<void()>& enqueue) = 0;
  virtual bool capturing(Stream stream) const = 0;
};

inline void Device::copy_rows_to_device(void* to, std::int64_t to_pitch, const void* from,
                                        std::int64_t from_pitch, std::int64_t row_bytes,
                                        std::int64_t rows, Stream stream) {
  for (std::int64_t i = 0; i < rows; ++i)
    copy_to_device(static_cast<std::byte*>(to) + i * to_pitch,
                   static_cast<const std::byte*>(from) + i * from_pitch, row_bytes, stream);
}
inline void Device::copy_rows_to_host(void* to, std::int64_t to_pitch, const void* from,
                                      std::int64_t from_pitch, std::int64_t row_bytes,
                                      std::int64_t rows, Stream stream) {
  for (std::int64_t i = 0; i < rows; ++i)
    copy_to_host(static_cast<std::byte*>(to) + i * to_pitch,
                 static_cast<const std::byte*>(from) + i * from_pitch, row_bytes, stream);
}

/// Memory with an owner: of the device, or page-locked memory of the host. Move-only; releasing
/// never throws.
template <bool kOfHost>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(Device& device, std::int64_t bytes) : device_(&device), bytes_(bytes) {
    if (bytes > 0) pointer_ = kOfHost ? device.allocate_host(bytes) : device.allocate(bytes);
  }
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    if (this != &other) {
      release();
      device_ = other.device_;
      pointer_ = std::exchange(other.pointer_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~OwnedMemory() { release(); }
  auto data() const {
    if constexpr (kOfHost)
      return static_cast<std::byte*>(pointer_);
    else
      return pointer_;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept {
    if (pointer_) kOfHost ? device_->free_host(pointer_) : device_->free(pointer_);
    pointer_ = nullptr;
  }
  Device* device_ = nullptr;
  void* pointer_ = nullptr;
  std::int64_t bytes_ = 0;
};
using DeviceBuffer = OwnedMemory<false>;
using HostBuffer = OwnedMemory<true>;

/// A stream with an owner.
class OwnedStream {
 public:
  explicit OwnedStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() { device_.destroy_stream(stream_); }
  Stream get() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

/// Another library of matrix products, timed in the same run as our winners.
class BaselineLibrary {
 public:
  virtual ~BaselineLibrary() = default;
  virtual std::string name() const = 0;     ///< "cuBLAS"
  virtual std::string version() const = 0;  ///< "13.1.0"
  /// The library's call or mode: "default", "pedantic", "lt_best".
  virtual std::string variant() const { return "default"; }
  virtual bool supports(const Problem& problem) const = 0;
  /// Prepares the candidates for a problem, on operands placed like those of `calls`; returns their
  /// number. If there are several, the caller times them and selects the fastest with choose().
  /// Throws Error if the library refuses.
  virtual int offer(const Problem& problem, std::span<const Call> calls) {
    static_cast<void>(problem), static_cast<void>(calls);
    return 1;
  }
  /// Makes multiply() use candidate `way`, 0 .. offer() - 1.
  virtual void choose(int way) { static_cast<void>(way); }
  /// Enqueues one product. Not thread-safe.
  virtual void multiply(const Problem& problem, const Call& call) = 0;
};
using BaselineLibraries = std::vector<std::unique_ptr<BaselineLibrary>>;

}  // namespace tilewise
