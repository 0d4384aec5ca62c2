#include "vocabulary/device_facts.hpp"

namespace tilewise {

DeviceFacts facts_of(const DeviceInfo& info, double power_limit_w, const std::string& date) {
  DeviceFacts facts;
  facts.gpu = gpu_key(info);
  facts.clock_khz = info.clock_khz;
  facts.memory_clock_khz = info.memory_clock_khz;
  facts.memory_bus_bits = info.memory_bus_bits;
  facts.memory_bytes = info.memory_bytes;
  facts.l2_bytes = info.l2_bytes;
  facts.power_limit_w = power_limit_w > 0 ? power_limit_w : 0;
  facts.date = date;
  return facts;
}

DeviceInfo device_of(const std::string& gpu, const std::optional<DeviceFacts>& facts) {
  const DeviceFacts known = facts.value_or(DeviceFacts{});
  DeviceInfo info = nominal_from_key(gpu);
  info.clock_khz = known.clock_khz;
  info.memory_clock_khz = known.memory_clock_khz;
  info.memory_bus_bits = known.memory_bus_bits;
  info.memory_bytes = known.memory_bytes;
  info.l2_bytes = known.l2_bytes;
  return info;
}

}  // namespace tilewise
