// Images of the CPU executor as files and as loaded code: which of them load, from where, and what
// remains afterwards.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "device/cpu/loaded_image.hpp"
#include "device/elf.hpp"
#include "tests/device/cpu_kernels.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_image_test {
namespace {
namespace fs = std::filesystem;

using cpu::LoadedImage;
using test::CpuKernels;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kRan = "TILEWISE_TEST_CONSTRUCTOR_RAN";

/// Sets a variable in its constructor, so that a load is detected.
const char* const kWithConstructor = R"(#include "words/dialect.cuh"
extern "C" int setenv(const char*, const char*, int);
__attribute__((constructor)) static void begin() { setenv("TILEWISE_TEST_CONSTRUCTOR_RAN", "1", 1); }
struct Args { float* to; };
KERNEL(1, 1) write_one(ARGUMENTS Args args) { args.to[0] = 1.0f; }
)";

Image image_with_constructor() {
  return CpuKernels().compile("write_one", kWithConstructor).image.value();
}

/// The bytes of the mark in the binary.
std::uint8_t* mark_in(Image& image) {
  const Binary section = elf_section(image.binary, TILEWISE_MARK_SECTION);
  EXPECT_GE(section.size(), sizeof(tilewise_host::ImageMark));
  return image.binary.data() + (section.data() - image.binary.data());
}

std::string refusal(const Image& image) {
  unsetenv(kRan);
  try {
    const LoadedImage loaded(image, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_EQ(std::getenv(kRan), nullptr) << "it ran before it was refused";
    return error.what();
  }
  return "";
}

TEST(HostImage, NothingOfAnImageThatIsRefusedRuns) {
  const Image image = image_with_constructor();
  EXPECT_EQ(refusal(image), "");
  EXPECT_NE(std::getenv(kRan), nullptr) << "the test's constructor does not work";

  Image other = image;
  mark_in(other)[offsetof(tilewise_host::ImageMark, revision)] ^= 1;
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("another version"), HasSubstr("write_one")));

  other = image;
  std::memcpy(mark_in(other) + offsetof(tilewise_host::ImageMark, cpu), "x86-64 avx9", 12);
  EXPECT_THAT(refusal(other), HasSubstr("\"x86-64 avx9\""));

  other = image;
  std::memset(mark_in(other), 0xff, sizeof(tilewise_host::ImageMark));
  EXPECT_THAT(refusal(other), HasSubstr("another version"));

  other = image;
  other.binary.resize(other.binary.size() - 1);
  EXPECT_THAT(refusal(other), HasSubstr("cut short"));
}

TEST(HostImage, ALibraryThatIsNoImageIsRefused) {
  Image image = image_with_constructor();
  std::ifstream file("/proc/self/exe", std::ios::binary);
  image.binary.assign(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(refusal(image), HasSubstr("another version"));
}

/// The number of mappings and open files of this process whose name contains `text`.
int mappings_of(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(text) != line.npos;
  return count;
}
std::ptrdiff_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

class CpuImageFiles : public testing::Test {
 protected:
  CpuImageFiles() : image_(image_with_constructor()) {
    std::string pattern = (fs::temp_directory_path() / "host-image-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~CpuImageFiles() override {
    unsetenv("TMPDIR");
    unsetenv("TILEWISE_HOST_KEEP");
    fs::remove_all(folder_);
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  Image image_;
  fs::path folder_;
};

TEST_F(CpuImageFiles, LoadingNeedsNoFileAndKeepsNoneOpen) {
  const std::ptrdiff_t open_before = open_files();
  const LoadedImage loaded(image_, 0);
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(open_files(), open_before);
  EXPECT_GT(mappings_of("memfd:write_one"), 0);
  float value = 0;
  float* to = &value;
  loaded.exports().run(&to);
  EXPECT_EQ(value, 1.0F);
}

TEST_F(CpuImageFiles, EachLoadIsALibraryOfItsOwn) {
  std::vector<std::unique_ptr<LoadedImage>> loaded;
  std::set<const void*> places;
  for (int i = 0; i < 70; ++i) {
    loaded.push_back(std::make_unique<LoadedImage>(image_, 0));
    places.insert(&loaded.back()->exports());
    if (i % 3 == 2) {
      places.erase(&loaded[loaded.size() - 2]->exports());
      loaded.erase(loaded.end() - 2);
    }
  }
  EXPECT_EQ(places.size(), loaded.size());
  loaded.clear();
  EXPECT_EQ(mappings_of("memfd:write_one"), 0) << "they are unloaded";
}

TEST_F(CpuImageFiles, ADebuggerGetsAFileForAsLongAsTheImageIsLoaded) {
  setenv("TILEWISE_HOST_KEEP", (folder_ / "kept").c_str(), 1);
  {
    const LoadedImage loaded(image_, 0);
    EXPECT_EQ(mappings_of("memfd:"), 0);
    EXPECT_GT(mappings_of("/write_one.so"), 0);
    EXPECT_EQ(files(), 1);
  }
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace tilewise::cpu_image_test
