#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// RFC 4648, with padding, in one line.
std::string to_base64(std::span<const std::uint8_t> bytes);
/// Throws Error(invalid_argument) for any other text.
std::vector<std::uint8_t> from_base64(std::string_view text);

}  // namespace tilewise
