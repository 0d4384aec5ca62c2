#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.hpp"
#include "db/sqlite.hpp"

namespace tilewise {

struct OpenedFile {
  Connection connection;
  std::vector<std::string> warnings;
};

/// Opens for writing. Creates the folder and the file when absent (both private to the user);
/// migrates an older schema. A failed creation leaves no file. Uses WAL, or a rollback journal if
/// `network` names a network file system. Trust::owner refuses files that require_trusted()
/// refuses.
OpenedFile open_for_writing(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// Opens an existing file for reading. For its owner and root, SQLite creates companions and
/// removes them at the end. Other users read the file without companions; so does the owner if they
/// cannot be created.
OpenedFile open_for_reading(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// The same; empty if there is no file, or the file has no tables yet. A log whose rows cannot be
/// read is still an error.
std::optional<OpenedFile> open_for_reading_if_any(const std::filesystem::path& path,
                                                  std::string_view network, Trust trust);
/// An empty database in memory.
OpenedFile open_in_memory();

}  // namespace tilewise
