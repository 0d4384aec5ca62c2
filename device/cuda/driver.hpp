#pragma once
#include <cuda.h>

#include <string>

#include "device/cuda/library.hpp"

// Every driver entry point in use: member, symbol, CUDA version of the signature, signature.
// cuGetProcAddress returns the variant of that version for any driver, so no symbol needs a _v2
// suffix.
#define TILEWISE_DRIVER_ENTRIES(X)                                                                 \
  X(init, "cuInit", 2000, unsigned)                                                                \
  X(get_error_name, "cuGetErrorName", 6000, CUresult, const char**)                                \
  X(get_error_string, "cuGetErrorString", 6000, CUresult, const char**)                            \
  X(device_get_count, "cuDeviceGetCount", 2000, int*)                                              \
  X(device_get, "cuDeviceGet", 2000, CUdevice*, int)                                               \
  X(device_get_name, "cuDeviceGetName", 2000, char*, int, CUdevice)                                \
  X(device_get_uuid, "cuDeviceGetUuid", 11040, CUuuid*, CUdevice)                                  \
  X(device_total_mem, "cuDeviceTotalMem", 3020, std::size_t*, CUdevice)                            \
  X(device_get_attribute, "cuDeviceGetAttribute", 2000, int*, CUdevice_attribute, CUdevice)        \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", 7000, CUcontext*, CUdevice)                    \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease", 11000, CUdevice)                             \
  X(ctx_set_current, "cuCtxSetCurrent", 4000, CUcontext)                                           \
  X(ctx_get_current, "cuCtxGetCurrent", 4000, CUcontext*)                                          \
  X(ctx_get_device, "cuCtxGetDevice", 2000, CUdevice*)                                             \
  X(module_load_data, "cuModuleLoadDataEx", 2010, CUmodule*, const void*, unsigned, CUjit_option*, \
    void**)                                                                                        \
  X(module_unload, "cuModuleUnload", 2000, CUmodule)                                               \
  X(module_get_function, "cuModuleGetFunction", 2000, CUfunction*, CUmodule, const char*)          \
  X(func_get_attribute, "cuFuncGetAttribute", 2020, int*, CUfunction_attribute, CUfunction)        \
  X(func_set_attribute, "cuFuncSetAttribute", 9000, CUfunction, CUfunction_attribute, int)         \
  X(launch_kernel, "cuLaunchKernel", 4000, CUfunction, unsigned, unsigned, unsigned, unsigned,     \
    unsigned, unsigned, unsigned, CUstream, void**, void**)                                        \
  X(launch_kernel_ex, "cuLaunchKernelEx", 11060, const CUlaunchConfig*, CUfunction, void**,        \
    void**)                                                                                        \
  X(mem_alloc, "cuMemAlloc", 3020, CUdeviceptr*, std::size_t)                                      \
  X(mem_free, "cuMemFree", 3020, CUdeviceptr)                                                      \
  X(mem_host_alloc, "cuMemHostAlloc", 2020, void**, std::size_t, unsigned)                         \
  X(mem_free_host, "cuMemFreeHost", 2000, void*)                                                   \
  X(mem_get_info, "cuMemGetInfo", 3020, std::size_t*, std::size_t*)                                \
  X(memcpy_to_device, "cuMemcpyHtoDAsync", 3020, CUdeviceptr, const void*, std::size_t, CUstream)  \
  X(memcpy_to_host, "cuMemcpyDtoHAsync", 3020, void*, CUdeviceptr, std::size_t, CUstream)          \
  X(memcpy_on_device, "cuMemcpyDtoDAsync", 3020, CUdeviceptr, CUdeviceptr, std::size_t, CUstream)  \
  X(memcpy_rows, "cuMemcpy2DAsync", 3020, const CUDA_MEMCPY2D*, CUstream)                          \
  X(pointer_get_attribute, "cuPointerGetAttribute", 4000, void*, CUpointer_attribute, CUdeviceptr) \
  X(memset_d8, "cuMemsetD8Async", 3020, CUdeviceptr, unsigned char, std::size_t, CUstream)         \
  X(memset_d32, "cuMemsetD32Async", 3020, CUdeviceptr, unsigned, std::size_t, CUstream)            \
  X(pool_create, "cuMemPoolCreate", 11020, CUmemoryPool*, const CUmemPoolProps*)                   \
  X(pool_destroy, "cuMemPoolDestroy", 11020, CUmemoryPool)                                         \
  X(pool_set_attribute, "cuMemPoolSetAttribute", 11020, CUmemoryPool, CUmemPool_attribute, void*)  \
  X(pool_trim, "cuMemPoolTrimTo", 11020, CUmemoryPool, std::size_t)                                \
  X(pool_alloc, "cuMemAllocFromPoolAsync", 11020, CUdeviceptr*, std::size_t, CUmemoryPool,         \
    CUstream)                                                                                      \
  X(mem_free_async, "cuMemFreeAsync", 11020, CUdeviceptr, CUstream)                                \
  X(stream_create, "cuStreamCreate", 2000, CUstream*, unsigned)                                    \
  X(stream_destroy, "cuStreamDestroy", 4000, CUstream)                                             \
  X(stream_synchronize, "cuStreamSynchronize", 2000, CUstream)                                     \
  X(stream_wait_event, "cuStreamWaitEvent", 3020, CUstream, CUevent, unsigned)                     \
  X(stream_get_id, "cuStreamGetId", 12000, CUstream, unsigned long long*)                          \
  X(stream_is_capturing, "cuStreamIsCapturing", 10000, CUstream, CUstreamCaptureStatus*)           \
  X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010,                      \
    CUstreamCaptureMode*)                                                                          \
  X(stream_begin_capture, "cuStreamBeginCapture", 10010, CUstream, CUstreamCaptureMode)            \
  X(stream_end_capture, "cuStreamEndCapture", 10000, CUstream, CUgraph*)                           \
  X(graph_get_nodes, "cuGraphGetNodes", 10000, CUgraph, CUgraphNode*, std::size_t*)                \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", 11040, CUgraphExec*, CUgraph,                \
    unsigned long long)                                                                            \
  X(graph_destroy, "cuGraphDestroy", 10000, CUgraph)                                               \
  X(graph_exec_destroy, "cuGraphExecDestroy", 10000, CUgraphExec)                                  \
  X(graph_launch, "cuGraphLaunch", 10000, CUgraphExec, CUstream)                                   \
  X(event_create, "cuEventCreate", 2000, CUevent*, unsigned)                                       \
  X(event_destroy, "cuEventDestroy", 4000, CUevent)                                                \
  X(event_record, "cuEventRecord", 2000, CUevent, CUstream)                                        \
  X(event_synchronize, "cuEventSynchronize", 2000, CUevent)                                        \
  X(event_query, "cuEventQuery", 2000, CUevent)                                                    \
  X(event_elapsed_time, "cuEventElapsedTime", 2000, float*, CUevent, CUevent)

namespace tilewise::cuda {

/// The CUDA driver library, loaded once and never unloaded. Immutable, thread-safe.
class Driver {
 public:
  /// Throws Error(no_device) for a missing library and for an old driver; the next call tries
  /// again.
  static const Driver& loaded();
  /// loaded() after a successful cuInit. Throws Error(no_device). Throws Error(device) in a
  /// fork()ed child whose parent had initialised the driver.
  static const Driver& initialized();

  /// The newest CUDA version that the driver supports: 13000 for CUDA 13.0.
  int version() const { return version_; }

#define TILEWISE_DECLARE(member, symbol, since, ...) CUresult (*member)(__VA_ARGS__) = nullptr;
  TILEWISE_DRIVER_ENTRIES(TILEWISE_DECLARE)
#undef TILEWISE_DECLARE

  /// An optional entry point; null if the driver lacks it.
  void* find(const char* symbol, int since) const;

  /// Throws unless `result` is success. `tried` completes "... failed": "copying to the device".
  void check(CUresult result, const char* tried) const {
    if (result != CUDA_SUCCESS) [[unlikely]] {
      fail(result, tried);
    }
  }
  [[noreturn]] void fail(CUresult result, const std::string& tried) const;
  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string words(CUresult result) const;

 private:
  Driver();
  Library library_;
  int version_ = 0;
  CUresult (*get_proc_address_)(const char*, void**, int, cuuint64_t,
                                CUdriverProcAddressQueryResult*) = nullptr;
};

/// The driver's major CUDA version, 0 when there is no usable driver. Never throws.
int driver_major() noexcept;

/// 13000 -> "13.0".
std::string version_text(int version);

/// "; CUDA_VISIBLE_DEVICES is "1"", or nothing when it is not set.
std::string visible_devices_text();

}  // namespace tilewise::cuda
