#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// A binary as it is stored. Nothing below reads outside of it, whatever it holds.
using Binary = std::span<const std::uint8_t>;

/// Whether a binary is an ELF file (as cubins and shared libraries are) with all the bytes its
/// headers speak of. Loaders read as far as the headers say, so a file that was cut short must not
/// reach them.
bool is_whole_elf(Binary binary);

/// One entry of the section table. `name` and `bytes` are views of the binary.
struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint32_t link = 0, info = 0;
  std::uint64_t size = 0;  ///< in memory; `bytes` is empty where the file holds none
  Binary bytes;
};

struct ElfFile {
  std::uint16_t machine = 0;
  std::vector<ElfSection> sections;
};

/// Nothing for a binary that is no whole 64-bit little-endian ELF file.
std::optional<ElfFile> read_elf(Binary binary);

/// The bytes of the section of this name; empty where there is none.
Binary elf_section(Binary binary, std::string_view name);

/// XXH3 (128 bits, hexadecimal) of what decides a kernel's machine code and resources: code,
/// constants, initial data, sizes of shared memory, register counts, relocations. Notes, versions
/// of the toolkit, debug information, string tables, names of local symbols and the order of
/// sections and symbols do not count: a source whose comments or unrelated functions moved has the
/// same hash where the compiler makes the same code. Empty for what is no whole ELF file.
std::string code_hash(Binary binary);

}  // namespace tilewise
