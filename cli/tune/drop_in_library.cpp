#include "cli/tune/drop_in_library.hpp"

#include <elf.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "cli/common/input_file.hpp"
#include "device/elf.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnsweredFunction = "cublasGemmEx";

/// Whether ld.so takes the path as one word of LD_PRELOAD.
bool can_be_preloaded(const fs::path& path) {
  return path.string().find_first_of(" \t\n\v\f\r:$") == std::string::npos;
}

Error no_library(const std::string& why) {
  return {ErrorKind::no_device,
          "record cannot preload " + std::string(kDropInLibrary) + ": " + why};
}

/// The build command for the library if the program is in a build tree, which builds the library
/// only on request.
std::string how_to_build(const fs::path& program_folder) {
  const fs::path build = program_folder.parent_path();
  if (std::error_code ignored; !fs::exists(build / "CMakeCache.txt", ignored))
    return "; TILEWISE_DROP_IN_LIBRARY names another place";
  return "; to build it: cmake --build '" + build.string() + "' --target tilewise_cublas";
}

fs::path find_library() {
  if (const char* named = std::getenv("TILEWISE_DROP_IN_LIBRARY"); named && *named)
    return fs::absolute(named);
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path beside = folder / kDropInLibrary,
                 installed = (folder / TILEWISE_LIBRARIES / kDropInLibrary).lexically_normal();
  for (const fs::path& place : {beside, installed})
    if (std::error_code ignored; fs::exists(place, ignored)) return place;
  throw no_library("it is not there: " + beside.string() + ", " + installed.string() +
                   how_to_build(folder));
}

Elf64_Ehdr own_header() {
  Elf64_Ehdr header{};
  std::ifstream("/proc/self/exe", std::ios::binary)
      .read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

/// Refuses other libraries, and those that ld.so would skip with a line on standard error: the
/// program would run unrecorded.
void check_library(const fs::path& path) {
  std::string text;
  try {
    text = contents_of(path);
  } catch (const Error& error) {
    throw no_library(error.what());
  }
  const Binary binary(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const bool whole = is_whole_elf(binary);
  const Elf64_Ehdr header = whole ? value_at<Elf64_Ehdr>(binary, 0) : Elf64_Ehdr{};
  if (header.e_type != ET_DYN || header.e_machine != own_header().e_machine)
    throw no_library("'" + path.string() + "' is no shared library for this machine");
  const Binary names = elf_section(binary, ".dynstr");
  if (std::string_view(reinterpret_cast<const char*>(names.data()), names.size())
          .find(kAnsweredFunction) == std::string_view::npos)
    throw no_library("'" + path.string() + "' is another library: it has no " +
                     std::string(kAnsweredFunction));
}

/// A folder whose path LD_PRELOAD can hold.
fs::path folder_for_link() {
  std::error_code ignored;
  std::vector<fs::path> places{fs::temp_directory_path(ignored), "/tmp", "/var/tmp", "/dev/shm"};
  for (const fs::path& place : places)
    if (!place.empty() && can_be_preloaded(place) && access(place.c_str(), W_OK | X_OK) == 0)
      return place;
  throw no_library(
      "its path has a blank, a colon or a $, and no folder for a link to it can be "
      "written: TMPDIR, /tmp, /var/tmp, /dev/shm");
}

}  // namespace

PrivateFolder::PrivateFolder(const fs::path& parent) {
  std::string pattern = (parent / "tilewise-record-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error(ErrorKind::io,
                "no folder for temporary files in '" + parent.string() + "': " + strerror(errno));
  path_ = pattern;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

DropInLibrary::DropInLibrary() : path_(find_library()) {
  check_library(path_);
  if (can_be_preloaded(path_)) return;
  const fs::path target = path_;
  folder_.emplace(folder_for_link());
  path_ = folder_->path() / kDropInLibrary;
  if (symlink(target.c_str(), path_.c_str()) != 0)
    throw no_library("no link to '" + target.string() + "' at '" + path_.string() +
                     "': " + strerror(errno));
}

}  // namespace tilewise::cli
