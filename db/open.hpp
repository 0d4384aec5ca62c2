#pragma once
#include <filesystem>
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

/// Opens for writing: makes the folder and the file when absent (both for the user alone), migrates
/// when older. WAL, or a rollback journal when `network` names the network file system the file is
/// on. Trust::owner refuses files that require_trusted() refuses.
OpenedFile open_for_writing(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// Opens what exists for reading. Only the owner and root have SQLite make files beside it, and
/// leave none; any other user, and where they cannot be made, reads the file as it is.
OpenedFile open_for_reading(const std::filesystem::path& path, std::string_view network,
                            Trust trust);
/// An empty database in memory.
OpenedFile open_in_memory();

}  // namespace tilewise
