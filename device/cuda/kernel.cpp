#include "device/cuda/kernel.hpp"

#include <array>

#include "device/cuda/cuda_device.hpp"
#include "device/elf.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

constexpr std::uint32_t kPortableClusterBlocks = 8;

/// Loads a cubin. An error includes the driver's log.
CUmodule load_module(const Driver& driver, const Image& image, const std::string& name) {
  std::array<char, 4096> log{};
  std::array options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // cuModuleLoadDataEx takes an option's size in the bits of a pointer.
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult result = driver.module_load_data(&module, image.binary.data(), options.size(),
                                                  options.data(), values.data());
  if (result != CUDA_SUCCESS) {
    const std::string said = log.data();
    driver.fail(result, "loading " + name + " for " + to_string(image.target) +
                            (said.empty() ? "" : " (" + said + ")"));
  }
  return module;
}

}  // namespace

CudaKernel::CudaKernel(std::shared_ptr<const PrimaryContext> context, const Image& image)
    : context_(std::move(context)), name_(image.kernel.source + ":" + image.kernel.entry) {
  if (!is_whole_elf(image.binary)) {
    throw Error(ErrorKind::invalid_argument, "the image of " + name_ + " (" +
                                                 std::to_string(image.binary.size()) +
                                                 " bytes) is no cubin or is cut short");
  }
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(driver);
  module_ = load_module(driver, image, name_);
  const CUresult result =
      driver.module_get_function(&function_, module_, image.kernel.entry.c_str());
  if (result != CUDA_SUCCESS) {
    driver.module_unload(module_);
    driver.fail(result, "finding the kernel of " + name_ + " in its image");
  }
}

CudaKernel::~CudaKernel() {
  const CurrentContext current(*context_);
  const AnyCaptureMode allowed(context_->driver());
  context_->driver().module_unload(module_);
}

int CudaKernel::attribute(CUfunction_attribute which) const {
  const Driver& driver = context_->driver();
  int value = 0;
  driver.check(driver.func_get_attribute(&value, which, function_), "reading what a kernel uses");
  return value;
}

ResourceUsage CudaKernel::usage() const {
  const CurrentContext current(*context_);
  ResourceUsage usage;
  usage.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  usage.static_shared_bytes = attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  // The driver reports a single sum of local memory, including spills.
  usage.stack_bytes = attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  return usage;
}

void CudaKernel::allow_shared(std::uint32_t bytes, int device_limit) {
  const CurrentContext current(*context_);
  if (static_cast<std::int64_t>(bytes) <=
      attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)) {
    return;
  }
  const Driver& driver = context_->driver();
  const CUresult result = driver.func_set_attribute(
      function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  if (result != CUDA_SUCCESS) {
    driver.fail(result, "asking for " + std::to_string(bytes) +
                            " bytes of dynamic shared memory for " + name_ + " (which has " +
                            std::to_string(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)) +
                            " static; a block may have " + std::to_string(device_limit) + ")");
  }
}

void CudaKernel::allow_large_clusters() {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(
      driver.func_set_attribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
      "asking for clusters of more than 8 blocks");
}

std::unique_ptr<LoadedKernel> CudaDevice::load(const Image& image, std::uint32_t shared_bytes,
                                               std::uint32_t cluster_blocks) {
  auto kernel = std::make_unique<CudaKernel>(context_, image);
  if (shared_bytes > 0) kernel->allow_shared(shared_bytes, info_.shared_per_block);
  if (cluster_blocks > kPortableClusterBlocks) kernel->allow_large_clusters();
  return kernel;
}

}  // namespace tilewise::cuda
