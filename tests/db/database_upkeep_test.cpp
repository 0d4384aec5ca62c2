// The rows that remove() and prune() delete, and the rows that stay.
#include "samples.hpp"

namespace tilewise::database_upkeep_test {
namespace {

using namespace samples;

bool has(const Database& db, const Image& i) {
  return db.image(i.kernel, i.target, i.launch_revision).has_value();
}

/// Adds records with TILE_M = 1 .. count and returns their ids. Times grow with TILE_M.
std::vector<std::int64_t> add_records(Database& db, int count) {
  std::vector<std::int64_t> ids;
  for (int tile = 1; tile <= count; ++tile) ids.push_back(db.add(record(tile, 10.0 * tile)));
  return ids;
}

TEST(Counts, Count) {
  Database db = Database::in_memory();
  EXPECT_EQ(db.counts().records, 0);
  db.set_winner(add_records(db, 3).front());
  db.add(baseline());
  db.add(search());
  db.add(search());
  db.put_image(image());
  const DatabaseCounts counts = db.counts();
  EXPECT_EQ(counts.records, 3);
  EXPECT_EQ(counts.winners, 1);
  EXPECT_EQ(counts.baselines, 1);
  EXPECT_EQ(counts.images, 1);
  EXPECT_EQ(counts.searches, 2);
  EXPECT_GE(counts.bytes, 4096);
}

TEST(Prune, KeepsImagesOfTheWinnerAndEightFinalists) {
  Database db = Database::in_memory();
  const auto ids = add_records(db, 12);
  for (int tile = 1; tile <= 12; ++tile) db.put_image(image(tile), ids[tile - 1]);
  db.add(rejected(13, Outcome::wrong_result, "fast but wrong"));
  db.set_winner(ids[11]);  // the slowest: a winner stays whatever its time
  db.prune();
  for (int tile = 1; tile <= 8; ++tile) EXPECT_TRUE(has(db, image(tile))) << tile;
  for (int tile = 9; tile <= 11; ++tile) EXPECT_FALSE(has(db, image(tile))) << tile;
  EXPECT_TRUE(has(db, image(12)));
  EXPECT_EQ(db.counts().records, 13) << "no source hashes were given: every record stays";
}

TEST(Prune, CountsFinalistsPerProblemAndGpu) {
  Database db = Database::in_memory();
  add_records(db, 8);
  Record other_gpu = record(20, 500), other_size = record(21, 600, 512);
  other_gpu.gpu = "other|8.0|108";
  db.put_image(image(20), db.add(other_gpu));
  db.put_image(image(21), db.add(other_size));
  db.put_image(image(22), db.add(record(22, 700)));
  db.prune();
  EXPECT_TRUE(has(db, image(20)));
  EXPECT_TRUE(has(db, image(21)));
  EXPECT_FALSE(has(db, image(22))) << "ninth of its problem and GPU";
}

TEST(Prune, KeepsAnImageThatSeveralRecordsShare) {
  Database db = Database::in_memory();
  const auto ids = add_records(db, 12);
  const Image pack = image(1000);
  for (const auto id : ids) db.put_image(pack, id);
  db.set_winner(ids[0]);
  db.prune();
  EXPECT_TRUE(has(db, pack));
}

TEST(Prune, KeepsImagesWithoutRecordsByLaunchRevision) {
  Database db = Database::in_memory();
  db.set_winner(db.add(record(1)));
  Image fits = image(1), old = image(2);
  old.launch_revision = "simt.0 plan.1";
  db.put_image(fits);
  db.put_image(old);
  db.prune();
  EXPECT_TRUE(has(db, fits)) << "the winner might need it: nothing says which images it has";
  EXPECT_FALSE(has(db, old));
  db.put_image(image(3), db.winners().front().record.id);
  db.prune();
  EXPECT_FALSE(has(db, fits)) << "now the winner names its image";
  EXPECT_TRUE(has(db, image(3)));
}

TEST(Prune, EmptiesACache) {
  Database db = Database::in_memory();
  db.put_image(image(1, 100'000));
  db.put_image(image(2, 100'000));
  EXPECT_GE(db.prune().freed_bytes, 190'000);
  EXPECT_EQ(db.counts().images, 0);
  EXPECT_EQ(db.prune().freed_bytes, 0);
}

TEST(Prune, DropsLosersOfOldSourcesButFinalists) {
  Database db = Database::in_memory();
  for (int tile = 1; tile <= 12; ++tile) {
    Record old = record(tile, 10 + tile);
    old.source_hash = "old";
    const auto id = db.add(old);
    if (tile == 12) db.set_winner(id);
  }
  db.add(record(99, 100));
  db.prune({"abc123", "another"});
  EXPECT_EQ(db.winners().size(), 1u) << "stale, but served";
  std::vector<int> left;
  for (const Record& each : db.records({}))
    left.push_back(each.candidate.configuration.at("TILE_M"));
  EXPECT_THAT(left, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 12, 99));
}

TEST(Prune, DropsStaleClaimsOnly) {
  Database db = Database::in_memory();
  EXPECT_TRUE(db.claim_image(kernel(), {9, 0, true}));
  db.prune();
  EXPECT_FALSE(db.claim_image(kernel(), {9, 0, true})) << "a fresh claim stays";
}

TEST(Prune, GivesTheFileBackItsSpace) {
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  for (int tile = 1; tile <= 20; ++tile) db.put_image(image(tile, 50'000));
  const auto freed = db.prune().freed_bytes;
  EXPECT_GE(freed, 20 * 50'000);
  EXPECT_LT(std::filesystem::file_size(folder / "x.db"), 200'000u);
  EXPECT_EQ(std::filesystem::file_size(folder / "x.db"),
            static_cast<std::uintmax_t>(db.counts().bytes));
}

TEST(Remove, TakesWhatGoesWithRecords) {
  Database db = Database::in_memory();
  const auto ids = add_records(db, 3);
  db.set_winner(ids[0]);
  db.put_image(image(1), ids[0]);
  db.add(search());
  db.add(baseline());
  Record other = record(1, 10, 512);
  const auto other_id = db.add(other);
  db.put_image(image(1), other_id);
  db.put_image(image(2), ids[1]);
  EXPECT_EQ(db.remove({.problem = problem()}), 3);
  const DatabaseCounts counts = db.counts();
  EXPECT_EQ(counts.records, 1);
  EXPECT_EQ(counts.winners, 0);
  EXPECT_EQ(counts.searches, 0);
  EXPECT_EQ(counts.baselines, 0);
  EXPECT_TRUE(has(db, image(1))) << "the other record uses it";
  EXPECT_FALSE(has(db, image(2)));
}

TEST(Remove, LeavesBaselinesOfProblemsWithRecords) {
  Database db = Database::in_memory();
  add_records(db, 2);
  db.add(rejected(9, Outcome::timeout, ""));
  db.add(baseline());
  EXPECT_EQ(db.remove({.outcome = Outcome::timeout}), 1);
  EXPECT_EQ(db.counts().baselines, 1);
}

TEST(Remove, TakesUnnamedImagesWithTheirLastRevision) {
  Database db = Database::in_memory();
  Record tiled = record(5);
  tiled.candidate.kernel_template = "tiled";
  tiled.launch_revision = "tiled.1 plan.1";
  db.add(tiled);
  db.add(record(6));
  Image of_tiled = image(5);
  of_tiled.launch_revision = "tiled.1 plan.1";
  db.put_image(of_tiled);
  db.put_image(image(6));
  EXPECT_EQ(db.remove({.kernel_template = "tiled"}), 1);
  EXPECT_FALSE(has(db, of_tiled));
  EXPECT_TRUE(has(db, image(6)));
}

TEST(Remove, OfNothingAndOfEverything) {
  Database db = Database::in_memory();
  add_records(db, 4);
  EXPECT_EQ(db.remove({.gpu = "none"}), 0);
  EXPECT_EQ(db.remove({.problem = problem(77)}), 0);
  EXPECT_EQ(db.remove({.limit = 1}), 1) << "the newest";
  EXPECT_EQ(db.records({}).size(), 3u);
  EXPECT_EQ(db.remove({}), 3);
  EXPECT_EQ(db.counts().records, 0);
}

}  // namespace
}  // namespace tilewise::database_upkeep_test
