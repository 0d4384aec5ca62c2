#pragma once
#include <string>
#include <string_view>

namespace tilewise {

/// XXH3 (128 bits) of `bytes`, as 32 hexadecimal digits. Detects damage; no protection against an
/// attacker.
std::string hash_text(std::string_view bytes);

}  // namespace tilewise
