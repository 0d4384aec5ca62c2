#include <array>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/kernel.hpp"

namespace tilewise::cuda {
namespace {

std::string text(const Dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

[[noreturn]] void fail_launch(const Driver& driver, CUresult result, const CudaKernel& kernel,
                              const LaunchShape& shape) {
  driver.fail(result, "launching " + kernel.name() + " with grid " + text(shape.grid) + ", block " +
                          text(shape.block) + ", cluster " + text(shape.cluster) + " and " +
                          std::to_string(shape.shared_bytes) + " bytes of shared memory");
}

CUresult launch_with_attributes(const Driver& driver, CUfunction function, const LaunchShape& shape,
                                void** parameters, CUstream stream) {
  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (volume(shape.cluster) > 1) {
    CUlaunchAttribute& cluster = attributes[count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = shape.cluster.x;
    cluster.value.clusterDim.y = shape.cluster.y;
    cluster.value.clusterDim.z = shape.cluster.z;
  }
  if (shape.programmatic) {
    CUlaunchAttribute& programmatic = attributes[count++];
    programmatic.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    programmatic.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x;
  config.gridDimY = shape.grid.y;
  config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.block.x;
  config.blockDimY = shape.block.y;
  config.blockDimZ = shape.block.z;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = count;
  return driver.launch_kernel_ex(&config, function, parameters, nullptr);
}

}  // namespace

void CudaDevice::launch(const LoadedKernel& loaded, const LaunchShape& shape, const void* arguments,
                        Stream stream) {
  const CurrentContext current(*context_);
  // The same device loads and launches a kernel, so the type is certain.
  const auto& kernel = static_cast<const CudaKernel&>(loaded);
  void* parameters[] = {const_cast<void*>(arguments)};
  CUresult result;
  if (shape.programmatic || volume(shape.cluster) > 1) {
    result = launch_with_attributes(driver_, kernel.function(), shape, parameters,
                                    stream_handle(stream));
  } else {
    // cuLaunchKernel costs the host less than cuLaunchKernelEx.
    result = driver_.launch_kernel(kernel.function(), shape.grid.x, shape.grid.y, shape.grid.z,
                                   shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes,
                                   stream_handle(stream), parameters, nullptr);
  }
  if (result != CUDA_SUCCESS) [[unlikely]] {
    fail_launch(driver_, result, kernel, shape);
  }
}

}  // namespace tilewise::cuda
