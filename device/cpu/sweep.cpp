#include "device/cpu/sweep.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "device/cpu/cpu.hpp"
#include "device/cpu/files.hpp"
#include "device/cpu/leftovers.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/open_file.hpp"

namespace tilewise::cpu {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tilewise-", kSuffix = "-XXXXXX";
constexpr int kScans = 200;
constexpr auto kBetweenScans = std::chrono::milliseconds(5);

std::atomic<bool> swept{false};

bool all_of(std::string_view text, bool (*holds)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), holds);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter_or_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_our_pattern(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() <= kPrefix.size() + kSuffix.size()) return false;
  const std::string_view end = name.substr(name.size() - kSuffix.size());
  const std::string_view owner =
      name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  return end.front() == '-' && all_of(end.substr(1), is_letter_or_digit) && all_of(owner, is_digit);
}

/// An open folder; closing it releases its lock.
class Folder : public OpenFile {
 public:
  explicit Folder(const fs::path& path)
      : OpenFile(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  bool is_own() const {
    struct stat facts {};
    return is_open() && fstat(descriptor(), &facts) == 0 && facts.st_uid == geteuid();
  }
  /// False while its process runs, and on a file system without locks.
  bool lock() const { return flock(descriptor(), LOCK_EX | LOCK_NB) == 0; }
};

/// Whether `folder` is a process's place for temporary files in its environment, as for our
/// compilers. The working folder is no evidence: it may be that of a user's shell.
bool works_in(const fs::path& process, const fs::path& folder) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string settings = '\0' + std::string(std::istreambuf_iterator<char>(file), {}) + '\0';
  const std::string wanted = '\0' + ("TMPDIR=" + folder.string());
  const std::size_t at = settings.find(wanted);
  if (at == settings.npos) return false;
  const char next = settings[at + wanted.size()];
  return next == '\0' || next == '/';
}

std::vector<pid_t> processes_in(const fs::path& folder) {
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    struct stat facts {};
    if (!all_of(name, is_digit) || stat(entry->path().c_str(), &facts) != 0 ||
        facts.st_uid != geteuid() || !works_in(entry->path(), folder))
      continue;
    const pid_t process = number_in<pid_t>(name).value_or(0);
    if (process > 1 && process != getpid()) found.push_back(process);
  }
  return found;
}

/// Repeats until no process is left, since a compiler starts other processes.
void end_processes_in(const fs::path& folder) {
  for (int i = 0; i < kScans; ++i) {
    const std::vector<pid_t> found = processes_in(folder);
    if (found.empty()) return;
    for (const pid_t process : found) kill(process, SIGKILL);
    std::this_thread::sleep_for(kBetweenScans);
  }
}

void sweep(const fs::path& path) {
  const Folder folder(path);
  if (!folder.is_own() || !folder.lock() || !leads_to(path, folder.descriptor())) return;
  end_processes_in(path);
  remove_folder(path);
}

}  // namespace

std::string folder_pattern(pid_t owner) {
  return std::string(kPrefix) + std::to_string(owner) + std::string(kSuffix);
}

bool leads_to(const fs::path& path, int folder) noexcept {
  struct stat named {
  }, opened{};
  return lstat(path.c_str(), &named) == 0 && fstat(folder, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

void sweep_once() noexcept {
  if (!swept) sweep_temporary_folders();
}

void sweep_temporary_folders() noexcept {
  swept = true;
  try {
    for (const fs::path& place : temporary_places()) {
      std::vector<fs::path> folders;
      std::error_code error;
      for (fs::directory_iterator entry(place, error), end; !error && entry != end;
           entry.increment(error))
        if (has_our_pattern(entry->path().filename().string())) folders.push_back(entry->path());
      for (const fs::path& folder : folders) sweep(folder);
    }
  } catch (const std::exception&) {  // out of memory: the next process sweeps
  }
}

}  // namespace tilewise::cpu
