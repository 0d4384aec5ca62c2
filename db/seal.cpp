#include "db/seal.hpp"

#include "db/sqlite.hpp"
#include "db/sqlite_error.hpp"

namespace tilewise {

void seal(const std::filesystem::path& path) {
  const Connection connection(path, Connection::Access::write);
  if (connection.text("PRAGMA journal_mode = DELETE") != "delete")
    throw database_error(path, "another process has it open");
  connection.execute("VACUUM");
  namespace fs = std::filesystem;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read |
                            fs::perms::others_read);
}

}  // namespace tilewise
