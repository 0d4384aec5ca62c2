// Which files at the path of a cache are deleted.
#include "db/cache_file.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include "damage.hpp"
#include "db/image_cache.hpp"
#include "db/schema.hpp"
#include "file_systems.hpp"

namespace tilewise::cache_file_test {
namespace {

using namespace samples;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CacheFile : public testing::Test {
 protected:
  void make() const {
    ImageCache cache(path);
    for (int tile = 1; tile <= 20; ++tile) ASSERT_EQ(cache.put(image(tile, 5000)), "");
  }
  /// The file and its companions stay, and no cache replaces it.
  void expect_kept(const std::string& why, Trust trust = Trust::owner) const {
    for (const char* suffix : {"-wal", "-journal"}) write_file(path.string() + suffix, "beside");
    for (const char* suffix : {"-wal", "-journal"}) chmod((path.string() + suffix).c_str(), 0600);
    const RemovedFile result = remove_cache_file(path, trust);
    EXPECT_FALSE(result.removed);
    EXPECT_EQ(result.bytes, 0);
    EXPECT_THAT(result.kept, HasSubstr(why));
    for (const char* suffix : {"-wal", "-journal"}) {
      EXPECT_EQ(read_file(path.string() + suffix), "beside");
      fs::remove(path.string() + suffix);
    }
    EXPECT_TRUE(fs::exists(fs::symlink_status(path)));
    ImageCache cache(path, OpenMode::read_write, trust);
    EXPECT_FALSE(cache.discard());
    EXPECT_TRUE(fs::exists(fs::symlink_status(path)));
  }
  void expect_removed() const {
    const RemovedFile result = remove_cache_file(path, Trust::owner);
    EXPECT_TRUE(result.removed);
    EXPECT_EQ(result.kept, "");
    EXPECT_FALSE(fs::exists(path));
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "r.db.cache";
};

TEST_F(CacheFile, OfOursGoesHoweverDamagedBehindItsHeader) {
  make();
  const std::string whole = read_file(path);
  for (const std::size_t bytes : {whole.size(), whole.size() / 2, std::size_t{4096},
                                  std::size_t{100}, std::size_t{50}, std::size_t{16}}) {
    SCOPED_TRACE(bytes);
    write_file(path, whole.substr(0, bytes) + (bytes > 4096 ? std::string(5000, 'x') : ""));
    write_file(path.string() + "-wal", "left by a process that was killed");
    const RemovedFile result = remove_cache_file(path, Trust::owner);
    EXPECT_EQ(result.kept, "");
    EXPECT_GT(result.bytes, 0);
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
  EXPECT_EQ(remove_cache_file(path, Trust::owner).kept, "") << "it is not there";
}

TEST_F(CacheFile, AnEmptyFileGoes) {
  write_file(path, "");
  expect_removed();
}

TEST_F(CacheFile, WhoseApplicationIdIsInItsLogGoes) {
  EXPECT_EQ(in_child([&] {
              ImageCache cache(path);
              cache.put(image(1));
              _exit(0);  // without a checkpoint of the log
              return 1;
            }),
            0);
  ASSERT_TRUE(fs::exists(path.string() + "-wal"));
  expect_removed();
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(CacheFile, OfAnotherKindStays) {
  write_file(path, "Notes of a year, and no database");
  expect_kept("no SQLite database");
  EXPECT_EQ(read_file(path), "Notes of a year, and no database");
  fs::remove(path);
  change(path, "CREATE TABLE cookies (name TEXT)");
  expect_kept("another program");
  change(path, "PRAGMA application_id = 7");
  expect_kept("another program");
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_kept("no regular file");
  fs::remove(path);
  fs::create_directory(path);
  expect_kept("no regular file");
}

TEST_F(CacheFile, ThatIsNotTrustedStays) {
  make();
  chmod(path.c_str(), 0666);
  expect_kept("every user may write");
}

TEST_F(CacheFile, BehindAnothersLinkStaysEvenWhereEveryFileIsTrusted) {
  const passwd* daemon = getpwnam("daemon");
  if (geteuid() != 0 || !daemon) GTEST_SKIP() << "needs root, and the user daemon";
  fs::permissions(folder.path(), fs::perms(01777));
  const fs::path secret = folder / "secret";
  for (const Trust trust : {Trust::owner, Trust::anyone}) {
    for (const bool ours : {false, true}) {
      make();
      fs::rename(path, secret);
      if (!ours) write_file(secret, "a secret");
      write_file(secret.string() + "-journal", "another");
      fs::create_symlink(secret, path);
      ASSERT_EQ(lchown(path.c_str(), daemon->pw_uid, daemon->pw_gid), 0);
      expect_kept("belongs to another user", trust);
      EXPECT_TRUE(fs::exists(secret));
      if (trust == Trust::owner) {  // Trust::anyone lets SQLite roll the journal back
        EXPECT_EQ(read_file(secret.string() + "-journal"), "another");
      }
      for (const fs::path& file : {path, secret, fs::path(secret.string() + "-journal")})
        fs::remove(file);
    }
  }
}

TEST_F(CacheFile, BehindALinkOfOnesOwnGoesAndTheLinkStays) {
  make();
  fs::rename(path, folder / "elsewhere");
  fs::create_symlink(folder / "elsewhere", path);
  EXPECT_TRUE(remove_cache_file(path, Trust::owner).removed);
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
  EXPECT_EQ(remove_cache_file(path, Trust::owner).kept, "") << "there is nothing to keep";
  write_file(folder / "elsewhere", "notes");
  expect_kept("no SQLite database");
  EXPECT_EQ(read_file(folder / "elsewhere"), "notes");
}

}  // namespace
}  // namespace tilewise::cache_file_test
