#pragma once
#include <cstdint>
#include <vector>

namespace tilewise {

/// Whether a binary is an ELF file (as cubins and shared libraries are) with all the bytes its
/// header speaks of. Loaders read as far as the headers say, so what was cut short on its way must
/// not reach them.
bool is_whole_elf(const std::vector<std::uint8_t>& binary);

}  // namespace tilewise
