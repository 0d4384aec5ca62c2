#include "device/cuda/facts.hpp"

#include <algorithm>
#include <array>

#include "device/cuda/device_list.hpp"

namespace tilewise::cuda {
namespace {

std::string name_of(const Driver& driver, CUdevice device) {
  std::array<char, 256> name{};
  driver.check(driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device),
               "reading a GPU's name");
  return name.data();
}

std::string uuid_of(const Driver& driver, CUdevice device, const std::string& name) {
  CUuuid uuid{};
  driver.check(driver.device_get_uuid(&uuid, device), "reading a GPU's UUID");
  unsigned char bytes[16];
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), bytes);
  return uuid_text(bytes, name);
}

}  // namespace

int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.device_get_attribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

DeviceInfo facts_of(const Driver& driver, CUdevice device) {
  const auto get = [&](CUdevice_attribute which) { return attribute_of(driver, device, which); };
  DeviceInfo info;
  info.name = name_of(driver, device);
  info.uuid = uuid_of(driver, device, info.name);
  info.target = best_target(get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  info.features = features_of(info.target);
  if (!encodes_tensor_maps(driver))
    for (const Feature absent : {Feature::tma, Feature::wgmma})
      info.features.reset(static_cast<std::size_t>(absent));
  info.multiprocessors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.memory_bus_bits = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  std::size_t bytes = 0;
  driver.check(driver.device_total_mem(&bytes, device), "reading a GPU's memory size");
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  info.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.shared_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.shared_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info.shared_reserved_per_block = get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  info.registers_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  info.registers_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  info.threads_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.threads_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  info.blocks_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  info.fp32_lanes = fp32_lanes(info.target.major, info.target.minor);
  return info;
}

}  // namespace tilewise::cuda
