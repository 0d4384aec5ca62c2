#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// A binary's bytes, possibly corrupt. All functions below except value_at() read only within them.
using Binary = std::span<const std::uint8_t>;

/// The value at an offset; all of it must lie within the binary.
template <class T>
T value_at(Binary binary, std::size_t offset) {
  T value;
  std::memcpy(&value, binary.data() + offset, sizeof value);
  return value;
}

/// Whether a binary is an ELF file (cubin or shared library) whose headers refer only to bytes
/// within it. Loaders trust the headers, so truncated files are refused before loading.
bool is_whole_elf(Binary binary);

/// One entry of the section table. `name` and `bytes` are views of the binary.
struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint32_t link = 0, info = 0;
  std::uint64_t size = 0;  ///< in memory; `bytes` is empty if the file has none
  Binary bytes;
};

struct ElfFile {
  std::uint16_t machine = 0;
  std::vector<ElfSection> sections;
};

/// Empty unless the binary is a whole 64-bit little-endian ELF file.
std::optional<ElfFile> read_elf(Binary binary);

/// The bytes of the section of this name; empty without one.
Binary elf_section(Binary binary, std::string_view name);

/// XXH3 (128 bits, hexadecimal) of a kernel's machine code and resources: code, constants, initial
/// data, shared memory sizes, register counts, relocations. Excludes notes, toolkit versions, debug
/// information, string tables, names of local symbols, the order of sections and symbols. A change
/// of comments or unrelated functions keeps the hash if the compiler emits the same code. Empty
/// unless the binary is a whole ELF file.
std::string code_hash(Binary binary);

}  // namespace tilewise
