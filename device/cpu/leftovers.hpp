#pragma once
#include <sys/types.h>

#include <filesystem>
#include <mutex>
#include <set>

namespace tilewise::cpu {

/// The running programs and the temporary folders of this process, for the cleanup when it ends at
/// once. Empty in a fork()ed child: its parent still uses them.
struct Leftovers {
  std::mutex mutex;          ///< locked while a folder or a program is created and entered here
  std::set<pid_t> programs;  ///< each leads a process group
  std::set<std::filesystem::path> folders;
};
Leftovers& leftovers();

/// Removes a folder and its contents, even while killed programs still write into it.
void remove_folder(const std::filesystem::path& folder) noexcept;

}  // namespace tilewise::cpu
