#include "device/cpu/cpu_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/checksum.hpp"
#include "device/cpu/loaded_image.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/machine_limits.hpp"

namespace tilewise::cpu {
namespace {

constexpr std::size_t kMemoryAlignment = 256;
constexpr std::int64_t kMuch = std::int64_t{16} << 20;

std::string text(const Dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

/// Throws if a GPU could not launch the cluster, or this executor cannot run it.
void check_cluster(const LaunchShape& shape, const std::string& launching) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::unsupported, launching + what);
  };
  if (shape.cluster.y > 1 || shape.cluster.z > 1)
    refuse("the CPU executor takes clusters along x only");
  if (shape.grid.x % shape.cluster.x != 0) refuse("the grid must be a multiple of the cluster");
  const std::uint64_t threads = volume(shape.block);
  if (shape.cluster.x > kMostClusterBlocks || threads * shape.cluster.x > kMostClusterThreads ||
      threads % kWarp != 0)
    refuse("the CPU executor takes clusters of at most " + std::to_string(kMostClusterBlocks) +
           " blocks and " + std::to_string(kMostClusterThreads) + " threads, in whole warps");
}

/// Touches all pages: the system counts only touched pages as used.
void touch(void* pointer, std::int64_t bytes) {
  constexpr std::int64_t kPage = 4096;  // the smallest
  auto* const begin = static_cast<volatile std::byte*>(pointer);
  for (std::int64_t at = 0; at < bytes; at += kPage) begin[at] = std::byte{0};
}

std::string mebibytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

CpuDevice::CpuDevice(DeviceInfo info, const CpuOptions& options)
    : info_(std::move(info)), workers_(options) {}

CpuDevice::~CpuDevice() {
  for (const auto& [pointer, bytes] : allocations_) std::free(pointer);
}

DeviceStatus CpuDevice::status() const {
  const UsableMemory memory = usable_memory();
  DeviceStatus status;
  status.free_bytes = memory.free;
  status.total_bytes = memory.total;
  return status;
}

std::unique_ptr<LoadedKernel> CpuDevice::load(const Image& image, std::uint32_t shared_bytes,
                                              std::uint32_t cluster_blocks) {
  if (cluster_blocks > kMostClusterBlocks)
    throw Error(ErrorKind::unsupported, "a cluster of " + std::to_string(cluster_blocks) +
                                            " blocks; the CPU executor takes at most " +
                                            std::to_string(kMostClusterBlocks));
  if (static_cast<std::int64_t>(shared_bytes) > info_.shared_per_block)
    throw Error(ErrorKind::device, "asking for " + std::to_string(shared_bytes) +
                                       " bytes of shared memory; a block may have " +
                                       std::to_string(info_.shared_per_block));
  return std::make_unique<LoadedImage>(image, shared_bytes);
}

void CpuDevice::launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
                       Stream stream) {
  if (!recording_of(stream)) return run(kernel, shape, arguments);
  // The caller's arguments are valid only until this returns.
  const auto& image = static_cast<const LoadedImage&>(kernel).exports();
  const auto* bytes = static_cast<const std::byte*>(arguments);
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  std::vector<Line> kept(image.argument_bytes / sizeof(Line) + 1);
  std::memcpy(kept.data(), bytes, image.argument_bytes);
  enqueue(stream,
          [this, &kernel, shape, kept = std::move(kept)] { run(kernel, shape, kept.data()); });
}

void CpuDevice::run(const LoadedKernel& loaded, const LaunchShape& shape, const void* arguments) {
  // The same device loads and launches a kernel, so the type is certain.
  const auto& kernel = static_cast<const LoadedImage&>(loaded);
  const std::string launching = "launching " + kernel.name() + " with grid " + text(shape.grid) +
                                ", block " + text(shape.block) + ", cluster " +
                                text(shape.cluster) + " and " + std::to_string(shape.shared_bytes) +
                                " bytes of shared memory: ";
  if (volume(shape.grid) == 0 || volume(shape.block) == 0 || volume(shape.block) > kMostThreads)
    throw Error(ErrorKind::device,
                launching + "a block has 1 to 1024 threads, a grid 1 block or more");
  if (volume(shape.cluster) > 1) check_cluster(shape, launching);
  if (shape.shared_bytes > kernel.shared_bytes())
    throw Error(ErrorKind::device,
                launching + "it was loaded for " + std::to_string(kernel.shared_bytes()));
  BlockWork work;
  work.image = &kernel.exports();
  work.arguments = arguments;
  work.threads = {shape.block.x, shape.block.y, shape.block.z};
  work.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
  work.cluster = shape.cluster.x;
  work.shared_bytes = shape.shared_bytes;
  const std::string wrong = workers_.run(work);
  if (!wrong.empty()) throw Error(ErrorKind::device, kernel.name() + ", " + wrong);
}

void* CpuDevice::allocate(std::int64_t bytes) {
  if (bytes <= 0) return nullptr;
  void* pointer = aligned_memory(bytes);
  const std::lock_guard lock(mutex_);
  allocations_[pointer] = bytes;
  return pointer;
}

/// Compares large requests with the free memory first, and touches the pages: the system
/// overcommits, and kills a process that touches more memory than exists.
void* CpuDevice::aligned_memory(std::int64_t bytes) const {
  void* pointer = nullptr;
  if ((bytes < kMuch || bytes <= usable_memory().free) &&
      posix_memalign(&pointer, kMemoryAlignment, static_cast<std::size_t>(bytes)) == 0) {
    if (bytes >= kMuch) touch(pointer, bytes);
    return pointer;
  }
  const UsableMemory memory = usable_memory();
  throw Error(ErrorKind::out_of_memory, "out of memory: " + std::to_string(bytes) +
                                            " bytes wanted, and " + mebibytes(memory.free) +
                                            " of " + mebibytes(memory.total) + " free on " +
                                            info_.name);
}

void CpuDevice::free(void* pointer) noexcept {
  if (!pointer) return;
  const std::lock_guard lock(mutex_);
  if (allocations_.erase(pointer) > 0) std::free(pointer);
}

/// The workspace of a captured product belongs to the graph; every run of the graph reuses it.
void* CpuDevice::allocate_async(std::int64_t bytes, Stream stream) {
  Recording* recording = recording_of(stream);
  if (!recording || bytes <= 0) return allocate(bytes);
  return recording->workspaces.emplace_back(aligned_memory(bytes), &std::free).get();
}

void CpuDevice::free_async(void* pointer, Stream stream) {
  if (!recording_of(stream)) free(pointer);
}

void CpuDevice::copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  if (bytes <= 0) return;
  enqueue(stream, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}

void CpuDevice::copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) {
  copy_to_device(to, from, bytes, stream);
}

void CpuDevice::copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  copy_to_device(to, from, bytes, stream);
}

bool CpuDevice::known_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) {
  synchronize(stream);
  return bytes <= 0 || std::memcmp(x, y, static_cast<std::size_t>(bytes)) == 0;
}

bool CpuDevice::add_checksum(const void* from, std::int64_t bytes, void* sum, Stream stream) {
  enqueue(stream, [=] { *static_cast<std::uint64_t*>(sum) += checksum(from, bytes); });
  return true;
}

void CpuDevice::clear(void* to, std::int64_t bytes, Stream stream) {
  if (bytes <= 0) return;
  enqueue(stream, [=] { std::memset(to, 0, static_cast<std::size_t>(bytes)); });
}

void CpuDevice::fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) {
  if (words <= 0) return;
  enqueue(stream, [=] { std::fill_n(static_cast<std::uint32_t*>(to), words, value); });
}

std::unique_ptr<Device> open_device(const std::string& which, const CpuOptions& options) {
  return std::make_unique<CpuDevice>(device_info(which), options);
}

}  // namespace tilewise::cpu
