#pragma once
#include <filesystem>

// SQLite's companions of a database file: the WAL log, its index in shared memory, and the rollback
// journal.
namespace tilewise {

inline constexpr const char* kCompanions[] = {"-wal", "-shm", "-journal"};

/// The companion's path, next to the target of symbolic links.
std::filesystem::path companion(const std::filesystem::path& database, const char* suffix);
/// Whether it exists and is not empty.
bool has_bytes(const std::filesystem::path& database, const char* suffix);
/// Deletes other users' companions without contents (an empty log or journal, a link, an index,
/// which SQLite rebuilds), since they would lock the owner out. In a sticky folder only the
/// folder's owner or root may delete them. Companions in use by a process of this user stay.
void drop_empty_companions(const std::filesystem::path& database);
/// Throws Error(database) for a database with an untrusted companion.
void require_trusted_companions(const std::filesystem::path& database);

}  // namespace tilewise
