#include "db/trust.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "db/network_file_system.hpp"
#include "db/sqlite_error.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;

/// Calls getpwuid_r() or a similar function: `ask` fills `entry`, with its text in `buffer`.
template <class Entry, class Ask>
bool look_up(Entry& entry, std::vector<char>& buffer, Ask ask) {
  Entry* found = nullptr;
  for (buffer.resize(1024); ask(&entry, buffer.data(), buffer.size(), &found) == ERANGE;)
    buffer.resize(buffer.size() * 2);
  return found != nullptr;
}

std::optional<std::string> name_of_user(uid_t user) {
  passwd entry{};
  std::vector<char> buffer;
  const bool found =
      look_up(entry, buffer, [user](auto... arguments) { return getpwuid_r(user, arguments...); });
  if (!found) return std::nullopt;
  return entry.pw_name;
}

/// Whether a group is a user private group (Debian, Ubuntu, Fedora): it has the user's name (or
/// number, without such a name) and no other members.
bool is_private_group(gid_t group, uid_t user) {
  const std::string name = name_of_user(user).value_or("");
  ::group entry{};
  std::vector<char> buffer;
  const bool found = look_up(
      entry, buffer, [group](auto... arguments) { return getgrgid_r(group, arguments...); });
  if (!found) return group == user;
  if (entry.gr_name != name && group != user) return false;
  for (char** member = entry.gr_mem; *member; ++member)
    if (name != *member) return false;
  return true;
}

std::string user_text(uid_t user) {
  const auto name = name_of_user(user);
  return (name ? "user " + *name + " (" : "the user without a name (") + std::to_string(user) + ")";
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

FileFacts facts_of(const struct stat& status) {
  return {status.st_uid, status.st_gid, status.st_mode};
}

constexpr int kMostLinks = 40;  // Linux's limit

/// The target of a symbolic link.
fs::path next_of(const fs::path& link) {
  std::error_code ignored;
  return link.parent_path() / fs::read_symlink(link, ignored);
}

/// Calls `look` with the facts of each symbolic link on the path to the file and of the file
/// itself, until it returns true.
template <class Look>
void walk_links(fs::path at, Look look) {
  struct stat status {};
  for (int links = 0; links <= kMostLinks && lstat(at.c_str(), &status) == 0; ++links) {
    if (look(at, facts_of(status)) || !S_ISLNK(status.st_mode)) return;
    at = next_of(at);
  }
}

}  // namespace

UserFacts this_user() {
  const uid_t user = geteuid();
  return {user, [](uid_t other) { return name_of_user(other).has_value(); },
          [user](gid_t group) { return is_private_group(group, user); }};
}

std::string distrust(const FileFacts& file, const UserFacts& user) {
  const bool own = file.owner == user.user || file.owner == 0;
  // In a container, owners of mounted volumes may have no account.
  const bool of_a_volume = user.user == 0 && !own && !user.has_account(file.owner);
  const std::string what = S_ISLNK(file.mode)   ? "the symbolic link"
                           : S_ISDIR(file.mode) ? "the folder"
                                                : "the file";
  if (!own && !of_a_volume) return what + " belongs to " + user_text(file.owner);
  if (S_ISLNK(file.mode)) return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", file.mode & 07777U);
  if ((file.mode & S_IWOTH) != 0) return "every user may write " + what + " (mode " + mode + ")";
  if ((file.mode & S_IWGRP) != 0 && !user.own_group(file.group))
    return "the members of group " + std::to_string(file.group) + " may write " + what + " (mode " +
           mode + ")";
  return "";
}

fs::path behind_links(fs::path file) {
  std::error_code ignored;
  for (int links = 0; links < kMostLinks && fs::is_symlink(file, ignored); ++links)
    file = next_of(file);
  return file;
}

std::string distrust(const fs::path& file) {
  if (!keeps_owners(file)) return "";
  const UserFacts user = this_user();
  std::string why;
  walk_links(file, [&](const fs::path&, const FileFacts& facts) {
    why = distrust(facts, user);
    return !why.empty();
  });
  return why;
}

Followed follow_links(const fs::path& path) {
  const bool owners = keeps_owners(path);
  const UserFacts user = this_user();
  Followed followed{path, {}};
  walk_links(path, [&](const fs::path& at, const FileFacts& facts) {
    followed.file = at;
    if (owners && S_ISLNK(facts.mode) && !distrust(facts, user).empty()) followed.foreign_link = at;
    return !followed.foreign_link.empty();
  });
  return followed;
}

void require_regular(const fs::path& database) {
  struct stat status {};
  if (stat(database.c_str(), &status) != 0) {
    if (errno != ELOOP) return;
    throw database_error(database,
                         "its symbolic links lead in a circle, or are more than " +
                             std::to_string(kMostLinks) +
                             "; mend them, or name another file with --db or TILEWISE_DB");
  }
  if (S_ISREG(status.st_mode)) return;
  throw database_error(database, "it is " + kind_of(status.st_mode) + "; name a " +
                                     (S_ISDIR(status.st_mode) ? "file in it" : "regular file") +
                                     " with --db or TILEWISE_DB");
}

void refuse_file(const fs::path& database, const fs::path& file, const std::string& why) {
  const bool beside = file != database;
  throw database_error(
      database, (beside ? file.filename().string() + " beside it: " : std::string()) + why +
                    (beside ? ", and SQLite would read it into the database; delete it unless it "
                              "is yours, keep the database in a folder that only you can write"
                            : ", and what is stored in it is run by this program; copy it") +
                    ", or allow it by --trust-files (in a program: TILEWISE_TRUST_FILES=1 or "
                    "MatmulOptions::trust_files)");
}

void require_trusted(const fs::path& database) {
  if (const std::string why = distrust(database); !why.empty())
    refuse_file(database, database, why);
}

void make_private_folders(const fs::path& file) {
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  fs::path made;
  for (const fs::path& part : folder) {
    made /= part;
    std::error_code error;
    if (fs::is_directory(made, error)) continue;
    if (mkdir(made.c_str(), 0700) == 0 || (errno == EEXIST && fs::is_directory(made, error)))
      continue;
    throw database_error(file, "its folder " + folder.string() + " cannot be made (" +
                                   std::strerror(errno) +
                                   "); make it, or name another file with --db or TILEWISE_DB");
  }
}

bool make_private_file(const fs::path& file) {
  const int made = ::open(behind_links(file).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) {
    close(made);
    return true;
  }
  if (errno == EEXIST || errno == EROFS || errno == EACCES) return false;  // opening reports more
  throw database_error(file, std::string("the file cannot be made (") + std::strerror(errno) +
                                 "); name another file with --db");
}

}  // namespace tilewise
