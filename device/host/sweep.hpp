#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tilewise::host {

/// "tilewise-4711-XXXXXX", as mkdtemp() takes it. Folders of other names are never swept.
std::string folder_pattern(pid_t owner);

/// Whether the path still leads to the open folder.
bool leads_to(const std::filesystem::path& path, int folder) noexcept;

/// sweep_temporary_folders(), unless this process has done so already.
void sweep_once() noexcept;

}  // namespace tilewise::host
