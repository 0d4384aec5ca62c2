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
/// migrates an older schema. A creation that fails leaves no file. WAL, or a rollback journal when
/// `network` is the name of the file's network file system. Trust::owner refuses files that
/// require_trusted() refuses.
OpenedFile open_for_writing(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// Opens an existing file for reading. For its owner and root, SQLite creates companions and
/// removes them at the end. Other users read the file as it is; so does the owner where companions
/// cannot be created.
OpenedFile open_for_reading(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// The same; empty where there is no file, and where the file holds no tables yet. A log with rows
/// that cannot be read is an error all the same.
std::optional<OpenedFile> open_for_reading_if_any(const std::filesystem::path& path,
                                                  std::string_view network, Trust trust);
/// An empty database in memory.
OpenedFile open_in_memory();

}  // namespace tilewise
