#include <elf.h>

#include <algorithm>

#include "device/elf.hpp"
#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

constexpr std::uint16_t kCudaMachine = 190;
constexpr std::size_t kLongestName = 1024;  // hashed bytes of a symbol's name

// Attributes of .nv.info, named as in the CUDA toolkit's disassembler. A value of form EIFMT_SVAL
// has a length and bytes, a value of every other form two bytes.
constexpr std::uint8_t kSizedValue = 4;
constexpr std::uint8_t kExternals = 0x0f, kApiVersion = 0x37;
// PARAM_CBANK, FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE, REGCOUNT: the first word of the value is
// the number of a symbol.
constexpr std::uint8_t kOfSymbol[] = {0x0a, 0x11, 0x12, 0x23, 0x2f};

bool begins_with_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

/// Whether a section is hashed. Sections of a cubin are chosen by name, since .nv.info (register
/// counts) is not loaded but relevant. A shared library has its loaded sections hashed, without the
/// loader's own tables.
bool counts(const ElfFile& file, const ElfSection& section) {
  if (file.machine == kCudaMachine)
    return begins_with_one_of(
        section.name, {".text", ".nv.info", ".nv.constant", ".nv.shared", ".nv.global", ".nv.local",
                       ".rel.text", ".rela.text", ".rel.nv.constant", ".rela.nv.constant",
                       ".rel.nv.global", ".rela.nv.global"});
  if (!(section.flags & SHF_ALLOC)) return false;
  switch (section.type) {
    case SHT_NOTE:
    case SHT_STRTAB:
    case SHT_DYNSYM:
    case SHT_HASH:
    case SHT_GNU_HASH:
    case SHT_GNU_verdef:
    case SHT_GNU_verneed:
    case SHT_GNU_versym:
    case SHT_DYNAMIC:
      return false;
  }
  return true;
}

/// The hashed text: fields with their lengths, so that different lists of fields never give the
/// same text.
class HashedText {
 public:
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    text_ += text;
  }
  void add(Binary bytes) {
    add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void add(std::uint64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  /// Adds fields whose order is irrelevant.
  void add_sorted(std::vector<std::string> parts) {
    std::sort(parts.begin(), parts.end());
    add(std::uint64_t{parts.size()});
    for (const std::string& part : parts) add(std::string_view(part));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(const ElfFile& file) : file_(file) {}

  std::string essence() const {
    std::vector<std::string> parts;
    for (const ElfSection& section : file_.sections)
      if (counts(file_, section)) parts.push_back(essence_of(section));
    HashedText all;
    all.add(std::uint64_t{file_.machine});
    all.add_sorted(std::move(parts));
    return all.text();
  }

 private:
  std::string essence_of(const ElfSection& section) const {
    HashedText part;
    part.add(section.name);
    part.add(std::uint64_t{section.type});
    part.add(section.flags);
    part.add(section.size);
    // Older cubins store a kernel's register count here, above the number of its symbol.
    if (file_.machine == kCudaMachine && section.name.starts_with(".text"))
      part.add(std::uint64_t{section.info >> 24});
    if (section.type == SHT_REL || section.type == SHT_RELA)
      part.add_sorted(relocations(section));
    else if (file_.machine == kCudaMachine && section.name.starts_with(".nv.info"))
      part.add_sorted(attributes(section));
    else
      part.add(section.bytes);
    return part.text();
  }

  /// A symbol as its section's name and its offset there; without a section, as its name. A
  /// symbol's number depends on the order of the source; the name of a local symbol depends on
  /// unrelated text.
  std::string symbol(std::uint64_t table, std::uint64_t number) const {
    if (table >= file_.sections.size()) return {};
    const ElfSection& symbols = file_.sections[table];
    if (number >= symbols.bytes.size() / sizeof(Elf64_Sym)) return {};
    const auto entry = value_at<Elf64_Sym>(symbols.bytes, number * sizeof(Elf64_Sym));
    HashedText text;
    text.add(entry.st_value);
    if (entry.st_shndx != SHN_UNDEF && entry.st_shndx < file_.sections.size())
      text.add(file_.sections[entry.st_shndx].name);
    else if (symbols.link < file_.sections.size())
      text.add(name_at(file_.sections[symbols.link].bytes, entry.st_name));
    return text.text();
  }

  static std::string_view name_at(Binary names, std::size_t offset) {
    if (offset >= names.size()) return {};
    const auto* begin = reinterpret_cast<const char*>(names.data()) + offset;
    return {begin, strnlen(begin, std::min(names.size() - offset, kLongestName))};
  }

  std::vector<std::string> relocations(const ElfSection& section) const {
    const bool with_addend = section.type == SHT_RELA;
    const std::size_t entry_bytes = with_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    std::vector<std::string> all;
    for (std::size_t at = 0; at + entry_bytes <= section.bytes.size(); at += entry_bytes) {
      const auto entry = value_at<Elf64_Rel>(section.bytes, at);
      HashedText text;
      text.add(entry.r_offset);
      text.add(std::uint64_t{ELF64_R_TYPE(entry.r_info)});
      text.add(std::string_view(symbol(section.link, ELF64_R_SYM(entry.r_info))));
      if (with_addend) text.add(value_at<std::uint64_t>(section.bytes, at + sizeof(Elf64_Rel)));
      all.push_back(text.text());
    }
    return all;
  }

  /// The separate attributes, or the whole section if it cannot be parsed to its end.
  std::vector<std::string> attributes(const ElfSection& section) const {
    const Binary bytes = section.bytes;
    const std::vector<std::string> unread{std::string(bytes.begin(), bytes.end())};
    std::vector<std::string> all;
    for (std::size_t at = 0; at < bytes.size();) {
      if (bytes.size() - at < 4) return unread;
      const std::uint8_t form = bytes[at], attribute = bytes[at + 1];
      const auto value = value_at<std::uint16_t>(bytes, at + 2);
      const std::size_t length = form == kSizedValue ? value : 0;
      if (form == 0 || form > kSizedValue || bytes.size() - at - 4 < length) return unread;
      Binary payload = bytes.subspan(at + 4, length);
      at += 4 + length;
      if (attribute == kApiVersion || attribute == kExternals) continue;
      HashedText text;
      text.add(std::uint64_t{form});
      text.add(std::uint64_t{attribute});
      text.add(std::uint64_t{value});
      if (std::find(std::begin(kOfSymbol), std::end(kOfSymbol), attribute) != std::end(kOfSymbol) &&
          payload.size() >= sizeof(std::uint32_t)) {
        text.add(std::string_view(symbol(section.link, value_at<std::uint32_t>(payload, 0))));
        payload = payload.subspan(sizeof(std::uint32_t));
      }
      text.add(payload);
      all.push_back(text.text());
    }
    return all;
  }

  const ElfFile& file_;
};

}  // namespace

std::string code_hash(Binary binary) {
  const std::optional<ElfFile> file = read_elf(binary);
  if (!file) return {};
  return hash_text(Reader(*file).essence());
}

}  // namespace tilewise
