#pragma once
#include <sys/types.h>

#include <filesystem>
#include <mutex>
#include <set>

namespace tilewise::host {

/// The programs and temporary folders of this process: what stays behind when it ends at once.
/// Empty in the child of a fork(), whose parent goes on using them.
struct Leftovers {
  std::mutex mutex;          ///< held while a folder or a program is made and noted here
  std::set<pid_t> programs;  ///< each leads a process group
  std::set<std::filesystem::path> folders;
};
Leftovers& leftovers();

/// Removes a folder with all it holds, also while programs that are being killed write into it.
void remove_folder(const std::filesystem::path& folder) noexcept;

}  // namespace tilewise::host
