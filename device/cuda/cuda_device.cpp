#include "device/cuda/cuda_device.hpp"

#include "device/cuda/nvml.hpp"

namespace tilewise::cuda {

CudaDevice::CudaDevice(const Driver& driver, CUdevice device, DeviceInfo info)
    : info_(std::move(info)),
      context_(std::make_shared<PrimaryContext>(driver, device)),
      driver_(driver),
      pool_(*context_),
      kept_([this](std::int64_t bytes) { return allocate_kept(bytes); },
            [this](void* memory) { free_kept(memory); }),
      comparison_(*context_) {}

std::string CudaDevice::driver_version() const {
  const std::string cuda = "CUDA " + version_text(driver_.version());
  const std::string release = nvml_driver_version();
  return release.empty() ? cuda : release + " (" + cuda + ")";
}

DeviceStatus CudaDevice::status() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  call(*context_, "asking for free device memory", driver_.mem_get_info, &free_bytes, &total_bytes);
  DeviceStatus status;
  status.free_bytes = static_cast<std::int64_t>(free_bytes);
  status.total_bytes = static_cast<std::int64_t>(total_bytes);
  nvml_fill_status(info_.uuid, /*own_context=*/true, status);
  return status;
}

std::optional<double> CudaDevice::energy_mj() const { return nvml_energy_mj(info_.uuid); }

}  // namespace tilewise::cuda
