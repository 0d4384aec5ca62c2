#pragma once
#include <cstdint>

namespace tilewise {

/// The checksum of Device::add_checksum(), of host memory: the sum of all 32-bit words, each
/// multiplied by an odd 64-bit number that follows from its place. One word that differs always
/// changes the sum; of ranges that differ in several words, one in 2^32 or fewer have equal sums.
/// `bytes`: a multiple of 4. `first`: the place of the first word; sums of pieces add up.
std::uint64_t checksum(const void* from, std::int64_t bytes, std::int64_t first = 0);

}  // namespace tilewise
