#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// A loaded kernel, ready to launch. Owned by whoever loaded it; must not outlive its device.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  /// What the driver says after loading; it does not tell spills from other stack.
  virtual ResourceUsage usage() const = 0;
};

/// A recorded sequence of launches that runs with one call. Not thread-safe.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  virtual void launch(Stream stream) = 0;
};

/// A point in a stream's time. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream stream) = 0;
  virtual void wait() = 0;           ///< blocks the host until reached
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

/// What the machine's monitor says now; 0 where it does not say.
struct DeviceStatus {
  double sm_clock_mhz = 0;
  double memory_clock_mhz = 0;
  double power_w = 0;
  double power_limit_w = 0;
  double temperature_c = 0;
  int utilization_percent = -1;  ///< -1 when not known
  std::int64_t free_bytes = 0, total_bytes = 0;
  std::string throttle;      ///< "", or reasons in words: "power cap", "thermal"
  int other_processes = -1;  ///< compute processes beside this one; -1 when not known
};

/// One device: load, launch, memory, events. Constructed for the device's primary context, which it
/// makes current in each call that needs it. All functions throw Error(device / out_of_memory) with
/// the driver's own words. launch() may be called from several threads.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::string driver_version() const = 0;
  virtual DeviceStatus status() const = 0;

  /// `shared_bytes`: the most dynamic shared memory it will be launched with (over 48 KB opts in).
  /// `cluster_blocks` over 8 asks for the non-portable size.
  virtual std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                             std::uint32_t cluster_blocks) = 0;
  /// Hot path: no allocation, no lock. `arguments` is the struct the kernel takes by value.
  virtual void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
                      Stream stream) = 0;
  /// Encode a tensor map for a base address and a stride (bytes) of dim 1 into 128 bytes.
  virtual void encode_tensor_map(const TensorMapRecipe& recipe, const void* base,
                                 std::int64_t stride_bytes, void* map) = 0;

  /// Plain device memory, 256-byte aligned. Prefer DeviceBuffer.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void free(void* pointer) noexcept = 0;
  /// Stream-ordered workspace: correct inside stream capture, and no two launches ever share one.
  virtual void* allocate_async(std::int64_t bytes, Stream stream) = 0;
  virtual void free_async(void* pointer, Stream stream) = 0;
  /// Page-locked host memory, for fast copies.
  virtual void* allocate_host(std::int64_t bytes) = 0;
  virtual void free_host(void* pointer) noexcept = 0;

  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  /// Whether two stretches of device memory hold the same bytes; waits for what `stream` holds.
  /// True only when all are equal; false also when this device cannot tell: then compare on the
  /// host.
  virtual bool surely_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) = 0;
  /// 32-bit pattern fill.
  virtual void fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) = 0;

  /// A stream that does not wait for the default stream, nor the default stream for it.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  /// Records what `enqueue` puts on `stream`. An exception from `enqueue` ends the capture and
  /// passes through. Throws Error(device) when the graph is empty.
  virtual std::unique_ptr<LaunchGraph> capture(Stream stream,
                                               const std::function<void()>& enqueue) = 0;
  virtual bool capturing(Stream stream) const = 0;
};

/// Device memory with an owner. Move-only; releasing never throws.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, std::int64_t bytes)
      : device_(&device), pointer_(bytes > 0 ? device.allocate(bytes) : nullptr), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    if (this != &other) {
      release();
      device_ = other.device_;
      pointer_ = std::exchange(other.pointer_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~DeviceBuffer() { release(); }
  void* data() const { return pointer_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept {
    if (pointer_) device_->free(pointer_);
    pointer_ = nullptr;
  }
  Device* device_ = nullptr;
  void* pointer_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Another library that multiplies matrices on a device, timed beside our winners.
class BaselineLibrary {
 public:
  virtual ~BaselineLibrary() = default;
  virtual std::string name() const = 0;     ///< "cuBLAS"
  virtual std::string version() const = 0;  ///< "13.1.0"
  /// Which of the library's calls this is: "default", "pedantic", "lt_best".
  virtual std::string variant() const { return "default"; }
  /// Whether it can do this problem at all.
  virtual bool supports(const Problem& problem) const = 0;
  /// Offers ways to do a problem on operands placed as those of `calls` are; says how many. Where
  /// there is more than one, a careful user times them and takes the fastest with choose(). Throws
  /// Error where the library refuses.
  virtual int offer(const Problem& problem, std::span<const Call> calls) {
    static_cast<void>(problem), static_cast<void>(calls);
    return 1;
  }
  /// multiply() goes that way from now on: 0 .. offer() - 1.
  virtual void choose(int way) { static_cast<void>(way); }
  /// Enqueue one product. Not thread-safe.
  virtual void multiply(const Problem& problem, const Call& call) = 0;
};
using BaselineLibraries = std::vector<std::unique_ptr<BaselineLibrary>>;

}  // namespace tilewise
