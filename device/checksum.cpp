#include "device/checksum.hpp"

#include <cstring>

namespace tilewise {

std::uint64_t checksum(const void* from, std::int64_t bytes, std::int64_t first) {
  const auto* const begin = static_cast<const unsigned char*>(from);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < bytes / 4; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, begin + 4 * i, sizeof word);
    const std::uint64_t place = static_cast<std::uint64_t>(first + i) * 0x9E3779B97F4A7C15U;
    sum += word * ((place ^ (place >> 29)) | 1);
  }
  return sum;
}

}  // namespace tilewise
