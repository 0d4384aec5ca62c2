#pragma once
#include <filesystem>

// The files that SQLite keeps beside a database: the log of WAL mode with its index in shared
// memory, and the rollback journal.
namespace tilewise {

inline constexpr const char* kCompanions[] = {"-wal", "-shm", "-journal"};

/// Beside the file that symbolic links lead to.
std::filesystem::path companion(const std::filesystem::path& database, const char* suffix);
/// Whether it is there and is not empty.
bool has_bytes(const std::filesystem::path& database, const char* suffix);
/// Deletes companions of other users that hold nothing (an empty log or journal, a link, an index,
/// which SQLite makes anew), so that they do not keep the owner out. In a sticky folder that takes
/// the folder's owner or root. What a process of this user has open stays.
void drop_empty_companions(const std::filesystem::path& database);
/// Refuses a database beside which a companion lies that is not trusted. Throws Error(database).
void require_trusted_companions(const std::filesystem::path& database);

}  // namespace tilewise
