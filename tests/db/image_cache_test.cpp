// The image cache: a fault of its file is never an error for the caller.
#include "db/image_cache.hpp"

#include <sys/stat.h>

#include "damage.hpp"
#include "db/schema.hpp"
#include "file_systems.hpp"

namespace tilewise::image_cache_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

const Target kTarget{9, 0, true};

bool has(ImageCache& cache, int tile) {
  const auto found = cache.image(kernel(tile), kTarget, "simt.1 plan.1");
  return found && found->kernel == kernel(tile);
}

class ImageCacheTest : public testing::Test {
 protected:
  /// Makes a cache file with images of the tiles 1 .. 40, 200 KiB in total.
  void make() const {
    ImageCache cache(path);
    for (int tile = 1; tile <= 40; ++tile) ASSERT_EQ(cache.put(image(tile, 5000)), "");
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "images.db";
};

TEST_F(ImageCacheTest, KeepsImagesForTheNext) {
  {
    ImageCache cache(folder / "a" / "images.db");
    EXPECT_FALSE(has(cache, 1));
    EXPECT_EQ(cache.put(image(1)), "");
    EXPECT_TRUE(has(cache, 1));
    EXPECT_THAT(cache.warnings(), IsEmpty());
  }
  struct stat status {};
  ASSERT_EQ(stat((folder / "a" / "images.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ImageCache again(folder / "a" / "images.db");
  EXPECT_EQ(again.image(kernel(1), kTarget, "simt.1 plan.1"), image(1));
  ImageCache in_memory;
  EXPECT_EQ(in_memory.put(image(1)), "");
  EXPECT_TRUE(has(in_memory, 1));
  EXPECT_FALSE(in_memory.discard()) << "there is no file";
}

// Damage ------------------------------------------------------------------------------------------

TEST_F(ImageCacheTest, ADamagedCacheIsMadeAnew) {
  make();
  const std::string whole = read_file(path);
  std::string scrambled = whole;
  for (std::size_t at = 100; at < scrambled.size(); ++at)
    scrambled[at] = static_cast<char>(at * 31);
  const std::pair<const char*, std::string> files[] = {
      {"truncated in the header", whole.substr(0, 50)},
      {"truncated to its header", whole.substr(0, 100)},
      {"truncated to a page", whole.substr(0, 4096)},
      {"truncated", whole.substr(0, whole.size() / 2)},
      {"truncated in a page", whole.substr(0, whole.size() / 2 + 100)},
      {"scrambled", scrambled},
      {"without its tables", [&] {
         const fs::path other = folder / "other.db";
         change(other, "PRAGMA application_id = " + std::to_string(kApplicationId) +
                           "; PRAGMA user_version = " + std::to_string(kSchema));
         return read_file(other);
       }()}};
  for (const auto& [what, bytes] : files) {
    SCOPED_TRACE(what);
    for (const char* suffix : {"-wal", "-shm"}) fs::remove(path.string() + suffix);
    write_file(path, bytes);
    ImageCache cache(path);
    for (int tile = 1; tile <= 40; ++tile) {
      const auto found = cache.image(kernel(tile), kTarget, "simt.1 plan.1");
      EXPECT_EQ(found.value_or(image(tile, 5000)), image(tile, 5000)) << "what is there is right";
    }
    for (int tile = 1; tile <= 50; ++tile) EXPECT_EQ(cache.put(image(tile, 300)), "");
    EXPECT_EQ(cache.claim(kernel(99), kTarget), ImageCache::Claim::held);
    for (int tile = 1; tile <= 50; ++tile) EXPECT_TRUE(has(cache, tile));
    EXPECT_THAT(cache.warnings(),
                ElementsAre(AllOf(HasSubstr("the image cache was damaged"), HasSubstr("made anew"),
                                  HasSubstr(path.string()))));
  }
}

TEST_F(ImageCacheTest, AnEmptyFileIsNew) {
  write_file(path, "");
  ImageCache cache(path);
  EXPECT_EQ(cache.put(image(1)), "");
  EXPECT_THAT(cache.warnings(), IsEmpty());
}

TEST_F(ImageCacheTest, DamageThatIsFoundInUseMakesItAnewOnce) {
  make();
  ImageCache cache(path);
  EXPECT_TRUE(has(cache, 1));
  // The damage is in the same file, because another file at this path is another case. SQLite reads
  // the file again after another process has written.
  const auto bytes = static_cast<std::streamoff>(fs::file_size(path));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4096 * 2);
  file << std::string(static_cast<std::size_t>(bytes - 4096 * 2), '\x55') << std::flush;
  change(path, "PRAGMA user_version = " + std::to_string(kSchema));
  for (int tile = 1; tile <= 40; ++tile) has(cache, tile);
  EXPECT_EQ(cache.put(image(7)), "");
  EXPECT_TRUE(has(cache, 7));
  EXPECT_THAT(cache.warnings(), Contains(HasSubstr("made anew")));
}

TEST_F(ImageCacheTest, ADamagedImageIsNotReturnedAndIsReplaced) {
  make();
  change(path, "UPDATE images SET registers = 1 WHERE id = 3");
  ImageCache cache(path);
  EXPECT_FALSE(has(cache, 3));
  EXPECT_TRUE(has(cache, 4));
  EXPECT_THAT(cache.warnings(), ElementsAre(HasSubstr("is damaged")));
  EXPECT_EQ(cache.put(image(3)), "");
  EXPECT_TRUE(has(cache, 3));
}

TEST_F(ImageCacheTest, ADamagedFileIsLeftAloneByWhomMayOnlyRead) {
  write_file(path, std::string(10'000, 'x'));
  ImageCache cache(path, OpenMode::read_only);
  EXPECT_FALSE(has(cache, 1));
  EXPECT_THAT(cache.warnings(), ElementsAre(HasSubstr("is not used")));
  EXPECT_EQ(read_file(path), std::string(10'000, 'x'));
}

// Files of other users ----------------------------------------------------------------------------

TEST_F(ImageCacheTest, WhatIsNoDatabaseIsDoneWithoutAndNotTouched) {
  for (const std::string& bytes : {std::string("my notes"), std::string(10'000, 'x')}) {
    write_file(path, bytes);
    ImageCache cache(path);
    EXPECT_FALSE(has(cache, 1));
    EXPECT_THAT(cache.put(image(1)), HasSubstr("not used"));
    EXPECT_THAT(cache.warnings(),
                ElementsAre(AllOf(HasSubstr("not used"), HasSubstr("not made anew"),
                                  HasSubstr("no SQLite database"), HasSubstr(path.string()))));
    EXPECT_FALSE(cache.discard());
    EXPECT_EQ(read_file(path), bytes);
  }
}

TEST_F(ImageCacheTest, AnotherProgramsDatabaseIsDoneWithoutAndNotTouched) {
  change(path, "CREATE TABLE cookies (name TEXT); INSERT INTO cookies VALUES ('a')");
  const std::string before = read_file(path);
  ImageCache cache(path);
  EXPECT_FALSE(has(cache, 1));
  EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::none);
  cache.put(image(1));
  EXPECT_FALSE(has(cache, 1));
  EXPECT_THAT(cache.warnings(),
              ElementsAre(AllOf(HasSubstr("not used"), HasSubstr("another program"))));
  EXPECT_EQ(read_file(path), before);
}

TEST_F(ImageCacheTest, ANewerVersionsIsDoneWithoutAndNotTouched) {
  make();
  change(path, "PRAGMA user_version = 99");
  const std::string before = read_file(path);
  ImageCache cache(path);
  EXPECT_FALSE(has(cache, 1));
  EXPECT_THAT(cache.warnings(), ElementsAre(AllOf(HasSubstr("not used"), HasSubstr("newer"))));
  EXPECT_EQ(read_file(path), before);
}

TEST_F(ImageCacheTest, OneThatIsNotTrustedIsDoneWithoutAndNotTouched) {
  make();
  chmod(path.c_str(), 0666);
  const std::string before = read_file(path);
  {
    ImageCache cache(path, OpenMode::read_write, Trust::owner);
    EXPECT_FALSE(has(cache, 1));
    EXPECT_THAT(cache.put(image(50)), HasSubstr("not used"));
    EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::none);
    EXPECT_FALSE(cache.counts());
    EXPECT_FALSE(cache.discard());
    EXPECT_THAT(cache.warnings(),
                ElementsAre(AllOf(HasSubstr("the image cache is not used"),
                                  HasSubstr("every user may write"), HasSubstr("--trust-files"))));
  }
  EXPECT_EQ(read_file(path), before);
  ImageCache trusting(path, OpenMode::read_write, Trust::anyone);
  EXPECT_TRUE(has(trusting, 1));
}

TEST_F(ImageCacheTest, APipeOrAFolderIsDoneWithout) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  fs::create_directory(folder / "folder.db");
  for (const fs::path& name : {path, folder / "folder.db"}) {
    ImageCache cache(name);
    EXPECT_FALSE(has(cache, 1));
    EXPECT_THAT(cache.warnings(), ElementsAre(HasSubstr("is not used")));
    EXPECT_TRUE(fs::exists(name));
  }
}

TEST_F(ImageCacheTest, WithoutAPlaceItIsDoneWithout) {
  write_file(folder / "file", "x");
  ImageCache cache(folder / "file" / "images.db");
  EXPECT_FALSE(has(cache, 1));
  EXPECT_THAT(cache.warnings(), ElementsAre(HasSubstr("is not used")));
}

// Read-only ---------------------------------------------------------------------------------------

TEST_F(ImageCacheTest, ForReadingIsNotMadeAndNotWritten) {
  {
    ImageCache absent(path, OpenMode::read_only);
    EXPECT_FALSE(has(absent, 1));
    EXPECT_THAT(absent.warnings(), IsEmpty());
    EXPECT_FALSE(fs::exists(path));
  }
  make();
  ImageCache cache(path, OpenMode::read_only);
  EXPECT_TRUE(has(cache, 1));
  EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::none);
  EXPECT_THAT(cache.put(image(50)), HasSubstr("can only be read"));
  EXPECT_TRUE(has(cache, 2)) << "it goes on reading";
  EXPECT_FALSE(cache.discard());
  EXPECT_TRUE(fs::exists(path));
  ImageCache next(path, OpenMode::read_only);
  EXPECT_FALSE(has(next, 50));
  EXPECT_TRUE(has(next, 1));
}

// Bounds ------------------------------------------------------------------------------------------

TEST_F(ImageCacheTest, TheOldestImagesMakeRoom) {
  constexpr std::int64_t kMost = 600'000;
  ImageCache cache(path, OpenMode::read_write, Trust::owner, kMost);
  for (int tile = 1; tile <= 100; ++tile) {
    ASSERT_EQ(cache.put(image(tile, 20'000)), "");
    ASSERT_TRUE(has(cache, tile)) << "the newest stays";
  }
  EXPECT_FALSE(has(cache, 1));
  EXPECT_FALSE(has(cache, 50));
  EXPECT_TRUE(has(cache, 95));
  EXPECT_GT(cache.counts()->images, 15);
  EXPECT_LE(Database::open(path, OpenMode::read_only).bytes_in_use(), kMost);
  EXPECT_LT(fs::file_size(path), 2 * kMost) << "freed pages are used again";
}

TEST_F(ImageCacheTest, AnImageLargerThanTheBoundStaysUntilTheNext) {
  ImageCache cache(path, OpenMode::read_write, Trust::owner, 200'000);
  for (const int tile : {1, 2, 3}) {
    EXPECT_EQ(cache.put(image(tile, 300'000)), "");
    EXPECT_TRUE(has(cache, tile)) << "else the next process compiles it again";
    EXPECT_EQ(cache.counts()->images, 1);
  }
}

// Deleted files -----------------------------------------------------------------------------------

TEST_F(ImageCacheTest, DiscardRemovesTheFileAndKeepsNothing) {
  make();
  ImageCache cache(path);
  EXPECT_TRUE(cache.discard());
  EXPECT_TRUE(fs::is_empty(folder.path())) << "with SQLite's files";
  EXPECT_FALSE(has(cache, 1));
  EXPECT_THAT(cache.put(image(1)), HasSubstr("not used"));
  EXPECT_FALSE(has(cache, 1));
  EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::none);
  EXPECT_TRUE(fs::is_empty(folder.path())) << "the room that was made stays";
  EXPECT_FALSE(cache.discard());
  ImageCache next(path);
  EXPECT_EQ(next.put(image(1)), "");
}

TEST_F(ImageCacheTest, DiscardFreesWhatALinkLeadsTo) {
  make();
  const fs::path link = folder / "link.db";
  fs::create_symlink(path, link);
  ImageCache cache(link);
  EXPECT_TRUE(cache.discard());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_symlink(link)) << "the user's choice of the place stays";
  ImageCache next(link);
  EXPECT_EQ(next.put(image(1)), "");
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(ImageCacheTest, AFileThatWasDeletedMeanwhileIsMadeAnew) {
  make();
  ImageCache cache(path);
  EXPECT_TRUE(has(cache, 1));
  fs::remove(path);
  EXPECT_EQ(cache.put(image(50)), "");
  EXPECT_TRUE(has(cache, 50));
  EXPECT_TRUE(fs::exists(path));
  ImageCache next(path);
  EXPECT_TRUE(has(next, 50)) << "others find it";
  EXPECT_FALSE(has(next, 1));
}

TEST_F(ImageCacheTest, AnotherWorkingFolderDoesNotMatter) {
  EXPECT_EQ(in_child([&] {
              fs::create_directory(folder / "elsewhere");
              fs::current_path(folder.path());
              ImageCache cache("images.db");
              fs::current_path(folder / "elsewhere");
              fs::remove(path);
              EXPECT_EQ(cache.put(image(1)), "");
              EXPECT_TRUE(fs::exists(path));
              EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
              return HasFailure() ? 1 : 0;
            }),
            0);
}

TEST_F(ImageCacheTest, IsSharedByProcesses) {
  ImageCache cache(path);
  EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::held);
  EXPECT_EQ(in_child([&] {
              ImageCache other(path);
              EXPECT_EQ(other.claim(kernel(1), kTarget), ImageCache::Claim::of_another);
              EXPECT_EQ(other.put(image(2)), "");
              return HasFailure() ? 1 : 0;
            }),
            0);
  EXPECT_TRUE(has(cache, 2));
  cache.release_claim(kernel(1), kTarget);
  EXPECT_EQ(in_child([&] {
              ImageCache other(path);
              return other.claim(kernel(1), kTarget) == ImageCache::Claim::held ? 0 : 1;
            }),
            0);
  EXPECT_EQ(cache.claim(kernel(1), kTarget), ImageCache::Claim::held) << "that process is gone";
}

TEST_F(ImageCacheTest, OfManyProcessesADamagedFileIsMadeAnew) {
  make();
  write_file(path, read_file(path).substr(0, 100) + std::string(20'000, 'x'));
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child)
    children.push_back(start([&, child] {
      alarm(30);
      ImageCache cache(path);
      for (int tile = 0; tile < 5; ++tile) {
        cache.put(image(1 + child * 10 + tile));
        cache.image(kernel(1 + (child + 1) % 6 * 10 + tile), kTarget, "simt.1 plan.1");
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  ImageCache cache(path);
  EXPECT_EQ(cache.put(image(100)), "");
  EXPECT_TRUE(has(cache, 100));
  EXPECT_THAT(cache.warnings(), IsEmpty());
  EXPECT_THAT(Database::open(path, OpenMode::read_only).check(), IsEmpty());
}

}  // namespace
}  // namespace tilewise::image_cache_test
