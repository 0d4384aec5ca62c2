#include "db/schema.hpp"

#include <array>
#include <string>

#include "db/sqlite_error.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

// docs/database.md explains every table and column. Enums are stored by name, so that a row of a
// newer version is recognised and skipped. Floating-point columns may be NULL, SQLite's form of
// NaN.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE problems (
  id          INTEGER PRIMARY KEY,
  layout      TEXT NOT NULL,
  m           INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  k           INTEGER NOT NULL,
  a_type      TEXT NOT NULL,
  b_type      TEXT NOT NULL,
  c_type      TEXT NOT NULL,
  accumulator TEXT NOT NULL,
  math        TEXT NOT NULL,
  batch       INTEGER NOT NULL,
  align_a     INTEGER NOT NULL,
  align_b     INTEGER NOT NULL,
  align_c     INTEGER NOT NULL,
  UNIQUE (m, n, k, layout, a_type, b_type, c_type, accumulator, math, batch,
          align_a, align_b, align_c)
) STRICT;

CREATE TABLE environments (
  id       INTEGER PRIMARY KEY,
  driver   TEXT NOT NULL,
  compiler TEXT NOT NULL,
  host     TEXT NOT NULL,
  UNIQUE (driver, compiler, host)
) STRICT;

CREATE TABLE records (
  id              INTEGER PRIMARY KEY,
  problem_id      INTEGER NOT NULL REFERENCES problems (id),
  gpu             TEXT NOT NULL,
  kernel_template TEXT NOT NULL,
  configuration   TEXT NOT NULL,
  source_hash     TEXT NOT NULL,
  launch_revision TEXT NOT NULL,
  outcome         TEXT NOT NULL,
  detail          TEXT NOT NULL,
  samples         INTEGER,
  median_us       REAL,
  spread          REAL,
  launches_per_sample INTEGER,
  samples_us      TEXT,
  cold            INTEGER,
  method          TEXT,
  sm_clock_mhz    REAL,
  power_w         REAL,
  host_us         REAL,
  registers       INTEGER NOT NULL,
  spill_bytes     INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  stack_bytes     INTEGER NOT NULL,
  compile_ms      REAL,
  error_ratio     REAL,
  normwise_error  REAL,
  predicted_us    REAL,
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  date            TEXT NOT NULL,
  UNIQUE (problem_id, gpu, kernel_template, configuration, source_hash)
) STRICT;

CREATE TABLE winners (
  problem_id  INTEGER NOT NULL REFERENCES problems (id),
  gpu         TEXT NOT NULL,
  record_id   INTEGER NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE,
  since       TEXT NOT NULL,
  quarantined TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (problem_id, gpu)
) STRICT;

CREATE TABLE baselines (
  problem_id      INTEGER NOT NULL REFERENCES problems (id),
  gpu             TEXT NOT NULL,
  library         TEXT NOT NULL,
  version         TEXT NOT NULL,
  variant         TEXT NOT NULL,
  samples         INTEGER NOT NULL,
  median_us       REAL,
  spread          REAL,
  launches_per_sample INTEGER NOT NULL,
  samples_us      TEXT NOT NULL,
  cold            INTEGER NOT NULL,
  method          TEXT NOT NULL,
  sm_clock_mhz    REAL,
  power_w         REAL,
  host_us         REAL,
  environment_id  INTEGER NOT NULL REFERENCES environments (id),
  date            TEXT NOT NULL,
  PRIMARY KEY (problem_id, gpu, library, version, variant)
) STRICT;

CREATE TABLE images (
  id              INTEGER PRIMARY KEY,
  kernel          TEXT NOT NULL,
  target          TEXT NOT NULL,
  launch_revision TEXT NOT NULL,
  source_hash     TEXT NOT NULL,
  registers       INTEGER NOT NULL,
  spill_bytes     INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  stack_bytes     INTEGER NOT NULL,
  compile_ms      REAL,
  log             TEXT NOT NULL,
  binary          BLOB NOT NULL,
  UNIQUE (kernel, target, launch_revision)
) STRICT;

CREATE TABLE record_images (
  record_id INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
  image_id  INTEGER NOT NULL REFERENCES images (id) ON DELETE CASCADE,
  PRIMARY KEY (record_id, image_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_images_by_image ON record_images (image_id);

CREATE TABLE claims (
  kernel TEXT NOT NULL,
  target TEXT NOT NULL,
  holder TEXT NOT NULL,
  since  REAL NOT NULL,
  PRIMARY KEY (kernel, target)
) STRICT;

CREATE TABLE searches (
  id              INTEGER PRIMARY KEY,
  problem_id      INTEGER NOT NULL REFERENCES problems (id),
  gpu             TEXT NOT NULL,
  strategy        TEXT NOT NULL,
  seed            INTEGER NOT NULL,
  space           TEXT NOT NULL,
  budget_seconds  REAL,
  max_evaluations INTEGER NOT NULL,
  finished        INTEGER NOT NULL,
  evaluations     INTEGER NOT NULL,
  seconds         REAL,
  date            TEXT NOT NULL
) STRICT;
CREATE INDEX searches_by_problem ON searches (problem_id, gpu);
)sql";

// Rows get hashes. Older images have none and cannot be checked, so they are compiled again. A
// search's hash of its space included the sources, which now have a hash of their own, so older
// searches are run again.
constexpr const char* kVersion2 = R"sql(
DELETE FROM images;
ALTER TABLE images ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE images ADD COLUMN refused TEXT NOT NULL DEFAULT '';

ALTER TABLE records ADD COLUMN code_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN origin TEXT NOT NULL DEFAULT 'measured';
ALTER TABLE records ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE winners ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE baselines ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE searches ADD COLUMN sources TEXT NOT NULL DEFAULT '';
ALTER TABLE searches ADD COLUMN hash TEXT NOT NULL DEFAULT '';

DROP TABLE claims;
CREATE TABLE claims (
  kernel  TEXT NOT NULL,
  target  TEXT NOT NULL,
  holder  TEXT NOT NULL,
  machine TEXT NOT NULL,
  pid     INTEGER NOT NULL,
  started INTEGER NOT NULL,
  since   REAL NOT NULL,
  PRIMARY KEY (kernel, target)
) STRICT;
)sql";

constexpr const char* kVersion4 = R"sql(
CREATE TABLE general (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu        TEXT NOT NULL,
  record_id  INTEGER NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE,
  PRIMARY KEY (problem_id, gpu)
) STRICT;
)sql";

constexpr const char* kVersion5 = R"sql(
CREATE TABLE corrections (
  gpu     TEXT NOT NULL,
  kind    TEXT NOT NULL,
  samples INTEGER NOT NULL,
  trees   BLOB NOT NULL,
  hash    TEXT NOT NULL,
  PRIMARY KEY (gpu, kind)
) STRICT;
)sql";

constexpr const char* kVersion7 = R"sql(
CREATE TABLE devices (
  gpu              TEXT PRIMARY KEY,
  clock_khz        INTEGER NOT NULL,
  memory_clock_khz INTEGER NOT NULL,
  memory_bus_bits  INTEGER NOT NULL,
  memory_bytes     INTEGER NOT NULL,
  l2_bytes         INTEGER NOT NULL,
  power_limit_w    REAL NOT NULL,
  date             TEXT NOT NULL,
  hash             TEXT NOT NULL
) STRICT;
)sql";

constexpr std::array kMigrations{
    Migration{1, kVersion1},       Migration{2, kVersion2, hash_all_rows},
    Migration{3, "", rename_rows}, Migration{4, kVersion4},
    Migration{5, kVersion5},       Migration{6, "", add_energy_columns},
    Migration{7, kVersion7},
};

}  // namespace

std::int64_t version_of(const Connection& connection) {
  return connection.integer("PRAGMA user_version");
}

std::span<const Migration> migrations() { return kMigrations; }

bool is_new(const Connection& connection, std::span<const Migration> steps) {
  // One snapshot for all three reads: another process may be creating the file.
  const Transaction snapshot(connection, Transaction::Kind::read);
  const std::int64_t owner = connection.integer("PRAGMA application_id");
  const std::int64_t version = version_of(connection);
  if (owner == kApplicationId) {
    if (version <= latest_version(steps)) return false;
    throw database_error(connection.path(),
                         "it was written by a newer Tilewise (schema version " +
                             std::to_string(version) + "; this program knows versions up to " +
                             std::to_string(latest_version(steps)) +
                             "); update this program, or name another file with --db");
  }
  if (owner == 0 && version == 0 && connection.integer("SELECT count(*) FROM sqlite_schema") == 0) {
    return true;
  }
  throw database_error(connection.path(), "it is a database of another program (application id " +
                                              std::to_string(owner) + ", not Tilewise's " +
                                              std::to_string(kApplicationId) +
                                              "); name another file with --db");
}

void migrate(const Connection& connection, std::span<const Migration> steps) {
  for (const Migration& step : steps) {
    if (version_of(connection) >= step.version) continue;
    Transaction transaction(connection);
    // Another process may have done this step during the wait for the lock.
    if (version_of(connection) < step.version) {
      connection.execute(step.sql);
      if (step.finish) step.finish(connection);
      connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId) +
                         "; PRAGMA user_version = " + std::to_string(step.version));
    }
    transaction.commit();
  }
}

}  // namespace tilewise
