#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/cpu/stream.hpp"
#include "device/cpu/workers.hpp"
#include "device/device.hpp"

namespace tilewise::cpu {

/// The CPU behind a GPU's interface. Thread-safe; launches run one at a time.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceInfo info, const CpuOptions& options);
  ~CpuDevice() override;

  const DeviceInfo& info() const override { return info_; }
  std::string driver_version() const override { return "CPU executor"; }
  DeviceStatus status() const override;

  std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                     std::uint32_t cluster_blocks) override;
  void launch(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments,
              Stream stream) override;
  void encode_tensor_map(const TensorMapRecipe& recipe, const void* base, const MapStrides& strides,
                         void* map) override;

  void* allocate(std::int64_t bytes) override;
  void free(void* pointer) noexcept override;
  void* allocate_async(std::int64_t bytes, Stream stream) override;
  void free_async(void* pointer, Stream stream) override;
  void* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void free_host(void* pointer) noexcept override { free(pointer); }

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  bool known_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) override;
  bool add_checksum(const void* from, std::int64_t bytes, void* sum, Stream stream) override;
  void clear(void* to, std::int64_t bytes, Stream stream) override;
  void fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) override;

  Stream create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  void synchronize(Stream stream) override;
  std::unique_ptr<Event> create_event() override;
  std::unique_ptr<LaunchGraph> capture(Stream stream,
                                       const std::function<void()>& enqueue) override;
  bool capturing(Stream stream) const override;

 private:
  void* aligned_memory(std::int64_t bytes) const;
  void run(const LoadedKernel& kernel, const LaunchShape& shape, const void* arguments);

  DeviceInfo info_;
  Workers workers_;
  std::mutex mutex_;
  std::map<void*, std::int64_t> allocations_;  ///< live allocations and their bytes
};

}  // namespace tilewise::cpu
