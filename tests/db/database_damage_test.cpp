// Rows changed from outside are skipped, reported and listed by check(); all other rows stay
// usable.
#include "damage.hpp"

namespace tilewise::database_damage_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_literals;
namespace fs = std::filesystem;

/// The number of damaged rows in each table after a change.
struct Damaged {
  std::size_t records = 0, winners = 0, baselines = 0, searches = 0;
  /// A damaged record also damages its winner; it is listed once.
  std::size_t listed() const { return std::max(records, winners) + baselines + searches; }
};

constexpr const char* kLoserDriver = "111.1";

/// Problem 1024: record 1 (the winner) and record 2, a baseline and a search. Problem 512: record 3
/// (the winner), a baseline and a search. Problem 256: record 4, a loser.
class DamageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    {
      Database db = Database::open(folder / "x.db");
      for (const std::int64_t size : {1024, 512}) {
        const std::string driver = size == 1024 ? "580.159" : "222.2";
        Record first = record(64, 12.5, size);
        first.environment.driver = driver;
        db.set_winner(db.add(first));
        if (size == 1024) {
          Record loser = record(32, 20, size);
          loser.environment.driver = kLoserDriver;
          db.add(loser);
        }
        Baseline other = baseline(size == 1024 ? "default" : "lt_best");
        other.problem = problem(size);
        other.environment.driver = driver;
        db.add(other);
        Search made = search();
        made.problem = problem(size);
        db.add(made);
      }
      Record third = record(16, 30, 256);
      third.environment.driver = kLoserDriver;
      db.add(third);
    }
    whole = read_file(folder / "x.db");
  }
  DamageTest() { write_file(path, whole); }

  /// Tries each change of the row with key 1 on a fresh file.
  void expect_found(const std::string& table, const std::vector<const char*>& changes,
                    Damaged damaged, const char* key = "id") {
    for (const char* set : changes) {
      SCOPED_TRACE(table + " SET " + set);
      for (const char* suffix : {"-wal", "-shm"}) fs::remove(path.string() + suffix);
      write_file(path, whole);
      change(path, "UPDATE " + table + " SET " + set + " WHERE " + key + " = 1");
      Database db = Database::open(path);
      expect_kept(db, damaged);
      const std::vector<std::string> words = db.check();
      EXPECT_EQ(words.size(), damaged.listed()) << testing::PrintToString(words);
      if (damaged.winners > 0) {
        EXPECT_THAT(words, Contains(HasSubstr("winner")));
      }
      EXPECT_EQ(db.counts().records, 4) << "a damaged row stays where it is";
      EXPECT_EQ(db.counts().winners, 2);
      EXPECT_EQ(db.counts().baselines, 2);
      EXPECT_EQ(db.counts().searches, 2);
      EXPECT_EQ(db.prune().damaged_rows, static_cast<std::int64_t>(damaged.listed()));
      EXPECT_THAT(db.check(), IsEmpty());
      EXPECT_EQ(db.counts().records, 4 - static_cast<std::int64_t>(damaged.records));
      EXPECT_EQ(db.counts().winners, 2 - static_cast<std::int64_t>(damaged.winners));
      EXPECT_TRUE(db.winner(problem(512), kGpu));
      EXPECT_EQ(db.prune().damaged_rows, 0);
    }
  }

  /// Undamaged rows are returned, and one warning reports each kind of damaged row.
  void expect_kept(const Database& db, Damaged damaged) {
    EXPECT_EQ(db.records({}).size(), 4 - damaged.records);
    EXPECT_EQ(db.winners().size(), 2 - damaged.winners);
    EXPECT_EQ(db.baselines().size(), 2 - damaged.baselines);
    EXPECT_EQ(db.searches(problem(1024), kGpu).size() + db.searches(problem(512), kGpu).size(),
              2 - damaged.searches);
    EXPECT_TRUE(db.record(3));
    ASSERT_TRUE(db.winner(problem(512), kGpu));
    EXPECT_EQ(db.winner(problem(512), kGpu)->record, db.record(3));
    EXPECT_EQ(db.baselines(problem(512)).size(), 1u);
    EXPECT_EQ(db.searches(problem(512), kGpu).size(), 1u);
    EXPECT_EQ(db.record(1).has_value(), damaged.records == 0);
    EXPECT_EQ(db.winner(problem(1024), kGpu).has_value(), damaged.winners == 0);
    const auto said = [&](const char* what) {
      EXPECT_THAT(db.warnings(),
                  Contains(AllOf(HasSubstr("x.db"), HasSubstr(std::string("a ") + what),
                                 HasSubstr("is damaged and is not used"), HasSubstr("db check"))));
    };
    if (damaged.records > 0) said("record");
    if (damaged.winners > 0) said("winner");
    if (damaged.baselines > 0) said("baseline");
  }

  static std::string whole;
  const TemporaryFolder folder;
  const fs::path path = folder / "x.db";
};

std::string DamageTest::whole;

TEST_F(DamageTest, AWholeFileIsInOrder) {
  const Database db = Database::open(path);
  expect_kept(db, {});
  EXPECT_THAT(db.check(), IsEmpty());
  EXPECT_THAT(db.warnings(), IsEmpty());
}

TEST_F(DamageTest, OfARecordIsFound) {
  expect_found("records",
               {"problem_id = 3",
                "gpu = 'another|9.0|132'",
                "kernel_template = 'mma'",
                "configuration = '{\"TILE_K\":8,\"TILE_M\":65,\"UNROLL\":-1}'",
                "source_hash = 'abc124'",
                "launch_revision = 'simt.2 plan.1'",
                "code_hash = 'f'",
                "origin = 'imported'",
                "outcome = 'timeout'",
                "detail = ' '",
                "samples = 4",
                "samples = NULL",
                "median_us = 0.001",
                "median_us = NULL",
                "spread = 0.011",
                "launches_per_sample = 21",
                "samples_us = '[12.5]'",
                "samples_us = '[12.5,0.3333333333333333,null]'",
                "cold = 1",
                "method = 'graphs'",
                "sm_clock_mhz = 1980.4",
                "power_w = 0",
                "host_us = 3.126",
                "energy_mj = 1",
                "energy_mj = NULL",
                "energy_mj = -1",
                "power_limit_w = 500",
                "registers = 169",
                "spill_bytes = 0",
                "static_shared_bytes = 1025",
                "stack_bytes = 33",
                "compile_ms = 312",
                "error_ratio = 0",
                "normwise_error = 1e-8",
                "predicted_us = 11.000000000000002",
                "environment_id = 2",
                "date = '2025-06-01T12:00:01Z'",
                "hash = ''",
                "hash = substr(hash, 2) || 'x'"},
               {.records = 1, .winners = 1});
}

TEST_F(DamageTest, OfAWinnerIsFound) {
  expect_found("winners",
               {"record_id = 2", "record_id = 4", "problem_id = 3", "gpu = 'another|9.0|132'",
                "since = '2001-01-01T00:00:00Z'", "quarantined = 'because'", "objective = 'energy'",
                "hash = ''"},
               {.winners = 1}, "record_id");
}

TEST_F(DamageTest, OfABaselineIsFound) {
  expect_found("baselines",
               {"problem_id = 3",
                "gpu = 'another|9.0|132'",
                "library = 'cublas'",
                "version = '13.2.0'",
                "variant = 'pedantic'",
                "samples = 4",
                "median_us = 100",
                "spread = 1",
                "launches_per_sample = 21",
                "samples_us = '[]'",
                "cold = 1",
                "method = ''",
                "sm_clock_mhz = 0",
                "power_w = 0",
                "host_us = 0",
                "energy_mj = 1",
                "power_limit_w = 1",
                "environment_id = 2",
                "date = ''",
                "hash = ''"},
               {.baselines = 1}, "problem_id");
}

TEST_F(DamageTest, OfASearchIsFound) {
  expect_found("searches",
               {"problem_id = 3", "gpu = 'another|9.0|132'", "strategy = 'random'", "seed = 1",
                "space = 'other'", "sources = 'other'", "budget_seconds = 61",
                "max_evaluations = 0", "finished = 1", "evaluations = 78", "seconds = NULL",
                "date = ''", "objective = 'energy'", "hash = ''"},
               {.searches = 1});
}

TEST_F(DamageTest, OfAProblemIsFoundInAllThatNamesIt) {
  expect_found("problems",
               {"layout = 'nt'", "m = 1025", "n = 1025", "k = 1025", "a_type = 'f16'",
                "b_type = 'f16'", "c_type = 'f16'", "accumulator = 'f64'", "math = 'tf32'",
                "batch = 2", "align_a = 8", "align_b = 8", "align_c = 8"},
               {.records = 2, .winners = 1, .baselines = 1, .searches = 1});
}

TEST_F(DamageTest, OfAnEnvironmentIsFoundInAllThatNamesIt) {
  expect_found("environments", {"driver = '580.160'", "compiler = ''", "host = 'elsewhere'"},
               {.records = 1, .winners = 1, .baselines = 1});
}

TEST_F(DamageTest, RowsThatChangePlacesAreFound) {
  // Each row is intact but has the other row's id.
  change(path,
         "UPDATE records SET id = 99 WHERE id = 1; UPDATE records SET id = 1 WHERE id = 3; "
         "UPDATE records SET id = 3 WHERE id = 99");
  const Database db = Database::open(path);
  EXPECT_THAT(db.winners(), IsEmpty());
  EXPECT_EQ(db.records({}).size(), 4u) << "as records they are whole";
  EXPECT_EQ(db.check().size(), 2u);
}

TEST_F(DamageTest, RowsThatReferToNothingAreListed) {
  const std::pair<const char*, const char*> losses[] = {
      {"DELETE FROM problems WHERE id = 1", "row 1 of records refers to a row of problems"},
      {"DELETE FROM environments WHERE id = 1", "row 1 of records refers to a row of environments"},
      {"DELETE FROM records WHERE id = 1", "row 1 of winners refers to a row of records"},
  };
  for (const auto& [sql, words] : losses) {
    SCOPED_TRACE(sql);
    write_file(path, whole);
    change(path, sql);
    Database db = Database::open(path);
    EXPECT_FALSE(db.winner(problem(1024), kGpu));
    EXPECT_TRUE(db.winner(problem(512), kGpu));
    EXPECT_THAT(db.check(), Contains(HasSubstr(words)));
    std::int64_t left_out = 0;
    db.export_json("", &left_out);
    EXPECT_GT(left_out, 0);
    EXPECT_GT(db.prune().damaged_rows, 0);
    EXPECT_THAT(db.check(), IsEmpty());
    EXPECT_TRUE(db.winner(problem(512), kGpu));
  }
}

TEST_F(DamageTest, ADamagedRecordIsNoWinnerAndIsReplacedByMeasuringAgain) {
  change(path, "UPDATE records SET median_us = 0.001 WHERE id = 1");
  Database db = Database::open(path);
  EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.set_winner(1); }),
              HasSubstr("does not match its hash"));
  EXPECT_EQ(db.add(record()), 1);
  ASSERT_TRUE(db.winner(problem(), kGpu)) << "its own row was whole";
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement, measurement());
  EXPECT_THAT(db.check(), IsEmpty());
}

TEST_F(DamageTest, ADamagedWinnerIsReplacedByTheNext) {
  for (const char* set : {"record_id = 2", "record_id = 4", "problem_id = 3", "gpu = 'another'"}) {
    SCOPED_TRACE(set);
    write_file(path, whole);
    change(path, std::string("UPDATE winners SET ") + set + " WHERE record_id = 1");
    Database db = Database::open(path);
    EXPECT_FALSE(db.winner(problem(), kGpu));
    db.set_winner(4);
    db.set_winner(1);
    ASSERT_TRUE(db.winner(problem(), kGpu));
    EXPECT_EQ(db.winner(problem(), kGpu)->record.id, 1);
    EXPECT_EQ(db.winner(problem(256), kGpu)->record.id, 4);
    EXPECT_EQ(db.winner(problem(512), kGpu)->record.id, 3);
    EXPECT_THAT(db.check(), IsEmpty());
  }
}

TEST_F(DamageTest, ReachesNoExport) {
  change(path,
         "UPDATE records SET median_us = 0.001 WHERE id = 1; "
         "UPDATE baselines SET median_us = 0.001 WHERE problem_id = 2");
  Database copy = Database::in_memory();
  std::int64_t left_out = 0;
  copy.import_json(Database::open(path).export_json("", &left_out));
  EXPECT_EQ(left_out, 3) << "a record, its winner, a baseline";
  EXPECT_EQ(copy.records({}).size(), 3u);
  EXPECT_EQ(copy.winners().size(), 1u);
  EXPECT_EQ(copy.baselines().size(), 1u);
  EXPECT_THAT(copy.check(), IsEmpty());
}

// A flipped byte in a page makes a table and its index disagree.
TEST_F(DamageTest, OfAPageIsMendedByMeasuringAgain) {
  struct {
    const char* what;
    Page kind;
    std::string from, to;
  } const flips[] = {
      {"a problem's layout", Page::table, "nn\x04\0"s, "nt\x04\0"s},
      {"a problem's layout in the index", Page::index, "nn\x04\0"s, "nt\x04\0"s},
      {"an environment's driver", Page::table, "580.159", "580.158"},
      {"an environment's driver in the index", Page::index, "580.159", "580.158"},
      {"a record's configuration", Page::table, "{\"TILE_K\":8,\"TILE_M\":32",
       "{\"TILE_K\":8,\"TILE_M\":33"},
      {"a record's configuration in the index", Page::index, "{\"TILE_K\":8,\"TILE_M\":32",
       "{\"TILE_K\":8,\"TILE_M\":33"},
      {"a baseline's variant", Page::table, "13.1.0default", "13.1.0defaulu"},
  };
  for (const auto& [what, kind, from, to] : flips) {
    SCOPED_TRACE(what);
    write_file(path, whole);
    ASSERT_GE(change_pages(path, kind, from, to), 1);
    Database db = Database::open(path);
    EXPECT_FALSE(db.check().empty());
    const auto id = db.add(record(64));
    db.set_winner(id);
    const Record loser = record(32, 20);
    const auto other = db.add(loser);
    db.add(baseline());
    Record expected = record(64);
    expected.id = id;
    EXPECT_EQ(db.record(id), expected);
    EXPECT_EQ(db.record(other)->candidate, loser.candidate);
    ASSERT_TRUE(db.winner(problem(), kGpu));
    EXPECT_EQ(db.winner(problem(), kGpu)->record, expected);
    EXPECT_EQ(db.baselines(problem()), std::vector{baseline()});
    EXPECT_TRUE(db.winner(problem(512), kGpu));
    // A row without an index entry stays, and another one with the same values was made.
    EXPECT_EQ(db.check().size(), kind == Page::table ? 0u : 1u);
  }
}

}  // namespace
}  // namespace tilewise::database_damage_test
