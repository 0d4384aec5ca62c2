#pragma once
#include <memory>
#include <optional>
#include <string>

#include "device/cuda/byte_comparison.hpp"
#include "device/cuda/context.hpp"
#include "device/device.hpp"
#include "device/kept_workspaces.hpp"

namespace tilewise::cuda {

/// The driver's memory pool for workspaces; empty on a device without pools.
class WorkspacePool {
 public:
  explicit WorkspacePool(const PrimaryContext& context);
  ~WorkspacePool();
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  CUmemoryPool handle() const { return handle_; }

 private:
  const PrimaryContext& context_;
  CUmemoryPool handle_ = nullptr;
};

/// A GPU controlled by NVIDIA's driver. Thread-safe. The caller must not share a stream being
/// captured, a graph or an event between threads.
class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, CUdevice device, DeviceInfo info);

  const DeviceInfo& info() const override { return info_; }
  std::string driver_version() const override;
  DeviceStatus status() const override;
  std::optional<double> energy_mj() const override;

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
  WorkspaceMemory take_workspace(std::int64_t bytes, Stream stream) override;
  void give_back_workspace(const WorkspaceMemory& workspace, Stream stream) override;
  void* allocate_host(std::int64_t bytes) override;
  void free_host(void* pointer) noexcept override;
  std::int64_t free_memory() const override;
  bool page_locked(const void* from, std::int64_t bytes) const override;

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  void copy_rows_to_device(void* to, std::int64_t to_pitch, const void* from,
                           std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows,
                           Stream stream) override;
  void copy_rows_to_host(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch,
                         std::int64_t row_bytes, std::int64_t rows, Stream stream) override;
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  bool known_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) override;
  bool add_checksum(const void* from, std::int64_t bytes, void* sum, Stream stream) override;
  void clear(void* to, std::int64_t bytes, Stream stream) override;
  void fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) override;

  Stream create_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  void synchronize(Stream stream) override;
  std::unique_ptr<Event> create_event() override;
  std::unique_ptr<Event> create_sleeping_event() override;
  std::unique_ptr<LaunchGraph> capture(Stream stream,
                                       const std::function<void()>& enqueue) override;
  bool capturing(Stream stream) const override;

  const PrimaryContext& context() const { return *context_; }

 private:
  void* allocate_kept(std::int64_t bytes) const noexcept;
  void free_kept(void* pointer) const noexcept;
  /// The pitches and extents are added to `copy`.
  void copy_rows(const char* tried, CUDA_MEMCPY2D copy, std::int64_t to_pitch,
                 std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows, Stream stream);
  [[noreturn]] void fail_allocation(CUresult result, std::int64_t bytes, const char* what) const;

  DeviceInfo info_;
  std::shared_ptr<const PrimaryContext> context_;
  const Driver& driver_;
  WorkspacePool pool_;
  KeptWorkspaces kept_;
  ByteComparison comparison_;
};

inline CUstream stream_handle(Stream stream) { return stream.handle(); }
inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace tilewise::cuda
