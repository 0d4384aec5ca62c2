#pragma once
#include <filesystem>
#include <string_view>

namespace tilewise {

/// The name of the network (or otherwise shared) file system with this magic number of statfs(2),
/// where WAL's shared memory cannot be trusted; empty when it is none.
std::string_view network_file_system(std::uint64_t magic);
/// The same for the file system a path is on (the path itself, or else its folder, must exist).
std::string_view network_file_system_of(const std::filesystem::path& path);

/// Whether the file system a path is on keeps an owner and permissions for each file. Others show
/// what their mount says, for all files alike.
bool keeps_owners(std::uint64_t magic);
bool keeps_owners(const std::filesystem::path& path);

}  // namespace tilewise
