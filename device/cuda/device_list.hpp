#pragma once
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"

namespace tilewise::cuda {

/// Which of `devices` is meant by "auto", an index, or a UUID or a unique prefix of one. Throws
/// Error(no_device) that says which devices there are.
int select_device(const std::string& which, const std::vector<DeviceInfo>& devices);

/// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi -L writes it.
std::string uuid_text(const unsigned char (&bytes)[16], const std::string& device_name);

/// fp32 multiply-adds a multiprocessor starts per clock; 0 for a capability that is not known.
int fp32_lanes(int major, int minor);

}  // namespace tilewise::cuda
