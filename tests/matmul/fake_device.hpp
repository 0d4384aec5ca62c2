#pragma once
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

struct FakeKernel : LoadedKernel {
  KernelSpec spec;
  ResourceUsage used;
  ResourceUsage usage() const override { return used; }
};

/// One launch as the device saw it.
struct FakeLaunch {
  KernelSpec kernel;
  LaunchShape shape;
  std::vector<std::byte> arguments;
  Stream stream = nullptr;
};

/// What FakeDevice writes for a tensor map.
struct FakeTensorMap {
  const void* base;
  std::int64_t stride_bytes;
  std::int32_t rank;
};

/// Memory is the host's. Launches are recorded (when `argument_bytes` says how much to keep of each
/// argument struct) and handed to `on_launch`, which may compute.
class FakeDevice : public Device {
 public:
  FakeDevice() {
    facts = nominal_device(parse_target("sm_90a"));
    facts.name = "Fake";
    facts.multiprocessors = 132;
  }
  ~FakeDevice() override {
    // Every test checks on its way out that nothing was leaked.
    if (live_buffers != 0 || live_workspaces != 0) std::abort();
  }

  DeviceInfo facts;
  std::size_t argument_bytes = 0;
  std::vector<FakeLaunch> launches;
  std::function<void(const KernelSpec&, const LaunchShape&, const void*, Stream)> on_launch;
  std::function<void(const Image&)> on_load;  ///< may throw
  std::set<Stream> captured;
  std::int64_t free_bytes = std::int64_t{1} << 40;
  std::atomic<int> launch_count{0}, loads{0}, live_buffers{0}, live_workspaces{0}, workspaces{0};
  std::atomic<std::int64_t> uploaded_bytes{0}, downloaded_bytes{0};
  std::map<KernelSpec, std::pair<std::uint32_t, std::uint32_t>> loaded;  ///< shared, cluster
  bool free_async_fails = false;
  void* last_workspace = nullptr;

  const DeviceInfo& info() const override { return facts; }
  std::string driver_version() const override { return "fake"; }
  DeviceStatus status() const override {
    DeviceStatus status;
    status.free_bytes = free_bytes;
    return status;
  }

  std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                     std::uint32_t cluster_blocks) override {
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
    ++launch_count;
    const auto& spec = static_cast<const FakeKernel&>(kernel).spec;
    if (argument_bytes > 0) {
      const auto* bytes = static_cast<const std::byte*>(arguments);
      launches.push_back({spec, shape, {bytes, bytes + argument_bytes}, stream});
    }
    if (on_launch) on_launch(spec, shape, arguments, stream);
  }
  void encode_tensor_map(const TensorMapRecipe& recipe, const void* base, std::int64_t stride_bytes,
                         void* map) override {
    const FakeTensorMap written{base, stride_bytes, static_cast<std::int32_t>(recipe.dims.size())};
    std::memcpy(map, &written, sizeof written);
  }

  void* allocate(std::int64_t bytes) override {
    if (bytes > free_bytes) throw Error(ErrorKind::out_of_memory, "fake: no memory");
    ++live_buffers;
    void* memory = std::aligned_alloc(256, (static_cast<std::size_t>(bytes) + 255) / 256 * 256);
    if (!memory) throw std::bad_alloc();
    std::memset(memory, 0xff, static_cast<std::size_t>(bytes));  // NaN
    return memory;
  }
  void free(void* pointer) noexcept override {
    --live_buffers;
    std::free(pointer);
  }
  void* allocate_async(std::int64_t bytes, Stream) override {
    if (bytes > free_bytes) throw Error(ErrorKind::out_of_memory, "fake: no memory");
    ++live_workspaces;
    ++workspaces;
    return last_workspace =
               std::aligned_alloc(256, (static_cast<std::size_t>(bytes) + 255) / 256 * 256);
  }
  void free_async(void* pointer, Stream) override {
    --live_workspaces;
    std::free(pointer);
    if (free_async_fails) throw Error(ErrorKind::device, "fake: free failed");
  }
  void* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void free_host(void* pointer) noexcept override { free(pointer); }

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    uploaded_bytes += bytes;
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream) override {
    downloaded_bytes += bytes;
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  bool surely_equal(const void* x, const void* y, std::int64_t bytes, Stream) override {
    return std::memcmp(x, y, static_cast<std::size_t>(bytes)) == 0;
  }
  void fill32(void* to, std::uint32_t value, std::int64_t words, Stream) override {
    for (std::int64_t i = 0; i < words; ++i) static_cast<std::uint32_t*>(to)[i] = value;
  }

  Stream create_stream() override { return Stream(static_cast<void*>(&stream_)); }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override {}
  std::unique_ptr<Event> create_event() override { return nullptr; }
  std::unique_ptr<LaunchGraph> capture(Stream, const std::function<void()>& enqueue) override {
    enqueue();
    return nullptr;
  }
  bool capturing(Stream stream) const override { return captured.count(stream) > 0; }

 private:
  int stream_ = 0;
};

/// Makes an image of anything whose source it was not told to refuse.
class FakeCompiler : public Compiler {
 public:
  explicit FakeCompiler(std::atomic<int>* compiles = nullptr, std::string refuse = "")
      : compiles_(compiles), refuse_(std::move(refuse)) {}
  std::string identity() const override { return "fake 1.0 -O3"; }
  std::string version() const override { return "fake 1.0"; }
  CompileResult compile(const CompileRequest& request) const override {
    if (compiles_) ++*compiles_;
    CompileResult result;
    if (request.kernel.source == refuse_) {
      result.log = "error: refused\nmore lines";
      return result;
    }
    Image image;
    image.kernel = request.kernel;
    image.target = request.target;
    image.binary = {1, 2, 3};
    result.image = image;
    return result;
  }
  std::vector<Target> targets() const override { return known_targets(); }

 private:
  std::atomic<int>* compiles_;
  std::string refuse_;
};

}  // namespace tilewise
