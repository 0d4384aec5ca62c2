#pragma once
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tilewise::host {

/// Where temporary files may lie, best first: TMPDIR, /tmp, /var/tmp, /dev/shm, as far as they are
/// folders that this process may write to, each once, without symbolic links.
std::vector<std::filesystem::path> temporary_places();

/// A folder of its own, removed at the end. It is locked as long as its process lives, so that the
/// next process recognises folders whose process was killed (sweep_temporary_folders()).
class TemporaryFolder {
 public:
  /// In the first of temporary_places(). Throws Error(io), as the other.
  TemporaryFolder();
  explicit TemporaryFolder(const std::filesystem::path& place);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  pid_t owner_;
  int lock_ = -1;
};

/// Both throw Error(io).
void write_file(const std::filesystem::path& path, const void* data, std::size_t bytes);
std::string read_file(const std::filesystem::path& path);

/// A file without a name, in memory. -1 where the system has none.
enum class Use : bool { data, code };
int file_in_memory(const char* name, Use use) noexcept;

}  // namespace tilewise::host
