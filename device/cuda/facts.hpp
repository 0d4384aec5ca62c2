#pragma once
#include "device/cuda/driver.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise::cuda {

/// What the driver states about a device; needs no context.
DeviceInfo facts_of(const Driver& driver, CUdevice device);

/// One attribute, 0 when the driver does not know it.
int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute);

}  // namespace tilewise::cuda
