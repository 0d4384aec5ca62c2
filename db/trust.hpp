#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

// Trusted files: only their user and root can have written them. docs/security.md has the reasons.
namespace tilewise {

/// A file's facts in the file system.
struct FileFacts {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;  ///< type and permissions, as in stat(2)
};

/// The user of this process, and this machine's accounts and groups.
struct UserFacts {
  uid_t user = 0;
  std::function<bool(uid_t)> has_account;
  std::function<bool(gid_t)> own_group;  ///< no other user is a member
};
UserFacts this_user();

/// Why others could have written a file; empty when only its user or root can have. For a symbolic
/// link, only the owner counts, not the permissions.
std::string distrust(const FileFacts& file, const UserFacts& user);

/// The file behind symbolic links; SQLite's companions are next to that file.
std::filesystem::path behind_links(std::filesystem::path file);

/// distrust() of a file and of the symbolic links to it. Empty for a missing file, and if the file
/// system stores no owners (FAT, NTFS, SMB, FUSE, ...).
std::string distrust(const std::filesystem::path& file);
/// The target of symbolic links. Each link is checked and read in one step, so that none is
/// replaced between check and use.
struct Followed {
  std::filesystem::path file;          ///< the last file followed
  std::filesystem::path foreign_link;  ///< the first untrusted link; otherwise empty
};
Followed follow_links(const std::filesystem::path& path);
/// Throws Error(database) when distrust() has a reason against the file or a link to it. The
/// message names the option that allows the file.
void require_trusted(const std::filesystem::path& database);
/// Throws Error(database) for a folder, pipe, device or loop of links; no option allows these.
void require_regular(const std::filesystem::path& database);
/// Throws Error(database) that refuses `file`, the database or a companion.
[[noreturn]] void refuse_file(const std::filesystem::path& database,
                              const std::filesystem::path& file, const std::string& why);

/// Creates the missing folders above a file, private to the user (0700). Throws Error(database).
void make_private_folders(const std::filesystem::path& file);
/// Creates an empty file, private to the user (0600), unless it exists. Returns whether it created
/// the file. Throws Error(database).
bool make_private_file(const std::filesystem::path& file);

}  // namespace tilewise
