#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tilewise::cpu {

/// "tilewise-4711-XXXXXX", a template for mkdtemp(). Folders with other names are never swept.
std::string folder_pattern(pid_t owner);

/// Whether the path still names the open folder.
bool leads_to(const std::filesystem::path& path, int folder) noexcept;

/// sweep_temporary_folders(), once per process.
void sweep_once() noexcept;

}  // namespace tilewise::cpu
