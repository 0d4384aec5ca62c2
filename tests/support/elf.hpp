#pragma once
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise::test {

/// The smallest shared library with a code_hash(). `code` is its section .text, `note` a section
/// that is not hashed.
inline std::vector<std::uint8_t> elf_with_code(std::string_view code, std::string_view note = "") {
  constexpr std::string_view names("\0.text\0.note\0.shstrtab\0", 23);
  constexpr int kSections = 4;
  std::string binary(sizeof(Elf64_Ehdr), '\0');
  Elf64_Shdr sections[kSections]{};
  const auto add = [&](int index, std::uint32_t name, std::uint32_t type, std::uint64_t flags,
                       std::string_view bytes) {
    sections[index].sh_name = name;
    sections[index].sh_type = type;
    sections[index].sh_flags = flags;
    sections[index].sh_offset = binary.size();
    sections[index].sh_size = bytes.size();
    binary += bytes;
  };
  add(1, 1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code);
  add(2, 7, SHT_NOTE, SHF_ALLOC, note);
  add(3, 13, SHT_STRTAB, 0, names);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shoff = binary.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = 3;
  std::memcpy(binary.data(), &header, sizeof header);
  binary.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return {binary.begin(), binary.end()};
}

}  // namespace tilewise::test
