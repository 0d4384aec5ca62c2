#pragma once
#include <filesystem>
#include <string_view>

namespace tilewise {

/// The name of a network (or otherwise shared) file system by its magic number of statfs(2); WAL's
/// shared memory does not work there. Empty for a local one.
std::string_view network_file_system(std::uint64_t magic);
/// The same for the file system of a path (the path or its folder must exist).
std::string_view network_file_system_of(const std::filesystem::path& path);

/// Whether a path's file system stores an owner and permissions for each file. Others report the
/// mount's values for all files.
bool keeps_owners(std::uint64_t magic);
bool keeps_owners(const std::filesystem::path& path);

}  // namespace tilewise
