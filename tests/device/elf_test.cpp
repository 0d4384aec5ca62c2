// Reading ELF files within bounds: sections, the hash of machine code, hostile bytes.
#include "device/elf.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "device/cuda/cuda.hpp"
#include "tests/device/cpu_kernels.hpp"
#include "tilewise/error.hpp"

namespace tilewise::elf_test {
namespace {

using test::CpuKernels;
using Bytes = std::vector<std::uint8_t>;

const std::string kHostKernel = R"(#include "words/dialect.cuh"
struct Args { float* to; };
KERNEL(32, 1) add(ARGUMENTS Args args) { args.to[threadIdx.x] += 1.5f; }
)";

Bytes host_binary(const std::string& text) {
  const CompileResult made = CpuKernels().compile("add", text);
  EXPECT_TRUE(made.image) << made.log;
  return made.image ? made.image->binary : Bytes{};
}

/// A copy of the bytes between two inaccessible pages; it ends directly before the second one.
class Fenced {
 public:
  explicit Fenced(const Bytes& bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    pages_ = (bytes.size() + page_ - 1) / page_ + 2;
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, pages_ * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    begin_ = memory_ + (pages_ - 1) * page_ - bytes.size();
    if (!bytes.empty()) std::memcpy(begin_, bytes.data(), bytes.size());
    mprotect(memory_, page_, PROT_NONE);
    mprotect(memory_ + (pages_ - 1) * page_, page_, PROT_NONE);
    size_ = bytes.size();
  }
  ~Fenced() { munmap(memory_, pages_ * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  Binary all() const { return {begin_, size_}; }

 private:
  std::size_t page_, pages_ = 0, size_ = 0;
  std::uint8_t *memory_ = nullptr, *begin_ = nullptr;
};

void read_everything(const Bytes& bytes) {
  const Fenced fenced(bytes);
  const bool whole = is_whole_elf(fenced.all());
  EXPECT_EQ(code_hash(fenced.all()).empty(), !whole);
  const auto file = read_elf(fenced.all());
  ASSERT_EQ(file.has_value(), whole);
  if (!file) return;
  std::size_t sum = 0;
  for (const ElfSection& section : file->sections) {
    for (const char c : section.name) sum += static_cast<unsigned char>(c);
    if (!section.bytes.empty()) sum += section.bytes.front() + section.bytes.back();
  }
  volatile std::size_t kept = sum;
  (void)kept;
}

/// Flips bytes in the headers, in the tables, and anywhere.
void damage(const Bytes& binary, int rounds) {
  Elf64_Ehdr header;
  std::memcpy(&header, binary.data(), sizeof header);
  std::mt19937_64 random(17);
  const auto below = [&](std::uint64_t limit) { return limit > 0 ? random() % limit : 0; };
  for (int i = 0; i < rounds; ++i) {
    Bytes bytes = binary;
    const std::uint64_t table = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
    for (std::uint64_t flips = 1 + below(4); flips > 0; --flips) {
      std::uint64_t at = 0;
      switch (below(3)) {
        case 0:
          at = below(sizeof header);
          break;
        case 1:
          at = header.e_shoff + below(table);
          break;
        default:
          at = below(bytes.size());
      }
      if (at < bytes.size())
        bytes[at] = below(2) ? static_cast<std::uint8_t>(random())
                             : static_cast<std::uint8_t>(bytes[at] ^ (1 << below(8)));
    }
    if (below(3) == 0) bytes.resize(below(bytes.size() + 1));
    read_everything(bytes);
  }
}

TEST(Elf, DamagedFilesAreReadWithinTheirBounds) {
  const Bytes host = host_binary(kHostKernel);
  ASSERT_TRUE(is_whole_elf(host));
  damage(host, 4000);
  read_everything({});
  read_everything(Bytes(63, 0x7f));
  for (std::size_t size = 0; size < host.size(); size += 97) {
    const Bytes cut(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(is_whole_elf(cut)) << size;
    read_everything(cut);
  }
}

TEST(Elf, DamagedCubinsToo) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  CompileRequest request;
  request.kernel = {"k.cu", "k", {}};
  request.text =
      "__constant__ float table[9] = {1, 2};\n__device__ float kept[7] = {3};\n"
      "__device__ __noinline__ float callee(float x) { return x * kept[1] + table[2]; }\n"
      "extern \"C\" __global__ void k(float* x) { x[0] = callee(x[1]); }\n";
  for (const Target& target : {Target{8, 0, false}, Target{9, 0, true}}) {
    request.target = target;
    damage(compiler->compile(request).image.value().binary, 1500);
  }
}

/// Hashing 65,000 sections, each of the whole file's size, would take minutes.
TEST(Elf, SectionsThatOverlapManyTimesAreRefused) {
  Bytes bytes(4 << 20);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shoff = sizeof header, header.e_shnum = 60000, header.e_shentsize = sizeof(Elf64_Shdr);
  std::memcpy(bytes.data(), &header, sizeof header);
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS, section.sh_flags = SHF_ALLOC, section.sh_size = bytes.size();
  for (unsigned i = 0; i < header.e_shnum; ++i)
    std::memcpy(bytes.data() + sizeof header + i * sizeof section, &section, sizeof section);
  EXPECT_EQ(code_hash(bytes), "");
}

TEST(Elf, ASectionIsFoundByItsWholeName) {
  const Bytes host = host_binary(kHostKernel);
  EXPECT_FALSE(elf_section(host, ".text").empty());
  EXPECT_TRUE(elf_section(host, ".tex").empty());
  EXPECT_TRUE(elf_section(host, ".bss").empty()) << "it has no bytes in the file";
  EXPECT_TRUE(elf_section(Bytes(10), ".text").empty());
}

TEST(CodeHash, OfAHostImageFollowsTheCodeAndNotTheComments) {
  const std::string hash = code_hash(host_binary(kHostKernel));
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(hash, code_hash(host_binary("// Moved.\n\n/* And\nmore. */\n" + kHostKernel)));
  std::string other = kHostKernel;
  other.replace(other.find("1.5f"), 4, "2.5f");
  EXPECT_NE(hash, code_hash(host_binary(other)));
}

}  // namespace
}  // namespace tilewise::elf_test
