#pragma once
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"

namespace tilewise::cuda {

/// The index into `devices` for "auto", an index, a UUID or a unique prefix of a UUID. Throws
/// Error(no_device) with the list of devices.
int select_device(const std::string& which, const std::vector<DeviceInfo>& devices);

/// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", the form of nvidia-smi -L; "MIG-..." for a MIG
/// slice.
std::string uuid_text(const unsigned char (&bytes)[16], const std::string& device_name);

/// fp32 multiply-adds per multiprocessor and clock; 0 for an unknown capability.
int fp32_lanes(int major, int minor);

}  // namespace tilewise::cuda
