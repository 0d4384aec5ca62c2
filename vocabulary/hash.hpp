#pragma once
#include <string>
#include <string_view>

namespace tilewise {

/// XXH3's 128 bits of `bytes`, as 32 hexadecimal digits. It finds damage; it does not stop an
/// attacker.
std::string hash_text(std::string_view bytes);

}  // namespace tilewise
