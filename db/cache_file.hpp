#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "db/database.hpp"

namespace tilewise {

struct RemovedFile {
  std::int64_t bytes = 0;
  bool removed = false;
  std::string kept;  ///< why an existing file was not deleted; otherwise empty
};

/// The caller's knowledge of a file's contents.
enum class CacheContents { unknown, ours };

/// Deletes the file of an image cache and SQLite's companions; symbolic links to it stay. Keeps an
/// untrusted file, a file behind another user's link (with any trust), and a file that is not a
/// database of Tilewise (its header must have the application id, or it must be too short for a
/// row). Processes that have the file open continue to use it.
RemovedFile remove_cache_file(const std::filesystem::path& path, Trust trust,
                              CacheContents contents = CacheContents::unknown);

}  // namespace tilewise
