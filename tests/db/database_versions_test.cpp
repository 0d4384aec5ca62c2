// Files of earlier schema versions, opened by this version.
#include <sys/stat.h>

#include "damage.hpp"
#include "db/row_hash.hpp"
#include "db/schema.hpp"
#include "file_systems.hpp"

namespace tilewise::database_versions_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// The tables of version 7, as made by that version.
constexpr const char* kTablesOfVersion7 = R"sql(
CREATE TABLE problems (
  id INTEGER PRIMARY KEY,
  layout TEXT NOT NULL,
  m INTEGER NOT NULL,
  n INTEGER NOT NULL,
  k INTEGER NOT NULL,
  a_type TEXT NOT NULL,
  b_type TEXT NOT NULL,
  c_type TEXT NOT NULL,
  accumulator TEXT NOT NULL,
  math TEXT NOT NULL,
  batch INTEGER NOT NULL,
  align_a INTEGER NOT NULL,
  align_b INTEGER NOT NULL,
  align_c INTEGER NOT NULL,
 UNIQUE (m, n, k, layout, a_type, b_type, c_type, accumulator, math, batch,
          align_a, align_b, align_c)
) STRICT;
CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  host TEXT NOT NULL,
 UNIQUE (driver, compiler, host)
) STRICT;
CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu TEXT NOT NULL,
  kernel_template TEXT NOT NULL,
  configuration TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  launch_revision TEXT NOT NULL,
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL,
  samples INTEGER,
  median_us REAL,
  spread REAL,
  launches_per_sample INTEGER,
  samples_us TEXT,
  cold INTEGER,
  method TEXT,
  sm_clock_mhz REAL,
  power_w REAL,
  host_us REAL,
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  compile_ms REAL,
  error_ratio REAL,
  normwise_error REAL,
  predicted_us REAL,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  date TEXT NOT NULL,
  code_hash TEXT NOT NULL DEFAULT '',
  origin TEXT NOT NULL DEFAULT 'measured',
  hash TEXT NOT NULL DEFAULT '',
  energy_mj REAL DEFAULT 0,
  power_limit_w REAL DEFAULT 0,
 UNIQUE (problem_id, gpu, kernel_template, configuration, source_hash)
) STRICT;
CREATE TABLE winners (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu TEXT NOT NULL,
  record_id INTEGER NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE,
  since TEXT NOT NULL,
  quarantined TEXT NOT NULL DEFAULT '',
  hash TEXT NOT NULL DEFAULT '',
  objective TEXT NOT NULL DEFAULT 'time',
 PRIMARY KEY (problem_id, gpu)
) STRICT;
CREATE TABLE baselines (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu TEXT NOT NULL,
  library TEXT NOT NULL,
  version TEXT NOT NULL,
  variant TEXT NOT NULL,
  samples INTEGER NOT NULL,
  median_us REAL,
  spread REAL,
  launches_per_sample INTEGER NOT NULL,
  samples_us TEXT NOT NULL,
  cold INTEGER NOT NULL,
  method TEXT NOT NULL,
  sm_clock_mhz REAL,
  power_w REAL,
  host_us REAL,
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  date TEXT NOT NULL,
  hash TEXT NOT NULL DEFAULT '',
  energy_mj REAL DEFAULT 0,
  power_limit_w REAL DEFAULT 0,
 PRIMARY KEY (problem_id, gpu, library, version, variant)
) STRICT;
CREATE TABLE images (
  id INTEGER PRIMARY KEY,
  kernel TEXT NOT NULL,
  target TEXT NOT NULL,
  launch_revision TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  compile_ms REAL,
  log TEXT NOT NULL,
  binary BLOB NOT NULL,
  hash TEXT NOT NULL DEFAULT '',
  refused TEXT NOT NULL DEFAULT '',
 UNIQUE (kernel, target, launch_revision)
) STRICT;
CREATE TABLE record_images (
  record_id INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
  image_id INTEGER NOT NULL REFERENCES images (id) ON DELETE CASCADE,
 PRIMARY KEY (record_id, image_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_images_by_image ON record_images (image_id);
CREATE TABLE claims (
  kernel TEXT NOT NULL,
  target TEXT NOT NULL,
  holder TEXT NOT NULL,
  machine TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started INTEGER NOT NULL,
  since REAL NOT NULL,
 PRIMARY KEY (kernel, target)
) STRICT;
CREATE TABLE searches (
  id INTEGER PRIMARY KEY,
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu TEXT NOT NULL,
  strategy TEXT NOT NULL,
  seed INTEGER NOT NULL,
  space TEXT NOT NULL,
  budget_seconds REAL,
  max_evaluations INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  evaluations INTEGER NOT NULL,
  seconds REAL,
  date TEXT NOT NULL,
  sources TEXT NOT NULL DEFAULT '',
  hash TEXT NOT NULL DEFAULT '',
  objective TEXT NOT NULL DEFAULT 'time'
) STRICT;
CREATE INDEX searches_by_problem ON searches (problem_id, gpu);
CREATE TABLE general (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu TEXT NOT NULL,
  record_id INTEGER NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE,
 PRIMARY KEY (problem_id, gpu)
) STRICT;
CREATE TABLE corrections (
  gpu TEXT NOT NULL,
  kind TEXT NOT NULL,
  samples INTEGER NOT NULL,
  trees BLOB NOT NULL,
  hash TEXT NOT NULL,
 PRIMARY KEY (gpu, kind)
) STRICT;
CREATE TABLE devices (
  gpu TEXT PRIMARY KEY,
  clock_khz INTEGER NOT NULL,
  memory_clock_khz INTEGER NOT NULL,
  memory_bus_bits INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  l2_bytes INTEGER NOT NULL,
  power_limit_w REAL NOT NULL,
  date TEXT NOT NULL,
  hash TEXT NOT NULL
) STRICT;
)sql";

// Rows of version 7 for nn 1024: two records (one rejected), a winner, a baseline, a search and an
// image. The hashes are those that version 7 computed.
constexpr const char* kRowsOfVersion7 = R"sql(
INSERT INTO problems VALUES (1, 'nn', 1024, 1024, 1024, 'f32', 'f32', 'f32', 'f32', 'strict', 1, 16, 16, 16);
INSERT INTO environments VALUES (1, '580.159', 'NVRTC 13.0', 'host é');
INSERT INTO records (id, problem_id, gpu, kernel_template, configuration, source_hash, launch_revision, outcome,
  detail, samples, median_us, spread, launches_per_sample, samples_us, cold, method, sm_clock_mhz, power_w, host_us,
  registers, spill_bytes, static_shared_bytes, stack_bytes, compile_ms, error_ratio, normwise_error, predicted_us,
  environment_id, date, hash) VALUES
  (1, 1, 'NVIDIA H200|9.0|132', 'simt', '{"TILE_K":8,"TILE_M":64,"UNROLL":-1}',
  'abc123', 'simt.1 plan.1', 'ok', '', 3, 12.5, 0.01, 20, '[12.5,0.3333333333333333,1e-300]', 0, 'graph',
  1980.5, 612.25, 3.125, 168, 16, 1024, 32, 312.5, 0.25, 1e-07, 11.0, 1, '2025-06-01T12:00:00Z',
  '7ea2c72e1b515f5a0b2b27ef3e2ba5e1'),
  (2, 1, 'NVIDIA H200|9.0|132', 'simt', '{"TILE_K":8,"TILE_M":128,"UNROLL":-1}',
  'abc123', 'simt.1 plan.1', 'wrong_result', 'C[1][2] = nan', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, 168, 16, 1024, 32, 312.5, 0.25, 1e-07, 11.0, 1, '2025-06-01T12:00:00Z',
  'bd56148dad5b989fb458835450055682');
INSERT INTO winners VALUES (1, 'NVIDIA H200|9.0|132', 1, '2025-06-01T12:30:00Z', '',
  'c188420eac9378a79a76e4b563b8e991', 'time');
INSERT INTO baselines VALUES (1, 'NVIDIA H200|9.0|132', 'cuBLAS', '13.1.0', 'default', 3, 10, 0.01, 20,
  '[10.0,0.3333333333333333,1e-300]', 0, 'graph', 1980.5, 612.25, 3.125, 1, '2025-06-01T12:00:00Z',
  '3155922730a833620178242635a2979f', 0, 0);
INSERT INTO searches VALUES (1, 1, 'NVIDIA H200|9.0|132', 'local', -16, 'space-hash', 60.5, 1000, 0, 77, 12.25,
  '2025-06-01T12:00:00Z', '', '3ba2e3a88b47d55790c95c53a8ade3a2', 'time');
)sql";

void write_version_7(const fs::path& path, const std::string& more = "") {
  const Connection connection(path, Connection::Access::write);
  connection.execute(kTablesOfVersion7);
  connection.execute(kRowsOfVersion7);
  connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId) +
                     "; PRAGMA user_version = 7; " + more);
}

constexpr const char* kAsVersion6 = "DROP TABLE devices; PRAGMA user_version = 6";

void expect_whole(const Database& db) {
  EXPECT_THAT(db.check(), IsEmpty()) << "its hashes stay";
  Record expected = record();
  expected.id = 1;
  EXPECT_EQ(db.record(1), expected);
  Record lost = rejected(128, Outcome::wrong_result, "C[1][2] = nan");
  lost.id = 2;
  EXPECT_EQ(db.record(2), lost);
  const auto winner = db.winner(problem(), kGpu);
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->record, expected);
  EXPECT_EQ(winner->since, "2025-06-01T12:30:00Z");
  EXPECT_EQ(winner->objective, Objective::time);
  EXPECT_EQ(db.baselines(), std::vector{baseline()});
  const auto searches = db.searches(problem(), kGpu);
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(searches.front().seed, search().seed);
  EXPECT_EQ(searches.front().space, "space-hash");
  EXPECT_THAT(db.warnings(), IsEmpty());
}

class OlderVersions : public testing::TestWithParam<int> {
 protected:
  void write(const std::string& more = "") {
    write_version_7(path, (GetParam() == 6 ? kAsVersion6 : "") + (";" + more));
  }
  const TemporaryFolder folder;
  const fs::path path = folder / "x.db";
};

INSTANTIATE_TEST_SUITE_P(Files, OlderVersions, testing::Values(6, 7));

TEST_P(OlderVersions, AreBroughtUpToDateWhereTheyAreWritten) {
  write();
  Database db = Database::open(path);
  expect_whole(db);
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), kSchema);
  db.put_image(image(), 1);
  EXPECT_EQ(db.image(kernel(), {9, 0, true}, "simt.1 plan.1"), image());
  DeviceFacts facts;
  facts.gpu = kGpu, facts.clock_khz = 1'980'000;
  db.put(facts);
  EXPECT_EQ(db.device(kGpu), facts);
  db.set_winner(db.add(record(32, 10)));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.candidate, record(32).candidate);
  EXPECT_EQ(number_in(path, "SELECT count(*) FROM problems"), 1) << "the row is found by its key";
  EXPECT_EQ(db.remove({}), 3) << "what refers to a record goes with it";
  EXPECT_EQ(db.counts().winners, 0);
}

TEST_P(OlderVersions, AreBroughtUpToDateWhereTheyAreOnlyReadButMayBeWritten) {
  write();
  const Database db = Database::open(path, OpenMode::read_only);
  EXPECT_TRUE(db.read_only());
  expect_whole(db);
}

TEST_P(OlderVersions, DamagedRowsAreNoSounderAfterIt) {
  write("UPDATE records SET median_us = 1 WHERE id = 1");
  EXPECT_THAT(Database::open(path).check(), testing::ElementsAre(HasSubstr("record 1")));
}

TEST_P(OlderVersions, OfManyProcessesAtOnceAreBroughtUpToDateOnce) {
  write();
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const OpenMode mode = child % 2 == 0 ? OpenMode::read_write : OpenMode::read_only;
    children.push_back(start([&, mode] {
      const Database db = Database::open(path, mode);
      return db.records({}).size() == 2 && db.winners().size() == 1 ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  expect_whole(Database::open(path));
}

TEST_P(OlderVersions, AProcessOfThatVersionMayStillAddRows) {
  write();
  const Connection older(path, Connection::Access::write);
  EXPECT_EQ(older.integer("SELECT count(*) FROM problems"), 1);
  { const Database now = Database::open(path); }
  older.execute(
      "INSERT INTO problems (layout, m, n, k, a_type, b_type, c_type, accumulator, math, batch, "
      "align_a, align_b, align_c) VALUES ('nn', 8, 8, 8, 'f32', 'f32', 'f32', 'f32', 'strict', 1, "
      "16, 16, 16)");
  Database db = Database::open(path);
  db.add(record(64, 12.5, 8));
  EXPECT_EQ(number_in(path, "SELECT count(*) FROM problems"), 2);
}

TEST_P(OlderVersions, OnReadOnlyMediaAreRefusedWithWhatToDo) {
  const int status = in_child([&] {
    if (!mount_private(folder.path(), "size=4m")) return kNotPermitted;
    write();
    if (!remount_read_only(folder.path())) return kNotPermitted;
    const std::string said =
        error_of(ErrorKind::database, [&] { Database::open(path, OpenMode::read_only); });
    EXPECT_THAT(said, AllOf(HasSubstr(path.string()), HasSubstr("older Tilewise"),
                            HasSubstr("schema version " + std::to_string(GetParam()) + ", now " +
                                      std::to_string(kSchema)),
                            HasSubstr("open it once where it can be written")));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == kNotPermitted) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_EQ(status, 0);
}

TEST_P(OlderVersions, ThatTheirReaderMayNotWriteAreRefusedWithWhatToDo) {
  write();
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
  EXPECT_EQ(number_in(path, "PRAGMA user_version"), GetParam()) << "it was not touched";
}

// Simulates a field that a later version adds.
TEST(AFieldThatAFileLacks, IsAColumnWithTheFieldsDefault) {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.db";
  write_version_7(path,
                  "ALTER TABLE records DROP COLUMN energy_mj; ALTER TABLE winners DROP COLUMN "
                  "objective");
  Database db = Database::open(path);
  expect_whole(db);
  Record measured = record();
  measured.measurement->energy_mj = 2.5;
  measured.id = db.add(measured);
  EXPECT_EQ(db.record(measured.id), measured);
}

}  // namespace
}  // namespace tilewise::database_versions_test
