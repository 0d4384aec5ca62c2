#include "device/elf.hpp"

#include <elf.h>

#include <cstring>

namespace tilewise {

bool is_whole_elf(const std::vector<std::uint8_t>& binary) {
  Elf64_Ehdr header;
  if (binary.size() < sizeof header) return false;
  std::memcpy(&header, binary.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  const auto fits = [&](std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes) {
    return offset <= binary.size() && count * entry_bytes <= binary.size() - offset;
  };
  return fits(header.e_shoff, header.e_shnum, header.e_shentsize) &&
         fits(header.e_phoff, header.e_phnum, header.e_phentsize);
}

}  // namespace tilewise
