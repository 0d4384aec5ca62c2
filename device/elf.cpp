#include "device/elf.hpp"

#include <elf.h>

#include <cstring>

namespace tilewise {
namespace {

/// Bound on the sum of section sizes, in file sizes. Sections of sm_100 cubins overlap; a file of
/// 65,535 sections of its full size would take too long to read.
constexpr std::uint64_t kMostOverlap = 4;

/// Whether `count` entries from `offset` lie within the binary. Sum and product cannot overflow:
/// counts and entry sizes have at most 32 bits, or the entry is one byte.
bool fits(Binary binary, std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes) {
  return offset <= binary.size() && count * entry_bytes <= binary.size() - offset;
}

bool has_bytes(const Elf64_Shdr& section) {
  return section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
}

/// The header, if all tables, segments and sections lie within the file.
std::optional<Elf64_Ehdr> whole_header(Binary binary) {
  if (binary.size() < sizeof(Elf64_Ehdr)) return std::nullopt;
  const auto header = value_at<Elf64_Ehdr>(binary, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return std::nullopt;
  if ((header.e_shnum > 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      !fits(binary, header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr)) ||
      !fits(binary, header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr)))
    return std::nullopt;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = value_at<Elf64_Phdr>(binary, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!fits(binary, segment.p_offset, segment.p_filesz, 1)) return std::nullopt;
  }
  std::uint64_t all = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = value_at<Elf64_Shdr>(binary, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (!has_bytes(section)) continue;
    if (!fits(binary, section.sh_offset, section.sh_size, 1)) return std::nullopt;
    all += section.sh_size;
  }
  if (all > kMostOverlap * binary.size()) return std::nullopt;
  return header;
}

/// The text at `offset` up to its terminating zero; empty without one.
std::string_view text_at(Binary table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const std::size_t most = table.size() - static_cast<std::size_t>(offset);
  const std::size_t length = strnlen(begin, most);
  return length == most ? std::string_view() : std::string_view(begin, length);
}

}  // namespace

bool is_whole_elf(Binary binary) { return whole_header(binary).has_value(); }

std::optional<ElfFile> read_elf(Binary binary) {
  const std::optional<Elf64_Ehdr> header = whole_header(binary);
  if (!header) return std::nullopt;
  ElfFile file;
  file.machine = header->e_machine;
  std::vector<std::uint32_t> names;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const auto entry = value_at<Elf64_Shdr>(binary, header->e_shoff + i * sizeof(Elf64_Shdr));
    ElfSection section;
    section.type = entry.sh_type, section.flags = entry.sh_flags;
    section.link = entry.sh_link, section.info = entry.sh_info;
    section.size = entry.sh_size;
    if (has_bytes(entry)) section.bytes = binary.subspan(entry.sh_offset, entry.sh_size);
    file.sections.push_back(section);
    names.push_back(entry.sh_name);
  }
  if (header->e_shstrndx < file.sections.size()) {
    const Binary table = file.sections[header->e_shstrndx].bytes;
    for (std::size_t i = 0; i < names.size(); ++i) file.sections[i].name = text_at(table, names[i]);
  }
  return file;
}

Binary elf_section(Binary binary, std::string_view name) {
  if (const std::optional<ElfFile> file = read_elf(binary))
    for (const ElfSection& section : file->sections)
      if (section.name == name) return section.bytes;
  return {};
}

}  // namespace tilewise
