#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/checksum.hpp"
#include "device/device.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

struct FakeKernel : LoadedKernel {
  KernelSpec spec;
  ResourceUsage used;
  ResourceUsage usage() const override { return used; }
};

/// One launch as received by the device.
struct FakeLaunch {
  KernelSpec kernel;
  LaunchShape shape;
  std::vector<std::byte> arguments;
  Stream stream = nullptr;
};

/// FakeDevice's encoding of a tensor map.
struct FakeTensorMap {
  const void* base;
  std::int64_t stride_bytes, batch_stride_bytes;
  std::int32_t rank;
};

/// A synchronous device in host memory. It counts launches, passes them to `on_launch`, which may
/// compute, and records them with the first `argument_bytes` bytes of their argument structs (0: no
/// records).
class FakeDevice : public Device {
 public:
  FakeDevice() {
    facts = nominal_device(parse_target("sm_90a"));
    facts.name = "Fake";
    facts.multiprocessors = 132;
  }
  ~FakeDevice() override {
    // Every test ends with this check for leaks.
    if (live_blocks() != 0) std::abort();
  }

  // Set by tests.
  DeviceInfo facts;
  std::size_t argument_bytes = 0;
  std::function<void(const KernelSpec&, const LaunchShape&, const void*, Stream)> on_launch;
  std::function<void(const Image&)> on_load;              ///< may throw
  std::function<void(void* from)> before_copy_on_device;  ///< called right before the copy
  std::set<Stream> captured;                              ///< streams in a capture
  std::atomic<std::int64_t> free_bytes{std::int64_t{1} << 40};
  bool broken = false;      ///< a sticky error: every call fails
  bool can_compare = true;  ///< false: known_equal() and add_checksum() are not supported
  bool free_async_fails = false;
  std::function<std::optional<double>()> energy;  ///< the energy counter; empty: there is none
  double power_w = 300, power_limit_w = 700;      ///< 0: not known

  // Read by tests.
  std::vector<FakeLaunch> launches;
  std::atomic<int> launch_count{0}, loads{0}, live_buffers{0}, live_workspaces{0}, workspaces{0},
      encoded_maps{0};
  std::atomic<int> graphs{0}, fills{0}, checksums{0};
  std::atomic<std::int64_t> uploaded_bytes{0}, downloaded_bytes{0};
  std::atomic<std::int64_t> host_bytes{0};                               ///< live page-locked bytes
  std::map<KernelSpec, std::pair<std::uint32_t, std::uint32_t>> loaded;  ///< shared, cluster
  void* last_workspace = nullptr;

  int live_blocks() const { return live_buffers + live_workspaces; }

  void check() const {
    if (broken)
      throw Error(ErrorKind::device, "fake driver: an illegal memory access was encountered");
  }

  const DeviceInfo& info() const override { return facts; }
  std::string driver_version() const override { return "fake 1.0"; }
  DeviceStatus status() const override {
    DeviceStatus status;
    status.sm_clock_mhz = 1980;
    status.power_w = power_w;
    status.power_limit_w = power_limit_w;
    status.free_bytes = free_bytes;
    status.total_bytes = facts.memory_bytes;
    return status;
  }

  std::optional<double> energy_mj() const override {
    return energy ? energy() : std::optional<double>();
  }

  std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                     std::uint32_t cluster_blocks) override {
    check();
    if (on_load) on_load(image);
    ++loads;
    loaded[image.kernel] = {shared_bytes, cluster_blocks};
    auto kernel = std::make_unique<FakeKernel>();
    kernel->spec = image.kernel;
    kernel->used = image.usage;
    return kernel;
  }
  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) override {
    check();
    ++launch_count;
    const auto& spec = static_cast<const FakeKernel&>(kernel).spec;
    if (argument_bytes > 0) {
      const auto* bytes = static_cast<const std::byte*>(arguments);
      launches.push_back({spec, shape, {bytes, bytes + argument_bytes}, stream});
    }
    if (on_launch) on_launch(spec, shape, arguments, stream);
  }
  void encode_tensor_map(const TensorMapRecipe& recipe, const void* base, const MapStrides& strides,
                         void* map) override {
    ++encoded_maps;
    const FakeTensorMap written{base, strides.row, strides.batch,
                                static_cast<std::int32_t>(recipe.dims.size())};
    std::memcpy(map, &written, sizeof written);
  }

  void* allocate(std::int64_t bytes) override {
    check();
    take(bytes);
    ++live_buffers;
    return new_block(bytes);
  }
  void free(void* pointer) noexcept override {
    --live_buffers;
    free_bytes += delete_block(pointer);
  }
  void* allocate_async(std::int64_t bytes, Stream) override {
    check();
    take(bytes);
    ++live_workspaces;
    ++workspaces;
    return last_workspace = new_block(bytes);
  }
  void free_async(void* pointer, Stream) override {
    --live_workspaces;
    free_bytes += delete_block(pointer);
    if (free_async_fails) throw Error(ErrorKind::device, "fake driver: free failed");
  }
  void* allocate_host(std::int64_t bytes) override {
    host_bytes += bytes;
    ++live_buffers;
    return new_block(bytes);
  }
  void free_host(void* pointer) noexcept override {
    --live_buffers;
    host_bytes -= delete_block(pointer);
  }

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    uploaded_bytes += bytes;
    copy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream) override {
    downloaded_bytes += bytes;
    copy(to, from, bytes);
  }
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    if (before_copy_on_device) before_copy_on_device(const_cast<void*>(from));
    copy(to, from, bytes);
  }
  bool known_equal(const void* x, const void* y, std::int64_t bytes, Stream) override {
    check();
    return can_compare && std::memcmp(x, y, static_cast<std::size_t>(bytes)) == 0;
  }
  bool add_checksum(const void* from, std::int64_t bytes, void* sum, Stream) override {
    check();
    if (!can_compare) return false;
    perform([this, from, bytes, sum] {
      ++checksums;
      *static_cast<std::uint64_t*>(sum) += checksum(from, bytes);
    });
    return true;
  }
  void clear(void* to, std::int64_t bytes, Stream) override {
    check();
    std::memset(to, 0, static_cast<std::size_t>(bytes));
  }
  void fill32(void* to, std::uint32_t value, std::int64_t words, Stream) override {
    check();
    ++fills;
    for (std::int64_t i = 0; i < words; ++i) static_cast<std::uint32_t*>(to)[i] = value;
  }

  Stream create_stream() override { return Stream(static_cast<void*>(&stream_)); }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override { check(); }
  std::unique_ptr<tilewise::Event> create_event() override {
    return std::make_unique<Event>(*this);
  }
  std::unique_ptr<LaunchGraph> capture(Stream, const std::function<void()>& enqueue) override {
    check();
    auto graph = std::make_unique<Graph>();
    graph_ = graph.get();
    try {
      enqueue();
    } catch (...) {
      graph_ = nullptr;
      throw;
    }
    graph_ = nullptr;
    if (graph->work_.empty()) throw Error(ErrorKind::device, "fake driver: empty graph");
    ++graphs;
    return graph;
  }
  bool capturing(Stream stream) const override { return graph_ || captured.count(stream) > 0; }

  /// Runs `work` now, or adds it to the graph that is being captured.
  void perform(std::function<void()> work) {
    if (graph_)
      graph_->work_.push_back(std::move(work));
    else
      work();
  }

 private:
  class Event : public tilewise::Event {
   public:
    explicit Event(const FakeDevice& device) : device_(device) {}
    void record(Stream) override {
      device_.check();
      time_ = std::chrono::steady_clock::now();
    }
    void wait() override { device_.check(); }
    void delay(Stream) override { device_.check(); }
    bool reached() const override { return true; }
    double microseconds_since(const tilewise::Event& start) const override {
      const auto& from = static_cast<const Event&>(start);
      return std::chrono::duration<double, std::micro>(time_ - from.time_).count();
    }

   private:
    const FakeDevice& device_;
    std::chrono::steady_clock::time_point time_;
  };

  struct Graph : LaunchGraph {
    void launch(Stream) override {
      for (const auto& work : work_) work();
    }
    std::vector<std::function<void()>> work_;
  };

  void take(std::int64_t bytes) {
    const std::int64_t before = free_bytes;
    if (bytes > before)
      throw Error(ErrorKind::out_of_memory, "fake driver: " + std::to_string(bytes) +
                                                " bytes asked, " + std::to_string(before) +
                                                " free");
    free_bytes -= bytes;
  }
  void copy(void* to, const void* from, std::int64_t bytes) const {
    check();
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  // New blocks are filled with NaNs; a block's size is stored before it.
  static constexpr std::size_t kAlignment = 256;
  static void* new_block(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    const std::size_t all = (size + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, all));
    if (!memory) throw std::bad_alloc();
    std::memcpy(memory, &bytes, sizeof bytes);
    std::memset(memory + kAlignment, 0xff, size);
    return memory + kAlignment;
  }
  static std::int64_t delete_block(void* pointer) noexcept {
    if (!pointer) return 0;
    std::byte* memory = static_cast<std::byte*>(pointer) - kAlignment;
    std::int64_t bytes = 0;
    std::memcpy(&bytes, memory, sizeof bytes);
    std::free(memory);
    return bytes;
  }

  Graph* graph_ = nullptr;
  int stream_ = 0;
};

}  // namespace tilewise
