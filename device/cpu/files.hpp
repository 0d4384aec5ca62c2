#pragma once
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tilewise::cpu {

/// Places for temporary files, best first: those of TMPDIR, /tmp, /var/tmp and /dev/shm that are
/// folders writable by this process, without duplicates and symbolic links.
std::vector<std::filesystem::path> temporary_places();

/// A new folder, removed by the destructor. It is locked for the life of its process; an unlocked
/// folder belongs to a killed process (see sweep_temporary_folders()).
class TemporaryFolder {
 public:
  /// Creates it in the first of temporary_places(). Both constructors throw Error(io).
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

/// An anonymous file in memory (memfd). -1 if the system has none.
enum class Use : bool { data, code };
int file_in_memory(const char* name, Use use) noexcept;

}  // namespace tilewise::cpu
