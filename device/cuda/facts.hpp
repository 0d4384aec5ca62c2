#pragma once
#include "device/cuda/driver.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise::cuda {

/// The driver's description of a device; needs no context.
DeviceInfo facts_of(const Driver& driver, CUdevice device);

/// Whether the driver can encode tensor maps. Without it devices have no features that need them.
bool encodes_tensor_maps(const Driver& driver);

/// One attribute; 0 if the driver lacks it.
int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute);

}  // namespace tilewise::cuda
