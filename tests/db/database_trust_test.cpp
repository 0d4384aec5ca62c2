// Which files are trusted, by owner, mode and kind, and the modes of new files.
#include "db/trust.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "damage.hpp"
#include "file_systems.hpp"

namespace tilewise::database_trust_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uid_t kMe = 1000, kOther = 1001, kNameless = 5555;
constexpr gid_t kOwnGroup = 1000, kTeam = 50;

/// Why a user distrusts a file. Root and the users 1000 and 1001 have accounts.
std::string why_not(uid_t user, uid_t owner, gid_t group, mode_t mode) {
  return distrust({owner, group, mode},
                  {user, [](uid_t other) { return other == 0 || other == kMe || other == kOther; },
                   [](gid_t other) { return other == kOwnGroup; }});
}

TEST(Distrust, IsOfOwnerAndMode) {
  const auto trusted = [](uid_t user, uid_t owner, gid_t group, mode_t mode) {
    return why_not(user, owner, group, mode).empty();
  };
  constexpr mode_t kFile = S_IFREG, kLink = S_IFLNK;
  struct {
    const char* what;
    bool expected;
    uid_t user, owner;
    gid_t group;
    mode_t mode;
  } const rows[] = {
      {"one's own", true, kMe, kMe, kTeam, kFile | 0600},
      {"one's own that all may read", true, kMe, kMe, kTeam, kFile | 0644},
      {"one's own that all may run", true, kMe, kMe, kTeam, kFile | 0755},
      {"one's own that one may only read", true, kMe, kMe, kTeam, kFile | 0444},
      {"umask 002 with a group of one's own", true, kMe, kMe, kOwnGroup, kFile | 0664},
      {"that a team may write", false, kMe, kMe, kTeam, kFile | 0660},
      {"that root's group may write", false, kMe, kMe, 0, kFile | 0664},
      {"that all may write", false, kMe, kMe, kOwnGroup, kFile | 0666},
      {"that others may write, but not the group", false, kMe, kMe, kOwnGroup, kFile | 0602},
      {"root's", true, kMe, 0, 0, kFile | 0644},
      {"root's that all may write", false, kMe, 0, 0, kFile | 0666},
      {"root's that a team may write", false, kMe, 0, kTeam, kFile | 0664},
      {"another's", false, kMe, kOther, kOwnGroup, kFile | 0600},
      {"another's that may only be read", false, kMe, kOther, kTeam, kFile | 0444},
      {"of a number without an account", false, kMe, kNameless, kTeam, kFile | 0600},
      {"a link of one's own", true, kMe, kMe, kTeam, kLink | 0777},
      {"a link of root's", true, kMe, 0, 0, kLink | 0777},
      {"another's link", false, kMe, kOther, kOwnGroup, kLink | 0777},
      {"as root: root's", true, 0, 0, 0, kFile | 0600},
      {"as root: another's", false, 0, kOther, kTeam, kFile | 0600},
      {"as root: another's link", false, 0, kOther, kTeam, kLink | 0777},
      {"as root: of a mounted volume", true, 0, kNameless, kTeam, kFile | 0600},
      {"as root: of a volume, for all to write", false, 0, kNameless, kTeam, kFile | 0666},
      {"as root: of a volume, for a team to write", false, 0, kNameless, kTeam, kFile | 0660},
  };
  for (const auto& [what, expected, user, owner, group, mode] : rows)
    EXPECT_EQ(trusted(user, owner, group, mode), expected) << what;
}

TEST(Distrust, SaysWhy) {
  EXPECT_THAT(why_not(kMe, kMe, kTeam, S_IFREG | 0660),
              AllOf(HasSubstr("group 50"), HasSubstr("mode 0660")));
  EXPECT_THAT(why_not(kMe, kMe, kTeam, S_IFREG | 0666), HasSubstr("every user"));
  EXPECT_THAT(why_not(kMe, kNameless, kTeam, S_IFREG | 0600), HasSubstr("(5555)"));
  EXPECT_THAT(why_not(kMe, kNameless, kTeam, S_IFLNK | 0777), HasSubstr("symbolic link"));
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class TrustTest : public testing::Test {
 protected:
  TrustTest() { fs::permissions(folder.path(), fs::perms(0755)); }
  void make() const { Database::open(path).add(record()); }
  /// Expects that opening is refused with this message, except with Trust::anyone.
  void expect_refused(const std::string& words) const {
    for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only})
      EXPECT_THAT(
          error_of(ErrorKind::database, [&] { Database::open(path, mode, Trust::owner); }),
          AllOf(HasSubstr(path.string()), HasSubstr(words), HasSubstr("--trust-files"),
                HasSubstr("TILEWISE_TRUST_FILES=1"), HasSubstr("MatmulOptions::trust_files")));
    for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only})
      EXPECT_EQ(Database::open(path, mode, Trust::anyone).counts().records, 1);
    // They were made with the database's owner and mode.
    for (const char* suffix : {"-wal", "-shm"}) fs::remove(path.string() + suffix);
  }
  void expect_used() const {
    EXPECT_EQ(Database::open(path, OpenMode::read_only, Trust::owner).counts().records, 1);
    EXPECT_EQ(Database::open(path, OpenMode::read_write, Trust::owner).counts().records, 1);
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "x.db";
};

TEST_F(TrustTest, FilesAndFoldersAreMadeForTheUserAlone) {
  for (const mode_t mask : {022, 002, 000, 077}) {
    SCOPED_TRACE(mask);
    EXPECT_EQ(in_child([&] {
                umask(mask);
                const fs::path top = folder / ("umask" + std::to_string(mask));
                const fs::path made = top / "a" / "b" / "x.db";
                Database db = Database::open(made);
                db.add(record());
                const Database reader = Database::open(made, OpenMode::read_only);
                for (const char* suffix : {"", "-wal", "-shm"})
                  EXPECT_EQ(mode_of(made.string() + suffix), 0600u) << suffix;
                for (const fs::path& part : {top, top / "a", top / "a" / "b"})
                  EXPECT_EQ(mode_of(part), 0700u) << part;
                EXPECT_EQ(mode_of(folder.path()), 0755u) << "it was there before";
                return HasFailure() ? 1 : 0;
              }),
              0);
  }
}

TEST_F(TrustTest, ModesThatLetOthersWriteAreRefused) {
  make();
  chmod(path.c_str(), 0666);
  expect_refused("every user may write the file (mode 0666)");
  chmod(path.c_str(), 0602);
  expect_refused("every user may write");
  for (const mode_t mode : {0600, 0644, 0755}) {
    chmod(path.c_str(), mode);
    expect_used();
  }
}

TEST_F(TrustTest, AForeignGroupMayNotWrite) {
  make();
  if (chown(path.c_str(), static_cast<uid_t>(-1), 12345) != 0) GTEST_SKIP() << "needs root";
  chmod(path.c_str(), 0660);
  expect_refused("the members of group 12345 may write the file (mode 0660)");
  chmod(path.c_str(), 0640);
  expect_used();
}

TEST_F(TrustTest, SQLitesFilesBesideItCountToo) {
  make();
  for (const char* suffix : {"-wal", "-shm", "-journal"}) {
    const fs::path beside = path.string() + suffix;
    write_file(beside, "x");
    if (suffix == std::string("-shm")) continue;  // SQLite rebuilds it
    chmod(beside.c_str(), 0666);
    expect_refused("x.db" + std::string(suffix) + " beside it: every user may write");
    fs::remove(beside);
  }
  expect_used();
}

TEST_F(TrustTest, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const fs::path fifo = folder / "fifo", socket_path = folder / "socket";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int end = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path.c_str());
  ASSERT_EQ(bind(end, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const fs::path link = folder / "link";
  fs::create_symlink(fifo, link);
  const std::pair<fs::path, const char*> files[] = {{fifo, "a named pipe"},
                                                    {link, "a named pipe"},
                                                    {socket_path, "a socket"},
                                                    {"/dev/null", "a device"},
                                                    {folder.path(), "a folder"}};
  for (const auto& [file, words] : files) {
    SCOPED_TRACE(file);
    EXPECT_EQ(in_child([&, &name = file, &said = words] {
                alarm(10);  // ends a child that hangs
                for (const Trust trust : {Trust::owner, Trust::anyone})
                  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only})
                    EXPECT_THAT(
                        error_of(ErrorKind::database, [&] { Database::open(name, mode, trust); }),
                        AllOf(HasSubstr(said), HasSubstr("--db")));
                return HasFailure() ? 1 : 0;
              }),
              0);
  }
  close(end);
}

TEST_F(TrustTest, ALinkOfOnesOwnIsFollowed) {
  make();
  const fs::path link = folder / "link.db", second = folder / "second.db";
  fs::create_symlink(path, link);
  fs::create_symlink("link.db", second);
  for (const fs::path& name : {link, second}) {
    Database db = Database::open(name, OpenMode::read_write, Trust::owner);
    db.add(record(32));
    EXPECT_EQ(Database::open(name, OpenMode::read_only, Trust::owner).counts().records, 2);
  }
  chmod(path.c_str(), 0666);
  EXPECT_THAT(error_of(ErrorKind::database,
                       [&] { Database::open(link, OpenMode::read_write, Trust::owner); }),
              HasSubstr("every user may write the file"));
}

// SQLite's companion files are next to a link's target, not next to the link.
TEST_F(TrustTest, FilesBesideALinksTargetCount) {
  make();
  fs::create_directory(folder / "links");
  const fs::path link = folder / "links" / "link.db";
  fs::create_symlink(path, link);
  for (const char* suffix : {"-wal", "-journal"}) {
    const fs::path beside = path.string() + suffix;
    write_file(beside, "x");
    chmod(beside.c_str(), 0666);
    EXPECT_THAT(error_of(ErrorKind::database,
                         [&] { Database::open(link, OpenMode::read_only, Trust::owner); }),
                HasSubstr("every user may write"))
        << suffix;
    fs::remove(beside);
  }
}

TEST_F(TrustTest, ALinkMadeBeforeTheFileIsPrivateToo) {
  const fs::path link = folder / "link.db";
  fs::create_symlink(path, link);
  EXPECT_EQ(in_child([&] {
              umask(0);
              Database::open(link).add(record());
              return mode_of(path) == 0600 ? 0 : 1;
            }),
            0);
}

TEST_F(TrustTest, TheEnvironmentVariableAllowsEveryFile) {
  make();
  chmod(path.c_str(), 0666);
  const auto opens_with = [&](const char* value) {
    return in_child([&] {
      value ? setenv("TILEWISE_TRUST_FILES", value, 1) : unsetenv("TILEWISE_TRUST_FILES");
      try {
        Database::open(path);
        return 0;
      } catch (const Error&) {
        return 1;
      }
    });
  };
  EXPECT_EQ(opens_with("1"), 0);
  EXPECT_EQ(opens_with("yes"), 0);
  for (const char* no : {"0", ""}) EXPECT_EQ(opens_with(no), 1) << '"' << no << '"';
  EXPECT_EQ(opens_with(nullptr), 1);
}

// As root: files of other users ------------------------------------------------------------------

class RootTest : public TrustTest {
 protected:
  void SetUp() override {
    const passwd* other = getpwnam("daemon");
    if (geteuid() != 0 || !other) GTEST_SKIP() << "needs root, and the user daemon";
    daemon = other->pw_uid;
    make();
  }
  uid_t daemon = 0;
};

TEST_F(RootTest, AnothersFileIsRefused) {
  ASSERT_EQ(chown(path.c_str(), daemon, 0), 0);
  expect_refused("the file belongs to user daemon (" + std::to_string(daemon) + ")");
  ASSERT_EQ(chown(path.c_str(), 54321, 54321), 0);
  expect_used();  // as in a mounted volume: no account has that number
}

TEST_F(RootTest, AnothersLinkIsRefusedWhereverItLeads) {
  const fs::path link = folder / "link.db", own = folder / "own.db";
  fs::create_symlink(path, link);
  ASSERT_EQ(lchown(link.c_str(), daemon, 0), 0);
  fs::create_symlink(link, own);
  for (const fs::path& name : {link, own})
    EXPECT_THAT(
        error_of(ErrorKind::database,
                 [&] { Database::open(name, OpenMode::read_only, Trust::owner); }),
        AllOf(HasSubstr("symbolic link belongs to user daemon"), HasSubstr("--trust-files")))
        << name;
  EXPECT_EQ(Database::open(link, OpenMode::read_only, Trust::anyone).counts().records, 1);
}

TEST_F(RootTest, AnothersFileInASharedFolderIsRefused) {
  fs::permissions(folder.path(), fs::perms(01777));
  ASSERT_EQ(chown(path.c_str(), daemon, 0), 0);
  EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path); }),
              HasSubstr("belongs to user daemon"));
}

// As another user: root's files, and own files in shared folders ----------------------------------

constexpr unsigned kUser = 12345;

TEST_F(RootTest, RootsReadOnlyFileIsRead) {
  chmod(path.c_str(), 0644);
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      const Database db = Database::open(path, OpenMode::read_only, Trust::owner);
                      EXPECT_EQ(db.counts().records, 1);
                      EXPECT_THAT(db.check(), testing::IsEmpty());
                      EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path); }),
                                  HasSubstr("can only be read"));
                      return HasFailure() ? 1 : 0;
                    }),
            0);
}

TEST_F(RootTest, OnesOwnFileInAStickySharedFolderIsUsed) {
  fs::permissions(folder.path(), fs::perms(01777));
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      Database db =
                          Database::open(folder / "own.db", OpenMode::read_write, Trust::owner);
                      db.add(record());
                      return Database::open(folder / "own.db", OpenMode::read_only, Trust::owner)
                                         .counts()
                                         .records == 1
                                 ? 0
                                 : 1;
                    }),
            0);
}

TEST_F(RootTest, AGroupOfOnesOwnMayWrite) {
  ASSERT_EQ(chown(path.c_str(), kUser, kUser), 0);
  chmod(path.c_str(), 0664);
  fs::permissions(folder.path(), fs::perms(0777));
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      umask(002);
                      expect_used();
                      return HasFailure() ? 1 : 0;
                    }),
            0);
  ASSERT_EQ(chown(path.c_str(), kUser, kUser + 1), 0);
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path); }),
                                  HasSubstr("the members of group 12346 may write"));
                      return HasFailure() ? 1 : 0;
                    }),
            0);
}

TEST_F(RootTest, AnotherUsersFileIsRefusedToAUser) {
  ASSERT_EQ(chown(path.c_str(), kUser + 1, kUser + 1), 0);
  chmod(path.c_str(), 0644);
  EXPECT_EQ(
      as_user(
          kUser,
          [&] {
            EXPECT_THAT(error_of(ErrorKind::database,
                                 [&] { Database::open(path, OpenMode::read_only, Trust::owner); }),
                        HasSubstr("belongs to the user without a name (12346)"));
            EXPECT_EQ(Database::open(path, OpenMode::read_only, Trust::anyone).counts().records, 1);
            return HasFailure() ? 1 : 0;
          }),
      0);
}

}  // namespace
}  // namespace tilewise::database_trust_test
