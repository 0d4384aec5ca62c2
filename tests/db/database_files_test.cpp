// The database's path and the state of its file: absent, not a database, damaged, unwritable, on a
// full disk, on a network file system.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

#include "db/network_file_system.hpp"
#include "db/open.hpp"
#include "db/sqlite.hpp"
#include "file_systems.hpp"

namespace tilewise::database_files_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// Sets or unsets an environment variable during a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

// Paths -------------------------------------------------------------------------------------------

TEST(DefaultPath, TakesTheOptionThenTheVariableThenTheDataDirectory) {
  const Variable home("HOME", "/home/me"), data("XDG_DATA_HOME", nullptr);
  const Variable own("TILEWISE_DB", "/somewhere/own.db");
  EXPECT_EQ(default_database_path("relative.db"), "relative.db");
  EXPECT_EQ(default_database_path(), "/somewhere/own.db");
  const Variable empty("TILEWISE_DB", "");
  EXPECT_EQ(default_database_path(), "/home/me/.local/share/tilewise/tilewise.db");
  const Variable xdg("XDG_DATA_HOME", "/data");
  EXPECT_EQ(default_database_path(), "/data/tilewise/tilewise.db");
  const Variable relative("XDG_DATA_HOME", "data");
  EXPECT_EQ(default_database_path(), "/home/me/.local/share/tilewise/tilewise.db");
}

TEST(DefaultPath, WithoutHomeAsksTheUserTable) {
  const Variable home("HOME", nullptr), data("XDG_DATA_HOME", nullptr), own("TILEWISE_DB", nullptr);
  try {
    EXPECT_TRUE(default_database_path().is_absolute());
  } catch (const Error& error) {  // a user without an entry, as in some containers
    EXPECT_THAT(error.what(), HasSubstr("TILEWISE_DB"));
  }
}

TEST(ImageCachePath, IsTheCacheDirectoryForTheStandardDatabaseOnly) {
  const Variable home("HOME", "/home/me"), data("XDG_DATA_HOME", nullptr);
  const Variable cache("XDG_CACHE_HOME", nullptr);
  const fs::path standard = "/home/me/.local/share/tilewise/tilewise.db";
  EXPECT_EQ(image_cache_path(standard), "/home/me/.cache/tilewise/images.db");
  EXPECT_EQ(image_cache_path("/elsewhere/x.db"), "/elsewhere/x.db.cache");
  const Variable xdg("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(image_cache_path(standard), "/cache/tilewise/images.db");
}

TEST(Open, MakesFoldersAndTheFile) {
  const TemporaryFolder folder;
  const auto path = folder / "a/b c/100%?#.db";
  Database::open(path).add(record());
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(Database::open(path, OpenMode::read_only).records({}).size(), 1u);
  EXPECT_EQ(Database::open(path).path(), path);
}

TEST(Open, SaysWhenTheFolderCannotBeMade) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(folder / "file/sub/x.db"); }),
              AllOf(HasSubstr((folder / "file/sub").string()), HasSubstr("cannot be made"),
                    HasSubstr("--db")));
}

TEST(Open, RefusesAFolder) {
  const TemporaryFolder folder;
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(folder.path(), mode); }),
                HasSubstr("is a folder"));
  }
}

TEST(OpenForReading, NeedsTheFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      error_of(ErrorKind::database, [&] { Database::open(folder / "x.db", OpenMode::read_only); }),
      AllOf(HasSubstr("no such file"), HasSubstr("x.db"), HasSubstr("TILEWISE_DB")));
  EXPECT_FALSE(fs::exists(folder / "x.db"));
}

TEST(Open, RefusesALoopOfLinks) {
  const TemporaryFolder folder;
  fs::create_symlink("b.db", folder / "a.db");
  fs::create_symlink("a.db", folder / "b.db");
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only})
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(folder / "a.db", mode); }),
                AllOf(HasSubstr("a.db"), HasSubstr("in a circle"), HasSubstr("--db")));
}

TEST(OpenForReading, RefusesToWrite) {
  const TemporaryFolder folder;
  Database::open(folder / "x.db").add(record());
  Database db = Database::open(folder / "x.db", OpenMode::read_only);
  EXPECT_TRUE(db.read_only());
  for (const auto& write : std::initializer_list<std::function<void()>>{
           [&] { db.add(record(128)); }, [&] { db.add(baseline()); },
           [&] { db.put_image(image()); }, [&] { db.set_winner(1); }, [&] { db.remove({}); },
           [&] { db.prune(); },
           [&] {
             db.claim_image(kernel(), {9, 0, true});
           }}) {
    EXPECT_THAT(error_of(ErrorKind::database, write),
                AllOf(HasSubstr("x.db"), HasSubstr("can only be read")));
  }
  EXPECT_EQ(db.records({}).size(), 1u);
}

TEST(Open, UsesWalAndNormalSync) {
  const TemporaryFolder folder;
  const OpenedFile file = open_for_writing(folder / "x.db", "", Trust::owner);
  EXPECT_EQ(file.connection.text("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(file.connection.integer("PRAGMA synchronous"), 1);
  EXPECT_EQ(file.connection.integer("PRAGMA foreign_keys"), 1);
  EXPECT_THAT(file.warnings, testing::IsEmpty());
}

// Kinds of files ----------------------------------------------------------------------------------

TEST(Open, TakesAnEmptyFileForNew) {
  const TemporaryFolder folder;
  write_file(folder / "x.db", "");
  EXPECT_THAT(
      error_of(ErrorKind::database, [&] { Database::open(folder / "x.db", OpenMode::read_only); }),
      HasSubstr("it is empty"));
  EXPECT_GT(Database::open(folder / "x.db").add(record()), 0);
}

TEST(Open, IfThereIsAnythingToRead) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Database::open_if_any(folder / "x.db"));
  EXPECT_FALSE(fs::exists(folder / "x.db")) << "reading makes none";
  write_file(folder / "x.db", "");
  EXPECT_FALSE(Database::open_if_any(folder / "x.db"));
  EXPECT_GT(Database::open(folder / "x.db").add(record()), 0);
  const auto stored = Database::open_if_any(folder / "x.db");
  ASSERT_TRUE(stored);
  EXPECT_TRUE(stored->read_only());
  EXPECT_EQ(stored->counts().records, 1);
  write_file(folder / "y.db", "hello");
  EXPECT_THROW(Database::open_if_any(folder / "y.db"), Error);
}

TEST(Open, RefusesWhatIsNoDatabase) {
  const TemporaryFolder folder;
  for (const std::string& text :
       {std::string("hello"), std::string("m,n,k\n1,2,3\n"), std::string(10'000, '\xee')}) {
    write_file(folder / "x.db", text);
    for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
      EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(folder / "x.db", mode); }),
                  AllOf(HasSubstr("x.db"), HasSubstr("no SQLite database"), HasSubstr("--db")));
    }
    EXPECT_TRUE(read_file(folder / "x.db") == text) << "it was touched";
  }
}

/// The bytes of a database file of many pages, all of them in the file itself.
std::string database_bytes(const fs::path& path) {
  {
    Database db = Database::open(path);
    for (int tile = 1; tile <= 200; ++tile) db.add(record(tile));
  }
  return read_file(path);
}

/// Opens a database and reads every table.
void read_all(const fs::path& path) {
  const Database db = Database::open(path);
  db.records({});
  db.winners();
  db.counts();
}

TEST(Open, SaysThatATruncatedFileIsDamaged) {
  const TemporaryFolder folder;
  const std::string bytes = database_bytes(folder / "x.db");
  write_file(folder / "x.db", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(error_of(ErrorKind::database, [&] { read_all(folder / "x.db"); }),
              AllOf(HasSubstr("x.db"), HasSubstr("damaged"), HasSubstr("restore a copy")));
}

TEST(Open, SaysThatOverwrittenPagesAreDamaged) {
  const TemporaryFolder folder;
  std::string bytes = database_bytes(folder / "x.db");
  ASSERT_GT(bytes.size(), 100'000u);
  bytes.replace(4096, bytes.size() - 4096, std::string(bytes.size() - 4096, '\x5a'));
  write_file(folder / "x.db", bytes);
  EXPECT_THAT(error_of(ErrorKind::database, [&] { read_all(folder / "x.db"); }),
              AllOf(HasSubstr("damaged"), HasSubstr(".recover")));
}

// Locked, full, unwritable ------------------------------------------------------------------------

TEST(Locked, IsSaid) {
  const TemporaryFolder folder;
  const OpenedFile one = open_for_writing(folder / "x.db", "", Trust::owner);
  const OpenedFile two = open_for_writing(folder / "x.db", "", Trust::owner);
  const Transaction held(one.connection);
  two.connection.set_busy_timeout(20);
  EXPECT_THAT(error_of(ErrorKind::database, [&] { Transaction refused(two.connection); }),
              AllOf(HasSubstr("x.db"), HasSubstr("another process"), HasSubstr("lock")));
}

TEST(FullDisk, IsSaidAndWhatWasThereStays) {
  const Connection db;
  db.execute("CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('kept'); PRAGMA max_page_count = 3");
  EXPECT_THAT(error_of(ErrorKind::database,
                       [&] {
                         Transaction transaction(db);
                         db.execute("INSERT INTO t VALUES (hex(zeroblob(100000)))");
                         transaction.commit();
                       }),
              AllOf(HasSubstr("the disk is full"), HasSubstr("--db"), HasSubstr("intact")));
  EXPECT_EQ(db.integer("SELECT count(*) FROM t"), 1);
  EXPECT_FALSE(db.in_transaction());
}

/// Adds records until one is refused. Returns the exit status for a child process: 0 if the refusal
/// has `words` and all committed records are intact.
int fill_until_refused(const fs::path& path, const std::string& words) {
  Database db = Database::open(path);
  std::int64_t committed = 0;
  for (int tile = 1; tile < 100'000; ++tile) {
    try {
      db.add(record(tile));
      ++committed;
    } catch (const Error& error) {
      const std::string what = error.what();
      const bool clear = error.kind() == ErrorKind::database &&
                         what.find(words) != std::string::npos &&
                         what.find(path.string()) != std::string::npos;
      if (!clear) std::fprintf(stderr, "said: %s\n", what.c_str());
      if (db.counts().records != committed || committed < 10) return 2;
      return clear ? 0 : 1;
    }
  }
  return 3;
}

TEST(FullDisk, ByALimitOnFileSizes) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{400'000, 400'000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 50;
              return fill_until_refused(path, "limit on file sizes");
            }),
            0);
  Database db = Database::open(path);
  EXPECT_GE(db.counts().records, 10);
  const OpenedFile file = open_for_reading(path, "", Trust::owner);
  EXPECT_EQ(file.connection.text("PRAGMA integrity_check"), "ok");
  EXPECT_GT(db.add(record(777'777)), 0) << "with space again, it goes on";
}

TEST(FullDisk, ForReal) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    if (!mount_private(folder.path(), "size=600k")) return kNotPermitted;
    return fill_until_refused(folder / "x.db", "the disk is full");
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

TEST(ReadOnlyMedia, AreReadButNotWritten) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const int status = in_child([&] {
    if (!mount_private(folder.path(), "size=4m")) return kNotPermitted;
    {
      Database db = Database::open(path);
      db.set_winner(db.add(record()));
    }
    if (fs::exists(folder / "x.db-wal")) return 10;  // the last closed connection removes it
    if (!remount_read_only(folder.path())) return kNotPermitted;
    const Database db = Database::open(path, OpenMode::read_only);
    if (db.winners().size() != 1 || !db.read_only() || !db.warnings().empty()) return 11;
    const std::string said = error_of(ErrorKind::database, [&] { Database::open(path); });
    return said.find("can only be read") != std::string::npos ? 0 : 12;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

/// A copy of a database and its log without the shared memory, as in a backup. One record is in the
/// file if `checkpointed`; one more is in the log.
void copy_with_log(const fs::path& from, const fs::path& to, bool checkpointed) {
  auto writer = std::make_unique<Database>(Database::open(from));
  writer->add(record(64));
  if (checkpointed) {
    writer.reset();  // the last connection writes the log back when it closes
    writer = std::make_unique<Database>(Database::open(from));
  }
  writer->add(record(128));
  fs::copy_file(from, to);
  fs::copy_file(from.string() + "-wal", to.string() + "-wal");
}

TEST(ReadOnlyMedia, WithALogThatCannotBeReadAreSaidToLackRows) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    if (!mount_private(folder.path(), "size=8m")) return kNotPermitted;
    copy_with_log(folder / "1.db", folder / "some.db", true);
    copy_with_log(folder / "2.db", folder / "none.db", false);
    fs::create_directory(folder / "links");
    fs::create_symlink(folder / "some.db", folder / "links" / "link.db");
    if (!remount_read_only(folder.path())) return kNotPermitted;
    const Database db = Database::open(folder / "some.db", OpenMode::read_only);
    if (db.counts().records != 1 || db.warnings().size() != 1) return 20;
    if (db.warnings().front().find("some.db-wal are not seen") == std::string::npos) return 21;
    const Database linked = Database::open(folder / "links" / "link.db", OpenMode::read_only);
    if (linked.warnings().size() != 1) return 23;
    const std::string said = error_of(
        ErrorKind::database, [&] { Database::open(folder / "none.db", OpenMode::read_only); });
    return said.find("none.db-wal are not seen") != std::string::npos ? 0 : 22;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

TEST(Permissions, ReadOnlyFileInReadOnlyFolder) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  {
    Database db = Database::open(path);
    db.set_winner(db.add(record()));
  }
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0555);
  const int status = as_user(65534, [&] {
    const Database db = Database::open(path, OpenMode::read_only);
    if (db.winners().size() != 1 || !db.warnings().empty()) return 1;
    const std::string said = error_of(ErrorKind::database, [&] { Database::open(path); });
    if (said.find("can only be read") == std::string::npos) return 2;
    const std::string absent =
        error_of(ErrorKind::database, [&] { Database::open(folder / "new.db"); });
    return absent.find("cannot be opened") != std::string::npos ? 0 : 3;
  });
  chmod(folder.path().c_str(), 0755);
  if (status == kNotPermitted) GTEST_SKIP() << "root cannot become another user here";
  EXPECT_EQ(status, 0);
}

TEST(Permissions, UnreadableFile) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).add(record());
  chmod(path.c_str(), 0000);
  chmod(folder.path().c_str(), 0755);
  const int status = as_user(65534, [&] {
    for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
      const std::string said = error_of(ErrorKind::database, [&] { Database::open(path, mode); });
      if (said.find("cannot be opened") == std::string::npos) return 1;
    }
    return 0;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "root cannot become another user here";
  EXPECT_EQ(status, 0);
}

// Network file systems ----------------------------------------------------------------------------

TEST(NetworkFileSystem, IsToldByItsMagicNumber) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0xff534d42), "CIFS");
  EXPECT_EQ(network_file_system(0x65735546), "FUSE");
  EXPECT_EQ(network_file_system(0xef53), "") << "ext4";
  EXPECT_EQ(network_file_system(0x01021994), "") << "tmpfs";
  EXPECT_EQ(network_file_system(0x9123683e), "") << "btrfs";
}

TEST(NetworkFileSystem, GetsARollbackJournalAndAWarning) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const OpenedFile file = open_for_writing(path, "NFS", Trust::owner);
  EXPECT_EQ(file.connection.text("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(file.connection.integer("PRAGMA synchronous"), 2);
  ASSERT_EQ(file.warnings.size(), 1u);
  EXPECT_THAT(file.warnings.front(),
              AllOf(HasSubstr("network file system (NFS)"), HasSubstr(path.string())));
  const OpenedFile reader = open_for_reading(path, "NFS", Trust::owner);
  EXPECT_EQ(reader.warnings.size(), 1u);
}

TEST(NetworkFileSystem, TakesAFileOutOfWal) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  {
    const OpenedFile local = open_for_writing(path, "", Trust::owner);
    const OpenedFile remote = open_for_writing(path, "SMB", Trust::owner);
    EXPECT_EQ(remote.connection.text("PRAGMA journal_mode"), "wal") << "another has it open";
    EXPECT_EQ(remote.warnings.size(), 2u);
  }
  const OpenedFile remote = open_for_writing(path, "SMB", Trust::owner);
  EXPECT_EQ(remote.connection.text("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(remote.warnings.size(), 1u);
}

}  // namespace
}  // namespace tilewise::database_files_test
