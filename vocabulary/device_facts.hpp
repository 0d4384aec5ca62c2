#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "vocabulary/device_info.hpp"

namespace tilewise {

/// Properties in which devices of one capability differ, stored with the records measured on the
/// device. 0: not known.
struct DeviceFacts {
  std::string gpu;           ///< gpu_key()
  int clock_khz = 0;         ///< maximum clock of the multiprocessors
  int memory_clock_khz = 0;  ///< maximum clock of the memory
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  double power_limit_w = 0;
  std::string date;  ///< ISO 8601 UTC
  bool operator==(const DeviceFacts&) const = default;
};

/// The facts of a present device. Its power limit is in DeviceStatus.
DeviceFacts facts_of(const DeviceInfo& info, double power_limit_w, const std::string& date);

/// The device of a gpu_key() with these facts. Without them it has only the properties of its
/// capability: clocks, bus, memory and L2 are 0, not known. Throws Error(invalid_argument) like
/// nominal_from_key().
DeviceInfo device_of(const std::string& gpu, const std::optional<DeviceFacts>& facts);

std::string to_json(const DeviceFacts& facts);
/// Throws Error(invalid_argument).
DeviceFacts device_facts_from_json(std::string_view text);

}  // namespace tilewise
