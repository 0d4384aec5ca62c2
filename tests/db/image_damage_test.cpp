// Images changed after they were stored are never returned, but set aside and replaced by the next
// put_image().
#include <map>

#include "damage.hpp"

namespace tilewise::image_damage_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::string_literals;
namespace fs = std::filesystem;

std::optional<Image> get(const Database& db, int tile) {
  const Image like = image(tile);
  return db.image(like.kernel, like.target, like.launch_revision);
}

/// A database with intact images of the tiles 64, 128 and 256, each with another binary.
class ImageDamageTest : public testing::Test {
 protected:
  ImageDamageTest() {
    Database db = Database::open(path);
    for (const int tile : {64, 128, 256}) db.put_image(made(tile));
  }
  static Image made(int tile) {
    Image whole = image(tile);
    whole.binary.push_back(static_cast<std::uint8_t>(tile));
    whole.log += std::to_string(tile);
    return whole;
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "x.db";
};

TEST_F(ImageDamageTest, EachColumnCounts) {
  const std::string whole = read_file(path);
  for (const char* set :
       {"binary = cast(replace(binary, x'07', x'06') AS BLOB)", "binary = zeroblob(0)",
        "binary = zeroblob(301)", "launch_revision = 'simt.2 plan.1'",
        "kernel = 'simt.cu:simt TILE_K=8 TILE_M=65 UNROLL=-1'",
        "kernel = 'simt.cu:other TILE_K=8 TILE_M=64 UNROLL=-1'", "target = 'sm_90'",
        "source_hash = 'abc124'", "registers = 169", "spill_bytes = 0", "stack_bytes = 0",
        "static_shared_bytes = 0", "compile_ms = NULL", "log = ''", "hash = ''",
        "hash = upper(hash)"}) {
    SCOPED_TRACE(set);
    write_file(path, whole);
    change(path, "UPDATE images SET "s + set + " WHERE id = 1");
    const Database db = Database::open(path);
    EXPECT_THAT(db.check(), ElementsAre(HasSubstr("the image of simt.cu:")));
    EXPECT_FALSE(get(db, 64));
    const auto others = [&](const Image& other) {
      return db.image(other.kernel, other.target, other.launch_revision);
    };
    for (const Image& listed : db.images()) {
      if (listed.kernel == kernel(128) || listed.kernel == kernel(256)) continue;
      EXPECT_FALSE(others(listed)) << "by the key that it has now";
    }
    EXPECT_EQ(get(db, 128), made(128));
    EXPECT_EQ(get(db, 256), made(256));
    EXPECT_EQ(db.counts().images, 3) << "it stays, set aside";
  }
}

TEST_F(ImageDamageTest, IsSaidOnceAndSetAside) {
  change(path, "UPDATE images SET registers = 1 WHERE id = 1");
  const Database db = Database::open(path);
  EXPECT_THAT(db.images(), SizeIs(3)) << "nothing is known of it yet";
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(get(db, 64));
  EXPECT_THAT(db.warnings(), ElementsAre(AllOf(HasSubstr("x.db"), HasSubstr(to_string(kernel(64))),
                                               HasSubstr("sm_90a"), HasSubstr("is damaged"),
                                               HasSubstr("not loaded"))));
  EXPECT_EQ(number_in(path, "SELECT count(*) FROM images WHERE refused != ''"), 1);
  EXPECT_THAT(db.images(), SizeIs(2));
  EXPECT_THAT(db.check(), ElementsAre(HasSubstr("is set aside")));
  const Database next = Database::open(path, OpenMode::read_only);
  EXPECT_FALSE(get(next, 64));
  EXPECT_THAT(next.warnings(), IsEmpty()) << "the next process meets no damage";
}

TEST_F(ImageDamageTest, IsFoundAgainByWhomMayNotWrite) {
  change(path, "UPDATE images SET registers = 1 WHERE id = 1");
  for (int i = 0; i < 2; ++i) {
    const Database db = Database::open(path, OpenMode::read_only);
    EXPECT_FALSE(get(db, 64));
    EXPECT_EQ(get(db, 128), made(128));
    EXPECT_THAT(db.warnings(), ElementsAre(HasSubstr("is damaged")));
  }
  EXPECT_EQ(number_in(path, "SELECT count(*) FROM images WHERE refused != ''"), 0);
}

TEST_F(ImageDamageTest, PuttingItAgainReplacesIt) {
  change(path, "UPDATE images SET binary = zeroblob(3) WHERE id = 1");
  Database db = Database::open(path);
  EXPECT_FALSE(get(db, 64));
  db.put_image(made(64));
  EXPECT_EQ(get(db, 64), made(64));
  EXPECT_THAT(db.check(), IsEmpty());
  EXPECT_EQ(db.counts().images, 3);
}

TEST_F(ImageDamageTest, SetAsideIsNeitherExportedNorTakenForPresent) {
  change(path, "UPDATE images SET binary = zeroblob(3) WHERE id = 1");
  Database db = Database::open(path);
  std::int64_t left_out = 0;
  EXPECT_EQ(db.stored_images(&left_out).size(), 2u) << "not set aside yet";
  EXPECT_EQ(left_out, 1);
  EXPECT_FALSE(get(db, 64));
  EXPECT_EQ(db.stored_images().size(), 2u);
  Database whole = Database::in_memory();
  whole.put_image(made(64));
  db.import_json(whole.export_json(), whole.stored_images());
  EXPECT_EQ(get(db, 64), made(64)) << "an import replaces what is set aside";
}

TEST_F(ImageDamageTest, TwoThatChangePlacesAreNeverReturned) {
  const std::map<std::string, std::string> swaps{
      {"binaries",
       "CREATE TEMP TABLE old AS SELECT * FROM images; UPDATE images SET binary = "
       "(SELECT binary FROM old WHERE old.id = 3 - images.id) WHERE id < 3"},
      {"binaries with their hashes",
       "CREATE TEMP TABLE old AS SELECT * FROM images; UPDATE images SET (binary, hash) = "
       "(SELECT binary, hash FROM old WHERE old.id = 3 - images.id) WHERE id < 3"},
      {"keys",
       "UPDATE images SET kernel = 'x:y' WHERE id = 1;"
       "UPDATE images SET kernel = 'simt.cu:simt TILE_K=8 TILE_M=64 UNROLL=-1' WHERE id = 2;"
       "UPDATE images SET kernel = 'simt.cu:simt TILE_K=8 TILE_M=128 UNROLL=-1' WHERE id = 1"}};
  const std::string whole = read_file(path);
  for (const auto& [what, sql] : swaps) {
    SCOPED_TRACE(what);
    write_file(path, whole);
    change(path, sql);
    const Database db = Database::open(path);
    EXPECT_EQ(db.check().size(), 2u);
    EXPECT_FALSE(get(db, 64));
    EXPECT_FALSE(get(db, 128));
    EXPECT_EQ(get(db, 256), made(256));
    EXPECT_EQ(db.warnings().size(), 2u);
  }
}

TEST_F(ImageDamageTest, AnyByteOfAPageCounts) {
  const std::string whole = read_file(path);
  const Image stored = made(64);
  const std::string binary(stored.binary.begin(), stored.binary.end());
  const std::size_t at = whole.find(binary);
  ASSERT_NE(at, std::string::npos);
  for (std::size_t byte = 0; byte < binary.size(); byte += 50) {
    std::string bytes = whole;
    bytes[at + byte] = static_cast<char>(bytes[at + byte] ^ 1);
    write_file(path, bytes);
    EXPECT_FALSE(get(Database::open(path), 64)) << byte;
    EXPECT_EQ(get(Database::open(path), 128), made(128)) << byte;
  }
}

// The index still finds the row under its former key.
TEST_F(ImageDamageTest, AKeyInThePagesOfTheTableIsMended) {
  const std::string whole = read_file(path);
  const std::pair<std::string, std::string> flips[] = {
      {"TILE_M=64 UNROLL=-1sm_90a", "TILE_M=65 UNROLL=-1sm_90a"},
      {"TILE_M=64 UNROLL=-1sm_90a", "TILE_M=64 UNROLL=-1sn_90a"}};
  for (const auto& [from, to] : flips) {
    SCOPED_TRACE(to);
    write_file(path, whole);
    ASSERT_EQ(change_pages(path, Page::table, from, to), 1);
    Database db = Database::open(path);
    EXPECT_FALSE(db.check().empty());
    EXPECT_FALSE(get(db, 65));
    db.put_image(made(64));
    EXPECT_EQ(get(db, 64), made(64));
    EXPECT_THAT(db.check(), IsEmpty());
  }
}

TEST_F(ImageDamageTest, AKeyInThePagesOfTheIndexLeadsToNoOther) {
  ASSERT_EQ(change_pages(path, Page::index, "TILE_M=64", "TILE_M=32"), 1);
  Database db = Database::open(path);
  EXPECT_FALSE(get(db, 32)) << "the index says that it is this one";
  EXPECT_FALSE(get(db, 64));
  db.put_image(made(64));
  EXPECT_EQ(get(db, 64), made(64));
}

// Keys of a damaged index entry cannot be deleted through that index.
TEST_F(ImageDamageTest, DamagedIndexesAreNoObstacleToUpkeep) {
  const std::string whole = read_file(path);
  for (const Page kind : {Page::table, Page::index}) {
    write_file(path, whole);
    ASSERT_EQ(change_pages(path, kind, "TILE_M=64", "TILE_M=65"), 1);
    Database db = Database::open(path);
    EXPECT_EQ(db.prune().not_done, "");
    EXPECT_EQ(db.counts().images, 0);
    db.put_image(made(64));
    db.put_image(made(65));
    EXPECT_EQ(get(db, 64), made(64));
    EXPECT_THAT(db.check(), IsEmpty());
  }
}

}  // namespace
}  // namespace tilewise::image_damage_test
