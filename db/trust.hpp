#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

// Which files are used: those that only their user and root can have written. docs/security.md says
// why.
namespace tilewise {

/// What the file system says of a file.
struct FileFacts {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;  ///< type and permissions, as in stat(2)
};

/// The user of this process, and what this machine says of others.
struct UserFacts {
  uid_t user = 0;
  std::function<bool(uid_t)> has_account;
  std::function<bool(gid_t)> own_group;  ///< no other user is a member
};
UserFacts this_user();

/// Why others could have written a file; empty when only its user or root can have. A symbolic
/// link's permissions do not count, its owner does.
std::string distrust(const FileFacts& file, const UserFacts& user);

/// The file that symbolic links lead to: SQLite keeps its own files beside that one.
std::filesystem::path behind_links(std::filesystem::path file);

/// What distrust() says of a file and of the symbolic links that lead to it. Empty for a file that
/// is not there, and where the file system keeps no owners (FAT, NTFS, SMB, FUSE, ...).
std::string distrust(const std::filesystem::path& file);
/// Where symbolic links lead: each is looked at and read in one go, so that none is swapped between
/// a check and its use.
struct Followed {
  std::filesystem::path file;          ///< as far as the links were followed
  std::filesystem::path foreign_link;  ///< the first one that is not trusted; else empty
};
Followed follow_links(const std::filesystem::path& path);
/// Refuses a database that distrust() is about: the file itself and links that lead to it. Throws
/// Error(database) that names the option which allows the file.
void require_trusted(const std::filesystem::path& database);
/// A folder, a pipe, a device or a loop of links is no database; no option allows it.
void require_regular(const std::filesystem::path& database);
/// Throws Error(database) that refuses `file`, which is the database or lies beside it.
[[noreturn]] void refuse_file(const std::filesystem::path& database,
                              const std::filesystem::path& file, const std::string& why);

/// Makes the folders above a file that are missing, for the user alone (0700). Throws
/// Error(database).
void make_private_folders(const std::filesystem::path& file);
/// Makes an empty file for the user alone (0600) unless there is one. Throws Error(database).
void make_private_file(const std::filesystem::path& file);

}  // namespace tilewise
