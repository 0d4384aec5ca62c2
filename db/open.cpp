#include "db/open.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "db/companions.hpp"
#include "db/lock_waits.hpp"
#include "db/network_file_system.hpp"
#include "db/schema.hpp"
#include "db/sqlite_error.hpp"
#include "db/trust.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;

std::string network_warning(const fs::path& path, std::string_view network) {
  return "database " + path.string() + " is on a network file system (" + std::string(network) +
         "): it works, but slowly, and several machines writing at once are at the mercy of its "
         "locks; better name a local file with --db";
}

/// Checks a file before SQLite opens it, and again once it is open.
void require_usable(const fs::path& path, Trust trust) {
  require_regular(path);
  if (trust == Trust::owner) require_trusted(path);
}

/// Also checks SQLite's companions, which may be newer.
void require_all_trusted(const fs::path& path, Trust trust) {
  if (trust != Trust::owner) return;
  require_trusted(path);
  require_trusted_companions(path);
}

void set_pragmas(const Connection& connection) {
  connection.execute(
      "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
      // Files may be from other machines: a schema must run no functions, and reads must detect
      // damaged pages.
      "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
}

constexpr std::chrono::milliseconds kBusy{Connection::kBusyMilliseconds};

/// A switch to WAL needs exclusive access for a moment; SQLite itself does not wait for it.
std::string set_journal_mode(const Connection& connection, const std::string& mode) {
  for (LockWait wait;;) {
    try {
      return connection.text("PRAGMA journal_mode = " + mode);
    } catch (const Error&) {
      const bool busy = connection.last_code() == SQLITE_BUSY;
      if (!busy || !wait.sleep(connection.path(), kBusy)) throw;
    }
  }
}

void use_wal(const Connection& connection) {
  set_journal_mode(connection, "WAL");
  connection.execute("PRAGMA synchronous = NORMAL");
}

/// Tries to leave WAL mode, which fails while others have the file open; a later exclusive open
/// does it.
bool leave_wal(const Connection& connection) {
  connection.set_busy_timeout(1000);
  bool left = false;
  try {
    left = connection.text("PRAGMA journal_mode = DELETE") == "delete";
  } catch (const Error&) {
    if (connection.last_code() != SQLITE_BUSY) throw;
  }
  connection.set_busy_timeout(Connection::kBusyMilliseconds);
  return left;
}

void use_rollback_journal(OpenedFile& file) {
  if (!leave_wal(file.connection)) {
    file.warnings.push_back("database " + file.connection.path().string() +
                            " is used in WAL mode by another process, which a network file system "
                            "does not support: do not write from several machines");
  }
  file.connection.execute("PRAGMA synchronous = FULL");
}

std::string log_not_seen(const fs::path& path) {
  return "it can only be read, and the rows in " + path.string() +
         "-wal are not seen; open it once where it can be written";
}

/// Whether SQLite may create companions for a reader: only for the owner or root, since another
/// user's files would lock the owner out.
bool may_make_companions(const fs::path& path, Trust trust) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
    return false;
  return trust == Trust::anyone || geteuid() == 0 || status.st_uid == geteuid() ||
         !keeps_owners(path);
}

/// Whether the log and its index exist, made by a process that has the database open.
bool has_usable_log(const fs::path& path, Trust trust) {
  for (const char* suffix : {"-wal", "-shm"}) {
    const fs::path file = companion(path, suffix);
    if (access(file.c_str(), R_OK) != 0) return false;
    if (trust == Trust::owner && !distrust(file).empty()) return false;
  }
  return true;
}

/// Opens the file without its log: concurrent writes are not visible.
OpenedFile connect_immutable(const fs::path& path) {
  OpenedFile file{Connection(path, Connection::Access::immutable), {}};
  if (has_bytes(path, "-wal"))
    file.warnings.push_back("database " + path.string() + ": " + log_not_seen(path));
  return file;
}

/// WAL mode needs two companions. If they cannot or must not be created, the file is read without
/// its log.
OpenedFile connect_for_reading(const fs::path& path, std::string_view network, Trust trust) {
  const bool owner = may_make_companions(path, trust);
  if (owner && trust == Trust::owner) {
    drop_empty_companions(path);
    require_trusted_companions(path);
  }
  if (!owner && network.empty() && !has_usable_log(path, trust)) {
    const fs::path journal = companion(path, "-journal");
    if (!has_bytes(path, "-journal") || (trust == Trust::owner && !distrust(journal).empty()))
      return connect_immutable(path);
  }
  using Access = Connection::Access;
  OpenedFile file{Connection(path, owner ? Access::owner : Access::read), {}};
  switch (file.connection.probe()) {
    case SQLITE_OK:
      if (owner) require_all_trusted(path, trust);
      return file;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
      // A half-written file needs a rollback before it can be read.
      if (has_bytes(path, "-journal")) file.connection.fail();
      return connect_immutable(path);
    default:
      file.connection.fail();
  }
}

/// Brings an older file up to date for a reader that has write access.
bool brought_up_to_date(const fs::path& path, std::string_view network, Trust trust) {
  try {
    open_for_writing(path, network, trust);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OpenedFile open_existing_for_writing(const fs::path& path, std::string_view network, Trust trust) {
  OpenedFile file{Connection(path, Connection::Access::write), {}};
  if (file.connection.read_only()) {
    throw sqlite_error(path, SQLITE_READONLY, "opened read-only: no permission to write");
  }
  is_new(file.connection);  // throws for a foreign file before any change
  require_all_trusted(path, trust);
  set_pragmas(file.connection);
  if (network.empty()) {
    use_wal(file.connection);
  } else {
    file.warnings.push_back(network_warning(path, network));
    use_rollback_journal(file);
  }
  bring_up_to_date(file.connection);
  return file;
}

/// Cleans up after a failed creation. Another process that has opened the file meanwhile detects
/// that it was deleted.
void remove_if_empty(const fs::path& path) {
  std::error_code ignored;
  if (fs::file_size(path, ignored) != 0 || ignored) return;
  if (has_bytes(path, "-wal") || has_bytes(path, "-journal")) return;
  for (const char* suffix : {"-wal", "-shm", "-journal", ""})
    fs::remove(companion(path, suffix), ignored);
}

}  // namespace

OpenedFile open_for_writing(const fs::path& path, std::string_view network, Trust trust) {
  make_private_folders(path);
  require_usable(path, trust);
  if (trust == Trust::owner) drop_empty_companions(path);
  require_all_trusted(path, trust);
  const bool made = make_private_file(path);
  try {
    return open_existing_for_writing(path, network, trust);
  } catch (const Error&) {
    if (made) remove_if_empty(path);
    throw;
  }
}

std::optional<OpenedFile> open_for_reading_if_any(const fs::path& path, std::string_view network,
                                                  Trust trust) {
  require_usable(path, trust);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  OpenedFile file = connect_for_reading(path, network, trust);
  require_usable(path, trust);
  bool empty = is_new(file.connection);
  if (!empty && version_of(file.connection) < kSchema && brought_up_to_date(path, network, trust)) {
    file = connect_for_reading(path, network, trust);
    empty = is_new(file.connection);
  }
  if (empty && !file.warnings.empty()) throw database_error(path, log_not_seen(path));
  if (empty) return std::nullopt;
  if (version_of(file.connection) < kSchema) {
    throw database_error(path, "it was written by an older Tilewise (schema version " +
                                   std::to_string(version_of(file.connection)) + ", now " +
                                   std::to_string(kSchema) +
                                   "); open it once where it can be written, as autotune does");
  }
  set_pragmas(file.connection);
  if (!network.empty()) file.warnings.push_back(network_warning(path, network));
  return file;
}

OpenedFile open_for_reading(const fs::path& path, std::string_view network, Trust trust) {
  if (auto file = open_for_reading_if_any(path, network, trust)) return std::move(*file);
  std::error_code error;
  if (fs::exists(path, error))
    throw database_error(path, "it is empty; tune something first (autotune --sizes 1024)");
  throw database_error(
      path, "there is no such file" + (error ? " (" + error.message() + ")" : std::string()) +
                "; tune something first (autotune --sizes 1024), or name another file with --db or "
                "TILEWISE_DB");
}

OpenedFile open_in_memory() {
  OpenedFile file{Connection(), {}};
  set_pragmas(file.connection);
  bring_up_to_date(file.connection);
  return file;
}

}  // namespace tilewise
