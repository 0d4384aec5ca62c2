// SQLite's companion files of a database: readers leave none, and those of other users do not lock
// the owner out.
#include "db/companions.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include "damage.hpp"
#include "file_systems.hpp"

namespace tilewise::companions_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

constexpr unsigned kUser = 12345;

class Companions : public testing::Test {
 protected:
  Companions() {
    Database::open(path).add(record());
    fs::permissions(folder.path(), fs::perms(01777));
    chmod(path.c_str(), 0644);
  }
  Database read() const { return Database::open(path, OpenMode::read_only, Trust::owner); }
  std::string beside() const {
    std::string names;
    for (const char* suffix : kCompanions)
      if (fs::exists(fs::symlink_status(companion(path, suffix)))) names += suffix;
    return names;
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "r.db";
};

TEST_F(Companions, ReadersLeaveNone) {
  {
    const Database reader = read();
    EXPECT_EQ(reader.counts().records, 1);
    EXPECT_TRUE(reader.read_only());
  }
  EXPECT_EQ(beside(), "");
}

TEST_F(Companions, AnOwnersReaderSeesAWriterAndItsLog) {
  Database writer = Database::open(path);
  writer.add(record(128));
  const Database reader = read();
  EXPECT_EQ(reader.counts().records, 2);
  writer.add(record(32));
  EXPECT_EQ(reader.counts().records, 3);
}

// As root: other users in a sticky folder ---------------------------------------------------------

class SharedFolder : public Companions {
 protected:
  void SetUp() override {
    const passwd* other = getpwnam("daemon");
    if (geteuid() != 0 || !other) GTEST_SKIP() << "needs root, and the user daemon";
    daemon = other->pw_uid;
  }
  void plant(const char* suffix, const std::string& bytes) const {
    write_file(companion(path, suffix), bytes);
    ASSERT_EQ(chown(companion(path, suffix).c_str(), daemon, daemon), 0);
  }
  uid_t daemon = 0;
};

TEST_F(SharedFolder, AnotherUsersReaderMakesNoFile) {
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      const Database reader = read();
                      EXPECT_EQ(reader.counts().records, 1);
                      EXPECT_EQ(beside(), "") << "while it is open";
                      EXPECT_THAT(reader.warnings(), IsEmpty());
                      return HasFailure() ? 1 : 0;
                    }),
            0);
  EXPECT_EQ(beside(), "");
  EXPECT_GT(Database::open(path).add(record(128)), 0);
}

TEST_F(SharedFolder, AnotherUsersReaderSeesTheOwnersLog) {
  Database writer = Database::open(path);
  writer.add(record(128));
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      const Database reader = read();
                      EXPECT_EQ(reader.counts().records, 2);
                      EXPECT_THAT(reader.warnings(), IsEmpty());
                      return HasFailure() ? 1 : 0;
                    }),
            0);
  writer.add(record(32));
  EXPECT_EQ(writer.counts().records, 3);
}

TEST_F(SharedFolder, ALogThatItMayNotReadIsSaid) {
  Database writer = Database::open(path);
  writer.add(record(128));
  chmod(companion(path, "-wal").c_str(), 0600);
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      const Database reader = read();
                      EXPECT_EQ(reader.counts().records, 1);
                      EXPECT_THAT(reader.warnings(),
                                  testing::ElementsAre(HasSubstr("r.db-wal are not seen")));
                      return HasFailure() ? 1 : 0;
                    }),
            0);
}

TEST_F(SharedFolder, WhatAnotherUserPlantsMisleadsNoReader) {
  plant("-wal", "x");
  plant("-shm", std::string(32768, 'x'));
  plant("-journal", "x");
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      EXPECT_EQ(read().counts().records, 1);
                      return HasFailure() ? 1 : 0;
                    }),
            0);
}

TEST_F(SharedFolder, EmptyFilesOfAnotherAreRemovedForTheOwner) {
  for (const OpenMode mode : {OpenMode::read_only, OpenMode::read_write}) {
    plant("-wal", "");
    plant("-shm", std::string(32768, 'x'));
    plant("-journal", "");
    EXPECT_EQ(Database::open(path, mode, Trust::owner).counts().records, 1);
    EXPECT_EQ(beside(), "");
  }
  const fs::path secret = folder / "secret";
  write_file(secret, "a secret");
  fs::create_symlink(secret, companion(path, "-wal"));
  ASSERT_EQ(lchown(companion(path, "-wal").c_str(), daemon, daemon), 0);
  EXPECT_EQ(read().counts().records, 1);
  EXPECT_EQ(beside(), "");
  EXPECT_EQ(read_file(secret), "a secret");
}

TEST_F(SharedFolder, WhatHoldsSomethingStaysAndIsRefusedWithAWayOn) {
  plant("-wal", "x");
  EXPECT_THAT(error_of(ErrorKind::database, [&] { read(); }),
              AllOf(HasSubstr("r.db-wal beside it: the file belongs to user daemon"),
                    HasSubstr("delete it unless it is yours"), HasSubstr("--trust-files")));
  EXPECT_EQ(beside(), "-wal");
}

TEST_F(SharedFolder, WhereTheyMayNotBeDeletedTheErrorSaysHowToGoOn) {
  ASSERT_EQ(chown(path.c_str(), kUser, kUser), 0);
  plant("-wal", "");
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      EXPECT_THAT(error_of(ErrorKind::database, [&] { read(); }),
                                  AllOf(HasSubstr("belongs to user daemon"),
                                        HasSubstr("a folder that only you can write")));
                      return HasFailure() ? 1 : 0;
                    }),
            0);
  ASSERT_EQ(chown(folder.path().c_str(), kUser, kUser), 0);
  EXPECT_EQ(as_user(kUser,
                    [&] {
                      EXPECT_EQ(read().counts().records, 1) << "the folder is the user's";
                      return HasFailure() ? 1 : 0;
                    }),
            0);
  EXPECT_EQ(beside(), "");
}

TEST_F(SharedFolder, WhatAProcessOfThisUserHasOpenStays) {
  Database team = Database::open(path, OpenMode::read_write, Trust::anyone);
  team.counts();
  for (const char* suffix : {"-wal", "-shm"})
    ASSERT_EQ(chown(companion(path, suffix).c_str(), daemon, daemon), 0);
  EXPECT_EQ(in_child([&] {
              EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path); }),
                          HasSubstr("belongs to user daemon"));
              return HasFailure() ? 1 : 0;
            }),
            0);
  EXPECT_GT(team.add(record(128)), 0);
}

}  // namespace
}  // namespace tilewise::companions_test
