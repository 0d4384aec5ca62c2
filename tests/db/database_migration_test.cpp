// Files of earlier schema versions, opened by this version.
#include <sys/stat.h>

#include "damage.hpp"
#include "db/schema.hpp"
#include "db/tables.hpp"
#include "file_systems.hpp"

namespace tilewise::database_migration_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// A database of autotune 0.1 for nn 1024: two records (one rejected), a winner, a baseline, a
// search, an image and a killed process's claim.
constexpr const char* kRowsOfVersion1 = R"sql(
INSERT INTO problems VALUES (1, 'nn', 1024, 1024, 1024, 'f32', 'f32', 'f32', 'f32', 'strict', 1, 16, 16, 16);
INSERT INTO environments VALUES (1, '580.159', 'NVRTC 13.0', 'host é');
INSERT INTO records VALUES (1, 1, 'NVIDIA H200|9.0|132', 'simt', '{"TILE_K":8,"TILE_M":64,"UNROLL":-1}',
  'abc123', 'simt.1 plan.1', 'ok', '', 3, 12.5, 0.01, 20, '[12.5,0.3333333333333333,1e-300]', 0, 'graph',
  1980.5, 612.25, 3.125, 168, 16, 1024, 32, 312.5, 0.25, 1e-07, 11.0, 1, '2025-06-01T12:00:00Z');
INSERT INTO records VALUES (2, 1, 'NVIDIA H200|9.0|132', 'simt', '{"TILE_K":8,"TILE_M":128,"UNROLL":-1}',
  'abc123', 'simt.1 plan.1', 'wrong_result', 'C[1][2] = nan', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, 168, 16, 1024, 32, 312.5, NULL, NULL, 11.0, 1, '2025-06-01T12:00:00Z');
INSERT INTO winners VALUES (1, 'NVIDIA H200|9.0|132', 1, '2025-06-01T12:30:00Z', '');
INSERT INTO baselines VALUES (1, 'NVIDIA H200|9.0|132', 'cuBLAS', '13.1.0', 'default', 3, 10, 0.01, 20,
  '[10.0,0.3333333333333333,1e-300]', 0, 'graph', 1980.5, 612.25, 3.125, 1, '2025-06-01T12:00:00Z');
INSERT INTO images VALUES (1, 'simt.cu:simt TILE_K=8 TILE_M=64 UNROLL=-1', 'sm_90a', 'simt.1 plan.1', 'abc123',
  168, 16, 1024, 32, 312.5, '', x'010203');
INSERT INTO record_images VALUES (1, 1);
INSERT INTO claims VALUES ('simt.cu:simt TILE_K=8 TILE_M=64 UNROLL=-1', 'sm_90a', '123-456', 1764000000.5);
INSERT INTO searches VALUES (1, 1, 'NVIDIA H200|9.0|132', 'local', -16, 'space-hash', 60.5, 1000, 0, 77, 12.25,
  '2025-06-01T12:00:00Z');
)sql";

void write_version_1(const fs::path& path, const char* more = "") {
  const Connection connection(path, Connection::Access::write);
  migrate(connection, migrations().first(1));
  connection.execute(kRowsOfVersion1);
  connection.execute(more);
}

void expect_migrated(const Database& db) {
  EXPECT_THAT(db.check(), IsEmpty());
  Record expected = record();
  expected.id = 1;
  EXPECT_EQ(db.record(1), expected);
  ASSERT_TRUE(db.record(2));
  EXPECT_EQ(db.record(2)->outcome, Outcome::wrong_result);
  EXPECT_EQ(db.record(2)->origin, Origin::measured);
  EXPECT_EQ(db.record(2)->code_hash, "");
  const auto winner = db.winner(problem(), kGpu);
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->record, expected);
  EXPECT_EQ(winner->since, "2025-06-01T12:30:00Z");
  EXPECT_EQ(db.baselines(), std::vector{baseline()});
  const auto searches = db.searches(problem(), kGpu);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches.front().seed, search().seed);
  EXPECT_EQ(searches.front().space, "space-hash");
  EXPECT_EQ(searches.front().sources, "") << "of unknown sources: it is made again";
  EXPECT_FALSE(db.image(kernel(), {9, 0, true}, "simt.1 plan.1")) << "no hash tells if it is whole";
  EXPECT_EQ(db.counts().images, 0);
  EXPECT_THAT(db.warnings(), IsEmpty());
}

TEST(Version1, IsMigratedWhereItIsWritten) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_1(path);
  Database db = Database::open(path);
  expect_migrated(db);
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), latest_version());
  EXPECT_EQ(number_in(path, "SELECT count(*) FROM record_images"), 0);
  EXPECT_TRUE(db.claim_image(kernel(), {9, 0, true})) << "claims of before are gone";
  db.put_image(image(), 1);
  EXPECT_EQ(db.image(kernel(), {9, 0, true}, "simt.1 plan.1"), image());
  db.set_winner(db.add(record(32, 10)));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.candidate, record(32).candidate);
}

TEST(Version1, IsMigratedWhereItIsOnlyReadButMayBeWritten) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_1(path);
  const Database db = Database::open(path, OpenMode::read_only);
  EXPECT_TRUE(db.read_only());
  expect_migrated(db);
}

TEST(Version1, RowsOfNamesThatAreNotKnownStay) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_1(path, "UPDATE records SET outcome = 'melted' WHERE id = 2");
  const Database db = Database::open(path);
  EXPECT_EQ(db.counts().records, 2);
  EXPECT_EQ(db.records({}).size(), 1u);
  EXPECT_THAT(db.warnings(), testing::ElementsAre(HasSubstr("melted")));
  EXPECT_TRUE(db.winner(problem(), kGpu));
}

TEST(Version1, OfManyProcessesAtOnceIsMigratedOnce) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_1(path);
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const OpenMode mode = child % 2 == 0 ? OpenMode::read_write : OpenMode::read_only;
    children.push_back(start([&path, mode] {
      const Database db = Database::open(path, mode);
      return db.records({}).size() == 2 && db.winners().size() == 1 ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  expect_migrated(Database::open(path));
}

TEST(Version1, OnReadOnlyMediaIsRefusedWithWhatToDo) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const int status = in_child([&] {
    if (!mount_private(folder.path(), "size=4m")) return kNotPermitted;
    write_version_1(path);
    if (!remount_read_only(folder.path())) return kNotPermitted;
    const std::string said =
        error_of(ErrorKind::database, [&] { Database::open(path, OpenMode::read_only); });
    EXPECT_THAT(said, AllOf(HasSubstr(path.string()), HasSubstr("older Tilewise"),
                            HasSubstr("schema version 1, now " + std::to_string(latest_version())),
                            HasSubstr("open it once where it can be written")));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

TEST(Version1, ThatItsReaderMayNotWriteIsRefusedWithWhatToDo) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_1(path);
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0555);
  const int status = as_user(12345, [&] {
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path, OpenMode::read_only); }),
                HasSubstr("open it once where it can be written"));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  chmod(folder.path().c_str(), 0755);
  if (status == kNotPermitted) GTEST_SKIP() << "root cannot become another user here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), 1) << "it was not touched";
}

Record with_old_names() {
  Record r = record();
  r.candidate = {"simt", {{"BAKE", 1}, {"RASTER", 8}, {"TAIL", 0}, {"TILE_M", 64}}};
  return r;
}

Image image_with_old_names() {
  Image i = image();
  i.kernel.defines = {{"BAKE", 1}, {"BAKED_M", 1024}, {"BAKED_RASTER", 8}, {"TAIL", 0}};
  return i;
}

/// Returns the ids of a winner and of a record with a flipped byte.
std::pair<std::int64_t, std::int64_t> write_version_2(const fs::path& path) {
  const Connection connection(path, Connection::Access::write);
  migrate(connection, migrations().first(2));
  const std::int64_t winner = put_record(connection, with_old_names());
  put_winner(connection, winner, "2025-06-01T12:30:00Z", "");
  link_image(connection, winner, put_image_row(connection, image_with_old_names()));
  Record other = with_old_names();
  other.candidate.configuration.set("TILE_M", 128);
  const std::int64_t damaged = put_record(connection, other);
  connection.query("UPDATE records SET median_us = 1 WHERE id = ?").bind(damaged).run();
  return {winner, damaged};
}

TEST(Version2, ParametersAndConstantsOfKernelsGetTheirNewNames) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const std::int64_t id = write_version_2(path).first;
  const Database db = Database::open(path);
  const Candidate now{"simt",
                      {{"GROUP_M", 8}, {"SPECIALIZE_SIZE", 1}, {"STREAM_K", 0}, {"TILE_M", 64}}};
  ASSERT_TRUE(db.record(id));
  EXPECT_EQ(db.record(id)->candidate, now);
  ASSERT_TRUE(db.winner(problem(), kGpu));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.candidate, now);
  EXPECT_EQ(db.winner(problem(), kGpu)->since, "2025-06-01T12:30:00Z");
  Image served = image_with_old_names();
  served.kernel.defines = {
      {"SIZE_M", 1024}, {"SPECIALIZE_SIZE", 1}, {"STREAM_K", 0}, {"TILE_ROWS_TOGETHER", 8}};
  EXPECT_EQ(db.image(served.kernel, served.target, served.launch_revision), served);
}

/// The tables and rows of version 5, by this version's statements.
void write_version_5(const fs::path& path) {
  {
    Database db = Database::open(path);
    db.set_winner(db.add(record()));
    db.add(rejected(128, Outcome::launch_error, "too many resources"));
    db.add(baseline());
    db.add(search());
  }
  change(path,
         "ALTER TABLE records DROP COLUMN energy_mj; ALTER TABLE records DROP COLUMN power_limit_w;"
         "ALTER TABLE baselines DROP COLUMN energy_mj; "
         "ALTER TABLE baselines DROP COLUMN power_limit_w;"
         "ALTER TABLE winners DROP COLUMN objective; ALTER TABLE searches DROP COLUMN objective; "
         "DROP TABLE devices; PRAGMA user_version = 5");
}

TEST(Version5, HasNoEnergyAndWinnersByTime) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_5(path);
  Database db = Database::open(path);
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), latest_version());
  EXPECT_THAT(db.check(), IsEmpty()) << "its hashes stay";
  EXPECT_THAT(db.warnings(), IsEmpty());
  ASSERT_TRUE(db.winner(problem(), kGpu));
  EXPECT_EQ(db.winner(problem(), kGpu)->objective, Objective::time);
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement, measurement());
  EXPECT_FALSE(db.record(2)->measurement);
  EXPECT_EQ(db.baselines(), std::vector{baseline()});
  EXPECT_EQ(db.searches(problem(), kGpu).at(0).objective, Objective::time);
  Record measured = record();
  measured.measurement->energy_mj = 2.5;
  measured.id = db.add(measured);
  EXPECT_EQ(db.record(measured.id), measured);
}

TEST(Version5, ADamagedRowIsNoSounderAfterIt) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  write_version_5(path);
  change(path, "UPDATE records SET median_us = 1 WHERE id = 1");
  EXPECT_THAT(Database::open(path).check(), testing::ElementsAre(HasSubstr("record 1")));
}

TEST(Version6, HasNoFactsOfDevices) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  {
    Database db = Database::open(path);
    db.set_winner(db.add(record()));
  }
  change(path, "DROP TABLE devices; PRAGMA user_version = 6");
  Database db = Database::open(path);
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), latest_version());
  EXPECT_THAT(db.check(), IsEmpty());
  EXPECT_TRUE(db.winner(problem(), kGpu));
  EXPECT_FALSE(db.device(kGpu));
  DeviceFacts facts;
  facts.gpu = kGpu, facts.clock_khz = 1'980'000;
  db.put(facts);
  EXPECT_EQ(db.device(kGpu), facts);
}

TEST(Version2, ADamagedRowIsNoSounderAfterTheRenaming) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const std::int64_t damaged = write_version_2(path).second;
  const Database db = Database::open(path);
  EXPECT_THAT(db.check(), testing::ElementsAre(HasSubstr("record " + std::to_string(damaged))));
}

TEST(Version2, AnImportTranslatesItsNames) {
  const TemporaryFolder folder;
  std::string exported;
  {
    Database db = Database::open(folder / "old.db");
    const std::int64_t id = db.add(with_old_names());
    db.set_winner(id);
    db.put_image(image_with_old_names(), id);
    exported = db.export_json("", true);
  }
  ASSERT_THAT(exported, HasSubstr("BAKED_M"));
  Database db = Database::open(folder / "new.db");
  db.import_json(exported, true);
  ASSERT_TRUE(db.winner(problem(), kGpu));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.candidate.configuration.at("SPECIALIZE_SIZE"), 1);
  Image served = image_with_old_names();
  served.kernel.defines = {
      {"SIZE_M", 1024}, {"SPECIALIZE_SIZE", 1}, {"STREAM_K", 0}, {"TILE_ROWS_TOGETHER", 8}};
  EXPECT_EQ(db.image(served.kernel, served.target, served.launch_revision), served);
}

}  // namespace
}  // namespace tilewise::database_migration_test
