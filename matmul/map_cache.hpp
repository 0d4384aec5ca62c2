#pragma once
#include <cstddef>
#include <cstdint>

#include "device/device.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A number that no other executable of the process has: the key of its maps.
std::uint64_t next_map_owner();

/// Writes map `index` of `owner`'s plan to `to` (128 bytes). Each thread keeps 256 of the maps that
/// it encoded last, 43 KiB; a map of the same address and strides is copied from there, without a
/// call of the driver. Throws what Device::encode_tensor_map() throws. Thread-safe, and never
/// waits.
void encode_cached(Device& device, const TensorMapRecipe& recipe, std::uint64_t owner,
                   std::int64_t index, const void* base, const MapStrides& strides, std::byte* to);

}  // namespace tilewise
