#pragma once
#include <cstdint>

namespace tilewise {

/// The checksum of Device::add_checksum() for host memory: the sum of all 32-bit words, each
/// multiplied by an odd 64-bit number that is determined by its position. One different word always
/// changes the sum; of ranges that differ in several words, at most one in 2^32 has an equal sum.
/// `bytes`: a multiple of 4. `first`: the position of the first word; sums of pieces add up.
std::uint64_t checksum(const void* from, std::int64_t bytes, std::int64_t first = 0);

}  // namespace tilewise
