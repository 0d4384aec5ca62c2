#include "device/cuda/cuda_device.hpp"
#include "device/cuda/facts.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise::cuda {
namespace {

std::string bytes_text(std::int64_t bytes) {
  return std::to_string(bytes) + " bytes (" +
         in_decimals(static_cast<double>(bytes) / (1LL << 30), 2) + " GiB)";
}

}  // namespace

WorkspacePool::WorkspacePool(const PrimaryContext& context) : context_(context) {
  const Driver& driver = context.driver();
  if (!attribute_of(driver, context.device(), CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context.device();
  const CurrentContext current(context);
  driver.check(driver.pool_create(&handle_, &properties), "making the workspace pool");
  // The pool keeps freed memory: by default it would return memory at each synchronization.
  cuuint64_t threshold = UINT64_MAX;
  driver.pool_set_attribute(handle_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

WorkspacePool::~WorkspacePool() {
  if (!handle_) return;
  const CurrentContext current(context_);
  context_.driver().pool_destroy(handle_);
}

void CudaDevice::fail_allocation(CUresult result, std::int64_t bytes, const char* what) const {
  std::size_t free_bytes = 0, total_bytes = 0;
  if (result != CUDA_ERROR_OUT_OF_MEMORY ||
      driver_.mem_get_info(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    driver_.fail(result, "allocating " + bytes_text(bytes) + " of " + what);
  }
  throw Error(ErrorKind::out_of_memory,
              "out of " + std::string(what) + ": " + bytes_text(bytes) + " wanted, and " +
                  bytes_text(static_cast<std::int64_t>(free_bytes)) + " of " +
                  bytes_text(static_cast<std::int64_t>(total_bytes)) + " free on " + info_.name);
}

void* CudaDevice::allocate(std::int64_t bytes) {
  if (bytes <= 0) return nullptr;
  const CurrentContext current(*context_);
  CUdeviceptr pointer = 0;
  CUresult result = driver_.mem_alloc(&pointer, static_cast<std::size_t>(bytes));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // Freeing unused workspaces may make the allocation possible.
    kept_.free_idle();
    if (pool_.handle()) driver_.pool_trim(pool_.handle(), 0);
    result = driver_.mem_alloc(&pointer, static_cast<std::size_t>(bytes));
  }
  if (result != CUDA_SUCCESS) fail_allocation(result, bytes, "device memory");
  return reinterpret_cast<void*>(pointer);
}

void CudaDevice::free(void* pointer) noexcept {
  if (!pointer) return;
  const CurrentContext current(*context_);
  driver_.mem_free(address(pointer));
}

void* CudaDevice::allocate_async(std::int64_t bytes, Stream stream) {
  if (bytes <= 0) return nullptr;
  if (!pool_.handle()) {
    if (capturing(stream)) {
      throw Error(ErrorKind::unsupported,
                  info_.name +
                      " has no memory pools, so a product that needs workspace cannot be "
                      "captured into a graph");
    }
    return allocate(bytes);
  }
  const CurrentContext current(*context_);
  CUdeviceptr pointer = 0;
  const auto try_pool = [&] {
    return driver_.pool_alloc(&pointer, static_cast<std::size_t>(bytes), pool_.handle(),
                              stream_handle(stream));
  };
  CUresult result = try_pool();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !capturing(stream)) {
    kept_.free_idle();  // as in allocate()
    result = try_pool();
  }
  if (result != CUDA_SUCCESS) fail_allocation(result, bytes, "device memory for workspace");
  return reinterpret_cast<void*>(pointer);
}

void CudaDevice::free_async(void* pointer, Stream stream) {
  if (!pointer) return;
  const CurrentContext current(*context_);
  if (pool_.handle()) {
    driver_.check(driver_.mem_free_async(address(pointer), stream_handle(stream)),
                  "freeing workspace");
  } else {
    // cuMemFree waits for all work, so it is slow but correct.
    driver_.check(driver_.mem_free(address(pointer)), "freeing workspace");
  }
}

void* CudaDevice::allocate_kept(std::int64_t bytes) const noexcept {
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(driver_);
  CUdeviceptr pointer = 0;
  const CUresult result = driver_.mem_alloc(&pointer, static_cast<std::size_t>(bytes));
  return result == CUDA_SUCCESS ? reinterpret_cast<void*>(pointer) : nullptr;
}

void CudaDevice::free_kept(void* pointer) const noexcept {
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(driver_);
  driver_.mem_free(address(pointer));
}

/// Returns the workspace of a product. A captured product gets memory of its own: it runs when its
/// graph runs, perhaps concurrently with later products of this stream. A product on
/// CU_STREAM_PER_THREAD also gets its own memory, since that is a different stream in each thread.
WorkspaceMemory CudaDevice::take_workspace(std::int64_t bytes, Stream stream) {
  if (bytes <= 0) return {};
  const CurrentContext current(*context_);
  unsigned long long id = 0;
  const bool may_keep = stream_handle(stream) != CU_STREAM_PER_THREAD && !capturing(stream);
  if (may_keep && driver_.stream_get_id(stream_handle(stream), &id) == CUDA_SUCCESS) [[likely]]
    if (KeptWorkspaces::Kept* kept = kept_.take(id + 1, bytes)) return {kept->data(), kept};
  return {allocate_async(bytes, stream), nullptr};
}

void CudaDevice::give_back_workspace(const WorkspaceMemory& workspace, Stream stream) {
  if (workspace.kept)
    kept_.give_back(*static_cast<KeptWorkspaces::Kept*>(workspace.kept));
  else
    free_async(workspace.data, stream);
}

void* CudaDevice::allocate_host(std::int64_t bytes) {
  if (bytes <= 0) return nullptr;
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(driver_);
  void* pointer = nullptr;
  const CUresult result =
      driver_.mem_host_alloc(&pointer, static_cast<std::size_t>(bytes), CU_MEMHOSTALLOC_PORTABLE);
  if (result != CUDA_SUCCESS) {
    driver_.fail(result, "allocating " + bytes_text(bytes) + " of page-locked host memory");
  }
  return pointer;
}

void CudaDevice::free_host(void* pointer) noexcept {
  if (!pointer) return;
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(driver_);
  driver_.mem_free_host(pointer);
}

std::int64_t CudaDevice::free_memory() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  const AnyCaptureMode allowed(driver_);
  call(*context_, "asking for free device memory", driver_.mem_get_info, &free_bytes, &total_bytes);
  return static_cast<std::int64_t>(free_bytes);
}

/// Determined by the range of the allocation or registration that contains the first address.
/// Managed memory is not page-locked.
bool CudaDevice::page_locked(const void* from, std::int64_t bytes) const {
  const CurrentContext current(*context_);
  CUmemorytype type{};
  int managed = 0;
  CUdeviceptr start = 0;
  std::size_t size = 0;
  const auto get = [&](void* value, CUpointer_attribute attribute) {
    return driver_.pointer_get_attribute(value, attribute, address(from)) == CUDA_SUCCESS;
  };
  return get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) && type == CU_MEMORYTYPE_HOST &&
         get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED) && !managed &&
         get(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) &&
         get(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE) && address(from) >= start &&
         address(from) + static_cast<std::size_t>(bytes) <= start + size;
}

void CudaDevice::copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  if (bytes > 0)
    call(*context_, "copying to the device", driver_.memcpy_to_device, address(to), from,
         static_cast<std::size_t>(bytes), stream_handle(stream));
}

void CudaDevice::copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) {
  if (bytes > 0)
    call(*context_, "copying from the device", driver_.memcpy_to_host, to, address(from),
         static_cast<std::size_t>(bytes), stream_handle(stream));
}

void CudaDevice::copy_rows(const char* tried, CUDA_MEMCPY2D copy, std::int64_t to_pitch,
                           std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows,
                           Stream stream) {
  if (row_bytes <= 0 || rows <= 0) return;
  copy.srcPitch = static_cast<std::size_t>(from_pitch);
  copy.dstPitch = static_cast<std::size_t>(to_pitch);
  copy.WidthInBytes = static_cast<std::size_t>(row_bytes);
  copy.Height = static_cast<std::size_t>(rows);
  call(*context_, tried, driver_.memcpy_rows, &copy, stream_handle(stream));
}

void CudaDevice::copy_rows_to_device(void* to, std::int64_t to_pitch, const void* from,
                                     std::int64_t from_pitch, std::int64_t row_bytes,
                                     std::int64_t rows, Stream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = address(to);
  copy_rows("copying rows to the device", copy, to_pitch, from_pitch, row_bytes, rows, stream);
}

void CudaDevice::copy_rows_to_host(void* to, std::int64_t to_pitch, const void* from,
                                   std::int64_t from_pitch, std::int64_t row_bytes,
                                   std::int64_t rows, Stream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = address(from);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = to;
  copy_rows("copying rows from the device", copy, to_pitch, from_pitch, row_bytes, rows, stream);
}

void CudaDevice::copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  if (bytes > 0)
    call(*context_, "copying on the device", driver_.memcpy_on_device, address(to), address(from),
         static_cast<std::size_t>(bytes), stream_handle(stream));
}

bool CudaDevice::known_equal(const void* x, const void* y, std::int64_t bytes, Stream stream) {
  return comparison_.known_equal(x, y, bytes, stream_handle(stream));
}

bool CudaDevice::add_checksum(const void* from, std::int64_t bytes, void* sum, Stream stream) {
  return comparison_.add_checksum(from, bytes, sum, stream_handle(stream));
}

void CudaDevice::clear(void* to, std::int64_t bytes, Stream stream) {
  if (bytes > 0)
    call(*context_, "clearing device memory", driver_.memset_d8, address(to),
         static_cast<unsigned char>(0), static_cast<std::size_t>(bytes), stream_handle(stream));
}

void CudaDevice::fill32(void* to, std::uint32_t value, std::int64_t words, Stream stream) {
  if (words > 0)
    call(*context_, "filling device memory", driver_.memset_d32, address(to), value,
         static_cast<std::size_t>(words), stream_handle(stream));
}

}  // namespace tilewise::cuda
