#include "db/companions.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "db/network_file_system.hpp"
#include "db/trust.hpp"
#include "vocabulary/open_file.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;

/// Whether a process of this user has a lock on a file, from /proc/locks: opening and closing the
/// file would release this process's own locks on it.
bool used_by_this_user(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return false;
  char device[32];
  std::snprintf(device, sizeof device, "%02x:%02x:", major(status.st_dev), minor(status.st_dev));
  const std::string place = device + std::to_string(status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: POSIX  ADVISORY  READ  1234 fe:01:5678 128 128"; a waiting process has "->" second
    std::istringstream words(line);
    std::string word, process;
    while (words >> word && word != place) process = word;
    struct stat owner {};
    if (word == place && stat(("/proc/" + process).c_str(), &owner) == 0 &&
        owner.st_uid == geteuid())
      return true;
  }
  return false;
}

/// Held while companions are deleted. When two processes find a foreign log, the second must not
/// delete the first one's new log.
class FolderLock : OpenFile {
 public:
  explicit FolderLock(const fs::path& folder)
      : OpenFile(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (is_open() && !(held_ = flock(descriptor(), LOCK_EX | LOCK_NB) == 0) &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  bool held() const { return held_; }

 private:
  bool held_ = false;
};

bool is_foreign_and_holds_nothing(const fs::path& file, bool index) {
  struct stat status {};
  if (lstat(file.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return false;
  const FileFacts facts{status.st_uid, status.st_gid, status.st_mode};
  if (distrust(facts, this_user()).empty()) return false;
  return index || !S_ISREG(status.st_mode) || status.st_size == 0;
}

}  // namespace

fs::path companion(const fs::path& database, const char* suffix) {
  return behind_links(database).string() + suffix;
}

bool has_bytes(const fs::path& database, const char* suffix) {
  std::error_code error;
  const auto bytes = fs::file_size(companion(database, suffix), error);
  return !error && bytes > 0;
}

void drop_empty_companions(const fs::path& database) {
  if (!keeps_owners(database)) return;
  const auto droppable = [&](const char* suffix) {
    return is_foreign_and_holds_nothing(companion(database, suffix),
                                        suffix == std::string_view("-shm"));
  };
  bool any = false;
  for (const char* suffix : kCompanions) any |= droppable(suffix);
  if (!any || used_by_this_user(companion(database, "-shm"))) return;
  const FolderLock lock(fs::absolute(companion(database, "")).parent_path());
  if (!lock.held()) return;
  for (const char* suffix : kCompanions)
    if (droppable(suffix)) unlink(companion(database, suffix).c_str());
}

void require_trusted_companions(const fs::path& database) {
  for (const char* suffix : kCompanions) {
    const fs::path file = companion(database, suffix);
    if (const std::string why = distrust(file); !why.empty()) refuse_file(database, file, why);
  }
}

}  // namespace tilewise
