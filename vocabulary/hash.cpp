#include "vocabulary/hash.hpp"

#include <xxhash.h>

#include <cstdint>

namespace tilewise {

std::string hash_text(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::string hex;
  hex.reserve(32);
  for (const std::uint64_t half : {std::uint64_t{hash.high64}, std::uint64_t{hash.low64}})
    for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[half >> shift & 15];
  return hex;
}

}  // namespace tilewise
