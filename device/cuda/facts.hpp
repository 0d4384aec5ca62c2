#pragma once
#include "device/cuda/driver.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise::cuda {

/// The driver's description of a device; needs no context.
DeviceInfo facts_of(const Driver& driver, CUdevice device);

/// One attribute; 0 when the driver does not have it.
int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute);

}  // namespace tilewise::cuda
