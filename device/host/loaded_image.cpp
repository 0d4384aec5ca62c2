#include "device/host/loaded_image.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

#include "device/elf.hpp"
#include "device/host/block_runner.hpp"
#include "device/host/facts.hpp"
#include "device/host/files.hpp"
#include "device/host/host.hpp"
#include "tilewise/error.hpp"

namespace tilewise::host {
namespace {

// A sanitizer's report (and a debugger) looks into the file for lines.
#if defined(TILEWISE_CHECK_ADDRESS) || defined(TILEWISE_CHECK_THREADS)
constexpr bool kReportsLines = true;
#else
constexpr bool kReportsLines = false;
#endif

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::device, "loading " + name + " for the CPU: " + why);
}

}  // namespace

LoadedImage::LoadedImage(const Image& image, std::uint32_t shared_bytes)
    : name_(image.kernel.source + ":" + image.kernel.entry), shared_bytes_(shared_bytes) {
  if (!image.target.host) refuse(name_, "the image is for " + to_string(image.target) + ", a GPU");
  if (!is_whole_elf(image.binary))
    refuse(name_, "the image (" + std::to_string(image.binary.size()) +
                      " bytes) is no shared library or is cut short");
  // The loader knows a library by its file, so each gets one of its own.
  TemporaryFolder folder;
  const auto path = folder.path() / (image.kernel.entry + ".so");
  write_file(path, image.binary.data(), image.binary.size());
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) refuse(name_, dlerror());
  if (kReportsLines || !compiler_options_from_environment().keep_in.empty())
    folder_ = folder.keep();  // until this is unloaded
  exports_ = static_cast<const tilewise_host::Exports*>(dlsym(library_, "tilewise_image"));
  try {
    check_exports();
  } catch (...) {
    dlclose(library_);
    throw;
  }
  *exports_->runtime = &kernel_runtime();
}

void LoadedImage::check_exports() const {
  if (!exports_) refuse(name_, "it does not hold a kernel");
  if (exports_->revision != tilewise_host::kImageRevision)
    refuse(name_, "it is of another version of this program");
  if (!runs_here(exports_->cpu))
    refuse(name_, std::string("it needs a processor that this one is not: ") + exports_->cpu);
}

LoadedImage::~LoadedImage() {
  dlclose(library_);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace tilewise::host
