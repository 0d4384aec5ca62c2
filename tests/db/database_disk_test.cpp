// A file deleted while open, and a full disk.
#include <sys/statvfs.h>

#include "damage.hpp"
#include "db/image_cache.hpp"
#include "file_systems.hpp"

namespace tilewise::database_disk_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// Deleted files ---------------------------------------------------------------------------------

class PlaceTest : public testing::Test {
 protected:
  PlaceTest() {
    fs::create_directory(home);
    db.emplace(Database::open(home / "x.db"));
    db->set_winner(db->add(record()));
  }
  /// Expects that every write fails with this message and that reads succeed.
  void expect_lost(const std::string& words) {
    const auto refused = [&](auto write) {
      EXPECT_THAT(error_of(ErrorKind::database, write),
                  AllOf(HasSubstr((home / "x.db").string()), HasSubstr(words),
                        HasSubstr("while it was open"), HasSubstr("nothing can be stored")));
    };
    refused([&] { db->add(record(32)); });
    refused([&] { db->add(baseline()); });
    refused([&] { db->add(search()); });
    refused([&] { db->set_winner(1); });
    refused([&] { db->put_image(image()); });
    refused([&] { db->claim_image(kernel(), {9, 0, true}); });
    refused([&] { db->remove({}); });
    refused([&] { db->prune(); });
    refused([&] { db->import_json(R"({"format":"tilewise","version":1})"); });
    EXPECT_EQ(db->records({}).size(), 1u);
    EXPECT_TRUE(db->winner(problem(), kGpu));
    EXPECT_FALSE(db->export_json().empty());
    EXPECT_THAT(db->check(), IsEmpty());
  }
  const TemporaryFolder folder;
  const fs::path home = folder / "home";
  std::optional<Database> db;
};

TEST_F(PlaceTest, ADeletedFileIsSaidOnTheNextWrite) {
  fs::remove(home / "x.db");
  expect_lost("the file was deleted");
}

TEST_F(PlaceTest, ADeletedFolderIsSaidOnTheNextWrite) {
  fs::remove_all(home);
  expect_lost("the file was deleted");
}

TEST_F(PlaceTest, AFolderThatBecameAFileIsSaidOnTheNextWrite) {
  fs::remove_all(home);
  write_file(home, "a file");
  expect_lost("the file was deleted");
}

TEST_F(PlaceTest, AReplacedFileIsSaidOnTheNextWrite) {
  Database::open(folder / "other.db").add(record(16));
  fs::rename(folder / "other.db", home / "x.db");
  expect_lost("another file took its place");
  EXPECT_EQ(number_in(home / "x.db", "SELECT count(*) FROM records"), 1) << "it is not written to";
}

TEST_F(PlaceTest, AReplacedFolderIsSaidOnTheNextWrite) {
  fs::rename(home, folder / "away");
  Database::open(home / "x.db");
  expect_lost("another file took its place");
}

TEST_F(PlaceTest, AFileThatComesBackIsWrittenAgain) {
  fs::rename(home, folder / "away");
  expect_lost("the file was deleted");
  fs::rename(folder / "away", home);
  EXPECT_GT(db->add(record(32)), 1);
  EXPECT_EQ(Database::open(home / "x.db").counts().records, 2);
}

TEST_F(PlaceTest, ALinkThatLeadsElsewhereIsSaid) {
  const fs::path link = folder / "link.db";
  fs::create_symlink(home / "x.db", link);
  Database linked = Database::open(link);
  EXPECT_GT(linked.add(record(32)), 1);
  Database::open(folder / "other.db");
  fs::remove(link);
  fs::create_symlink(folder / "other.db", link);
  EXPECT_THAT(error_of(ErrorKind::database, [&] { linked.add(record(16)); }),
              HasSubstr("another file took its place"));
}

TEST_F(PlaceTest, AnotherWorkingFolderDoesNotMatter) {
  EXPECT_EQ(in_child([&] {
              fs::current_path(home);
              Database relative = Database::open("x.db");
              fs::current_path(folder.path());
              relative.add(record(32));
              return 0;
            }),
            0);
  EXPECT_EQ(db->counts().records, 2);
}

// A full disk -----------------------------------------------------------------------------------

/// Runs `body` in a child process on a file system of `kibibytes`.
template <class Body>
void on_small_disk(int kibibytes, Body body) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    if (!mount_private(folder.path(), ("size=" + std::to_string(kibibytes) + "k").c_str()))
      return kNotPermitted;
    body(folder.path());
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

std::int64_t free_bytes(const fs::path& folder) {
  return static_cast<std::int64_t>(fs::space(folder).available);
}

/// Fills the file system except for `left` bytes.
fs::path fill(const fs::path& folder, std::int64_t left = 0) {
  const fs::path ballast = folder / "ballast";
  write_file(
      ballast,
      std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, free_bytes(folder) - left)),
                  'x'));
  return ballast;
}

TEST(FullDisk, IsToldToTheHookOnceAndTheWriteSucceeds) {
  on_small_disk(1024, [](const fs::path& folder) {
    Database db = Database::open(folder / "x.db");
    db.add(record(1));
    const fs::path ballast = fill(folder);
    int calls = 0;
    db.on_full_disk([&] {
      ++calls;
      return fs::remove(ballast);
    });
    std::int64_t added = 1;
    while (calls == 0 && added < 2000) EXPECT_GT(db.add(record(static_cast<int>(++added))), 0);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(db.counts().records, added) << "the one that met the full disk is there";
    db.add(record(static_cast<int>(++added)));
    EXPECT_EQ(calls, 1) << "there is room";

    fill(folder);
    fs::rename(ballast, folder / "elsewhere");  // the hook finds nothing to free
    std::string said;
    for (int tile = 0; said.empty() && tile < 2000; ++tile) {
      try {
        db.add(record(static_cast<int>(added + 1)));
        ++added;
      } catch (const Error& error) {
        said = error.what();
      }
    }
    EXPECT_THAT(said, HasSubstr("the disk is full"));
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(db.counts().records, added);
    EXPECT_THAT(db.check(), IsEmpty());
    fs::remove(folder / "elsewhere");
    EXPECT_GT(db.add(record(static_cast<int>(added + 1))), 0);
  });
}

TEST(FullDisk, ADatabaseThatCannotBeMadeLeavesNoFile) {
  on_small_disk(1024, [](const fs::path& folder) {
    const fs::path ballast = fill(folder);
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(folder / "x.db"); }),
                HasSubstr("the disk is full"));
    std::vector<fs::path> left;
    for (const auto& entry : fs::directory_iterator(folder)) left.push_back(entry.path());
    EXPECT_THAT(left, testing::ElementsAre(ballast));
    fs::remove(ballast);
    EXPECT_GT(Database::open(folder / "x.db").add(record(1)), 0);
  });
}

TEST(FullDisk, OfLargeImagesLosesNothing) {
  on_small_disk(1024, [](const fs::path& folder) {
    Database db = Database::open(folder / "x.db");
    db.put_image(image(1, 100'000));
    fill(folder, 50'000);
    EXPECT_THAT(error_of(ErrorKind::database, [&] { db.put_image(image(2, 400'000)); }),
                HasSubstr("the disk is full"));
    EXPECT_TRUE(db.image(kernel(1), {9, 0, true}, "simt.1 plan.1"));
    EXPECT_FALSE(db.image(kernel(2), {9, 0, true}, "simt.1 plan.1"));
    EXPECT_THAT(db.check(), IsEmpty());
  });
}

TEST(FullDisk, TheCacheMakesRoom) {
  on_small_disk(2048, [](const fs::path& folder) {
    Database db = Database::open(folder / "x.db");
    ImageCache cache(folder / "cache" / "images.db");
    for (int tile = 1; tile <= 4; ++tile) EXPECT_EQ(cache.put(image(tile, 100'000)), "");
    db.on_full_disk([&] { return cache.discard(); });
    db.add(record(1));
    fill(folder);
    for (int tile = 2; tile <= 12; ++tile) EXPECT_GT(db.add(record(tile)), 0);
    EXPECT_EQ(db.counts().records, 12);
    EXPECT_TRUE(fs::is_empty(folder / "cache")) << "nor are SQLite's files left";
    EXPECT_GT(free_bytes(folder), 0);
    EXPECT_FALSE(cache.discard()) << "there is no more to free";
  });
}

TEST(FullDisk, ThatTheCacheMeetsIsSaid) {
  on_small_disk(1024, [](const fs::path& folder) {
    ImageCache cache(folder / "images.db");
    EXPECT_EQ(cache.put(image(1)), "");
    const fs::path ballast = fill(folder);
    EXPECT_THAT(cache.put(image(2, 300'000)), HasSubstr("the disk is full"));
    EXPECT_TRUE(cache.image(kernel(1), {9, 0, true}, "simt.1 plan.1"));
    // A claim that cannot be written is not held, so every process compiles.
    for (int tile = 3; tile < 2000; ++tile)
      if (cache.claim(kernel(tile), {9, 0, true}) == ImageCache::Claim::none) break;
    EXPECT_EQ(cache.claim(kernel(5000), {9, 0, true}), ImageCache::Claim::none);
    cache.renew_claim(kernel(3), {9, 0, true});
    cache.release_claim(kernel(3), {9, 0, true});
    EXPECT_THAT(cache.warnings(), IsEmpty());
    fs::remove(ballast);
    EXPECT_EQ(cache.put(image(2, 300'000)), "") << "with space again, it goes on";
    EXPECT_EQ(cache.claim(kernel(5000), {9, 0, true}), ImageCache::Claim::held);
  });
}

TEST(FullDisk, PruneSaysWhatItCouldNotDo) {
  on_small_disk(3200, [](const fs::path& folder) {
    {
      Database filled = Database::open(folder / "x.db");
      const auto id = filled.add(record(1));
      filled.set_winner(id);
      for (int tile = 1; tile <= 10; ++tile) {
        filled.put_image(image(tile, 100'000), id);
        Image dropped = image(100 + tile, 20'000);
        dropped.launch_revision = "simt.0 plan.0";
        filled.put_image(dropped);
      }
    }
    Database db = Database::open(folder / "x.db");
    const fs::path ballast = fill(folder, 400'000);
    const Database::Pruned pruned = db.prune();
    EXPECT_THAT(pruned.not_done, AllOf(HasSubstr("could not be made smaller"), HasSubstr("2 MiB")));
    EXPECT_EQ(pruned.freed_bytes, 0);
    EXPECT_EQ(db.counts().images, 10);
    EXPECT_GT(free_bytes(folder), 300'000) << "what it tried takes no space";
    for (int tile = 2; tile <= 9; ++tile) EXPECT_GT(db.add(record(tile)), 0);
    EXPECT_THAT(db.check(), IsEmpty());
    fs::remove(ballast);
    const Database::Pruned again = db.prune();
    EXPECT_EQ(again.not_done, "");
    EXPECT_GT(again.freed_bytes, 100'000);
  });
}

}  // namespace
}  // namespace tilewise::database_disk_test
