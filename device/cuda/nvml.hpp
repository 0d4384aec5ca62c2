#pragma once
#include <optional>
#include <string>

#include "device/device.hpp"

namespace tilewise::cuda {

/// NVIDIA's management library (NVML). Without it every function returns "not known".

/// The number of GPUs in this machine, including those hidden by CUDA_VISIBLE_DEVICES; -1 when not
/// known.
int nvml_device_count();

/// "580.65.06", empty when not known.
std::string nvml_driver_version();

/// Sets clocks, power, temperature, utilization, throttle reasons and other processes of the device
/// with this UUID. `own_context`: this process has a context there and is in NVML's count.
void nvml_fill_status(const std::string& uuid, bool own_context, DeviceStatus& status);

/// Millijoules that the device with this UUID has used since the driver was loaded (Volta and
/// newer).
std::optional<double> nvml_energy_mj(const std::string& uuid);

/// The throttle reasons in NVML's bit mask as words; "" when none deserves a warning.
std::string throttle_words(unsigned long long reasons);

}  // namespace tilewise::cuda
