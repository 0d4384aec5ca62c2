#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/machine_limits.hpp"

namespace tilewise {
namespace {

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

[[noreturn]] void fail(std::size_t bytes, const char* call) {
  const int error = errno;
  throw Error(ErrorKind::out_of_memory, "the reference needs " + mebibytes(bytes) +
                                            " of host memory: " + call + ": " +
                                            std::strerror(error) +
                                            (error == EFBIG ? " (the limit on file sizes, ulimit "
                                                              "-f, holds for this memory, too)"
                                                            : ""));
}

}  // namespace

void SharedBlock::require(std::size_t bytes) {
  const UsableMemory memory = usable_memory();
  const auto available = static_cast<std::size_t>(memory.free);
  if (memory.total > 0 && bytes > available) {
    throw Error(ErrorKind::out_of_memory, "the reference needs " + mebibytes(bytes) +
                                              " of host memory, " + mebibytes(available) +
                                              " are available");
  }
}

SharedBlock::SharedBlock(std::size_t bytes) : bytes_(bytes) {
  require(bytes);  // a memory file without enough pages raises a signal only on access
  fd_ = memfd_create("tilewise-reference", MFD_CLOEXEC);
  if (fd_ < 0) fail(bytes, "memfd_create");
  void* memory = MAP_FAILED;
  if (ftruncate(fd_, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  }
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(fd_);
    errno = error;
    fail(bytes, "mmap");
  }
  data_ = static_cast<std::byte*>(memory);
}

SharedBlock SharedBlock::map(int fd, std::size_t bytes) {
  SharedBlock block;
  block.fd_ = fd;
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    throw Error(ErrorKind::io,
                "the shared reference is shorter than " + std::to_string(bytes) + " bytes");
  }
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail(bytes, "mmap");
  block.data_ = static_cast<std::byte*>(memory);
  block.bytes_ = bytes;
  return block;
}

SharedBlock::SharedBlock(SharedBlock&& other) noexcept { *this = std::move(other); }

SharedBlock& SharedBlock::operator=(SharedBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

SharedBlock::~SharedBlock() {
  if (data_) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace tilewise
