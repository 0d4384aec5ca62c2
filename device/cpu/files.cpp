#include "device/cpu/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "device/cpu/leftovers.hpp"
#include "device/cpu/sweep.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu {
namespace fs = std::filesystem;

std::vector<fs::path> temporary_places() {
  std::error_code error;
  std::vector<fs::path> places;
  for (const fs::path& named : {fs::temp_directory_path(error), fs::path("/tmp"),
                                fs::path("/var/tmp"), fs::path("/dev/shm")}) {
    const fs::path place = fs::canonical(named, error);
    if (error || !fs::is_directory(place, error) || access(place.c_str(), W_OK | X_OK) != 0 ||
        std::find(places.begin(), places.end(), place) != places.end())
      continue;
    places.push_back(place);
  }
  return places;
}

namespace {

fs::path first_place() {
  const std::vector<fs::path> places = temporary_places();
  if (places.empty())
    throw Error(ErrorKind::io,
                "no place for temporary files: none of TMPDIR, /tmp, /var/tmp and /dev/shm is a "
                "folder that can be written to");
  return places.front();
}

/// Locks the folder, waiting for a sweep that is about to remove it. False when a sweep removed it.
/// File systems without locks are never swept.
bool lock(int folder, const fs::path& path) {
  if (folder < 0) return false;
  while (flock(folder, LOCK_EX) != 0 && errno == EINTR) {
  }
  return leads_to(path, folder);
}

}  // namespace

TemporaryFolder::TemporaryFolder() : TemporaryFolder(first_place()) {}

TemporaryFolder::TemporaryFolder(const fs::path& place) : owner_(getpid()) {
  sweep_once();
  Leftovers& all = leftovers();
  const std::lock_guard making(all.mutex);
  const std::string pattern = (place / folder_pattern(owner_)).string();
  for (;;) {
    std::string name = pattern;
    if (!mkdtemp(name.data()))
      throw Error(ErrorKind::io, "cannot make a folder in " + place.string() + ": " +
                                     std::strerror(errno) + " (TMPDIR names another place)");
    lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock_ < 0 && errno != ENOENT) {
      const int error = errno;
      rmdir(name.c_str());
      throw Error(ErrorKind::io, "cannot open " + name + ": " + std::strerror(error));
    }
    path_ = name;
    if (lock(lock_, path_)) break;
    if (lock_ >= 0) close(lock_);
  }
  all.folders.insert(path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (owner_ == getpid()) {  // otherwise it belongs to the parent
    remove_folder(path_);
    Leftovers& all = leftovers();
    const std::lock_guard making(all.mutex);
    all.folders.erase(path_);
  }
  close(lock_);
}

void write_file(const fs::path& path, const void* data, std::size_t bytes) {
  errno = 0;
  std::ofstream stream(path, std::ios::binary);
  stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  stream.close();
  if (!stream)
    throw Error(ErrorKind::io, "cannot write " + path.string() +
                                   (errno ? std::string(": ") + std::strerror(errno) : ""));
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(ErrorKind::io, "cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

int file_in_memory(const char* name, Use use) noexcept {
#ifndef MFD_EXEC
  constexpr unsigned MFD_EXEC = 0x10;  // Linux 6.3; before, all such files could be code
#endif
  if (use == Use::code) {
    const int file = memfd_create(name, MFD_CLOEXEC | MFD_EXEC);
    if (file >= 0 || errno != EINVAL) return file;
  }
  return memfd_create(name, MFD_CLOEXEC);
}

}  // namespace tilewise::cpu
