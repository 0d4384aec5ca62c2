#pragma once
#include <cstddef>
#include <cstdint>

#include "device/device.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A number unique in the process, which is the key of an executable's maps.
std::uint64_t next_map_owner();

/// Writes map `index` of `owner`'s plan to `to` (128 bytes). Each thread caches up to 256 of its
/// last maps (43 KiB). A map with the same address and strides is copied from the cache without a
/// driver call. Throws the errors of Device::encode_tensor_map(). Thread-safe; never waits.
void encode_cached(Device& device, const TensorMapRecipe& recipe, std::uint64_t owner,
                   std::int64_t index, const void* base, const MapStrides& strides, std::byte* to);

}  // namespace tilewise
