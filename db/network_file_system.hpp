#pragma once
#include <filesystem>
#include <string_view>

namespace tilewise {

/// The name of a network (or otherwise shared) file system with this magic number in statfs(2);
/// empty for a local one. WAL's shared memory does not work on network file systems.
std::string_view network_file_system(std::uint64_t magic);
/// The same for the file system of a path (the path or its folder must exist).
std::string_view network_file_system_of(const std::filesystem::path& path);

/// Whether a path's file system stores an owner and permissions for each file. Other file systems
/// report the mount's values for all files.
bool keeps_owners(std::uint64_t magic);
bool keeps_owners(const std::filesystem::path& path);

}  // namespace tilewise
