#include "device/cpu/loaded_image.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "device/cpu/block_runner.hpp"
#include "device/cpu/cpu.hpp"
#include "device/cpu/facts.hpp"
#include "device/elf.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu {
namespace {

// Sanitizers and debuggers read line numbers from the file.
#if defined(TILEWISE_CHECK_ADDRESS) || defined(TILEWISE_CHECK_THREADS)
constexpr bool kReportsLines = true;
#else
constexpr bool kReportsLines = false;
#endif

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::device, "loading " + name + " for the CPU: " + why);
}

bool write_all(int file, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

/// A duplicate of the file with a high descriptor number. The library's path contains the number; a
/// debugger opens that path in its own process, where a low number would be its terminal.
int with_high_number(int file) {
  constexpr rlim_t kHigh = 1000;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return file;
  const int high =
      fcntl(file, F_DUPFD_CLOEXEC, static_cast<int>(std::min(limit.rlim_cur, kHigh) * 9 / 10));
  if (high < 0) return file;
  close(file);
  return high;
}

/// A unique path of an open file. The loader identifies libraries by path, and descriptor numbers
/// are reused, so each path is spelled differently: "/" or "./" for each binary digit of a counter.
std::string path_of(int file) {
  static std::atomic<std::uint64_t> count{0};
  std::string path = "/proc/self/fd/";
  for (std::uint64_t digits = ++count; digits > 0; digits >>= 1) path += digits & 1 ? "./" : "/";
  return path + std::to_string(file);
}

}  // namespace

LoadedImage::LoadedImage(const Image& image, std::uint32_t shared_bytes)
    : name_(image.kernel.source + ":" + image.kernel.entry), shared_bytes_(shared_bytes) {
  check_mark(image);
  const bool lines_are_read = kReportsLines || !compiler_options_from_environment().keep_in.empty();
  if (!lines_are_read) load_from_memory(image);
  if (!library_) load_from_file(image);
  if (!lines_are_read) folder_.reset();
  exports_ = static_cast<const tilewise_host::Exports*>(dlsym(library_, "tilewise_image"));
  if (!exports_ || exports_->revision != tilewise_host::kImageRevision) {
    dlclose(library_);
    refuse(name_, "it does not hold a kernel");
  }
  *exports_->runtime = &kernel_runtime();
}

/// Refuses foreign images by their bytes, since loading runs a library's constructors.
void LoadedImage::check_mark(const Image& image) const {
  if (!image.target.host) refuse(name_, "the image is for " + to_string(image.target) + ", a GPU");
  if (!is_whole_elf(image.binary))
    refuse(name_, "the image (" + std::to_string(image.binary.size()) +
                      " bytes) is no shared library or is cut short");
  const Binary section = elf_section(image.binary, TILEWISE_MARK_SECTION);
  tilewise_host::ImageMark mark{};
  if (section.size() >= sizeof mark) std::memcpy(&mark, section.data(), sizeof mark);
  if (std::memcmp(mark.mark, TILEWISE_MARK, sizeof mark.mark) != 0 ||
      mark.revision != tilewise_host::kImageRevision)
    refuse(name_, "it is of another version of this program");
  const std::string cpu(mark.cpu, strnlen(mark.cpu, sizeof mark.cpu));
  if (!runs_here(cpu))
    refuse(name_, "it is for the processor \"" + cpu + "\"; this one is \"" +
                      std::string(processor()) + "\"");
}

/// Leaves library_ null if the system has no files in memory or permits no code in them.
void LoadedImage::load_from_memory(const Image& image) {
  int file = file_in_memory(image.kernel.entry.c_str(), Use::code);
  if (file < 0) return;
  file = with_high_number(file);
  if (write_all(file, image.binary))
    library_ = dlopen(path_of(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
}

void LoadedImage::load_from_file(const Image& image) {
  folder_.emplace();
  const auto path = folder_->path() / (image.kernel.entry + ".so");
  write_file(path, image.binary.data(), image.binary.size());
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) refuse(name_, dlerror());
}

LoadedImage::~LoadedImage() { dlclose(library_); }

}  // namespace tilewise::cpu
