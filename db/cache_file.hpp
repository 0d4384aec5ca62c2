#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "db/database.hpp"

namespace tilewise {

struct RemovedFile {
  std::int64_t bytes = 0;
  bool removed = false;
  std::string kept;  ///< why a file that is there was not deleted; else empty
};

/// What a caller knows of a file's contents.
enum class CacheContents { unknown, ours };

/// Deletes the file of an image cache with SQLite's files beside it; symbolic links to it stay. A
/// file that is not trusted stays, and one behind another user's link in any case; so does one
/// that is no database of Tilewise: its header must carry the application id, or it must be too
/// short to hold a row. Processes that have the file open go on with it.
RemovedFile remove_cache_file(const std::filesystem::path& path, Trust trust,
                              CacheContents contents = CacheContents::unknown);

}  // namespace tilewise
