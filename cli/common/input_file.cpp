#include "cli/common/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tilewise/error.hpp"
#include "vocabulary/open_file.hpp"

namespace tilewise::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr const char* kTooLarge = "it is larger than 1 GiB; export in parts (--gpu)";

Error cannot_read(const std::string& file, const std::string& why) {
  return {ErrorKind::io, "cannot read '" + file + "': " + why};
}

/// Refuses files that could be endless, and files larger than any export.
void check_readable(int descriptor, const std::string& file) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) throw cannot_read(file, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw cannot_read(file, "it is a folder; name a file, or -");
  if (S_ISREG(status.st_mode) && status.st_size > static_cast<off_t>(kMostBytes))
    throw cannot_read(file, kTooLarge);
  if (S_ISCHR(status.st_mode) ? !isatty(descriptor) : S_ISBLK(status.st_mode))
    throw cannot_read(file, "it is a device; name a file or a pipe, or -");
}

}  // namespace

std::string contents_of(const std::string& file) {
  const OpenFile from(file == "-" ? dup(STDIN_FILENO) : ::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.is_open()) throw cannot_read(file, std::strerror(errno));
  check_readable(from.descriptor(), file);
  std::string text;
  std::vector<char> chunk(1 << 16);
  for (ssize_t count; (count = read(from.descriptor(), chunk.data(), chunk.size())) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_read(file, std::strerror(errno));
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > kMostBytes) throw cannot_read(file, kTooLarge);
  }
  return text;
}

}  // namespace tilewise::cli
