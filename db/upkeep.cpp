#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

/// Records whose images are kept: winners, general records, and the 8 fastest others per problem
/// and GPU.
const std::string kWithKept = R"sql(
WITH kept (id) AS (
  SELECT record_id FROM winners
  UNION
  SELECT record_id FROM general
  UNION
  SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY problem_id, gpu ORDER BY median_us, id) AS place
    FROM records
    WHERE outcome = 'ok' AND median_us IS NOT NULL
      AND id NOT IN (SELECT record_id FROM winners UNION SELECT record_id FROM general))
  WHERE place <= 8)
)sql";

// An image with records stays with them. An image without a record stays while a kept record
// without an image has its launch revision.
const std::string kDropImages = kWithKept + R"sql(
DELETE FROM images
WHERE id NOT IN (SELECT image_id FROM record_images WHERE record_id IN (SELECT id FROM kept))
  AND NOT (
    id NOT IN (SELECT image_id FROM record_images)
    AND launch_revision IN (
      SELECT launch_revision FROM records
      WHERE id IN (SELECT id FROM kept) AND id NOT IN (SELECT record_id FROM record_images)))
)sql";

// Keeps finalists: their machine code determines whether a search is still valid for new sources.
const std::string kDropLosers = kWithKept + R"sql(
DELETE FROM records
WHERE source_hash NOT IN (SELECT value FROM json_each(?1)) AND id NOT IN (SELECT id FROM kept)
)sql";

// Removals for the records whose ids are in the JSON array ?1, in this order.
constexpr const char* kRemovals[] = {
    // images of only these records
    R"sql(DELETE FROM images
          WHERE id IN (SELECT image_id FROM record_images
                       WHERE record_id IN (SELECT value FROM json_each(?1)))
            AND id NOT IN (SELECT image_id FROM record_images
                           WHERE record_id NOT IN (SELECT value FROM json_each(?1))))sql",
    // images without a record, with the launch revision of these records
    R"sql(DELETE FROM images
          WHERE id NOT IN (SELECT image_id FROM record_images)
            AND launch_revision IN (SELECT launch_revision FROM records
                                    WHERE id IN (SELECT value FROM json_each(?1)))
            AND launch_revision NOT IN (SELECT launch_revision FROM records
                                        WHERE id NOT IN (SELECT value FROM json_each(?1))))sql",
    // baselines of problems without another record
    R"sql(DELETE FROM baselines
          WHERE (problem_id, gpu) IN (SELECT problem_id, gpu FROM records
                                      WHERE id IN (SELECT value FROM json_each(?1)))
            AND (problem_id, gpu) NOT IN (SELECT problem_id, gpu FROM records
                                          WHERE id NOT IN (SELECT value FROM json_each(?1))))sql",
    // searches of the records' problems
    R"sql(DELETE FROM searches
          WHERE (problem_id, gpu) IN (SELECT problem_id, gpu FROM records
                                      WHERE id IN (SELECT value FROM json_each(?1))))sql",
    // corrections made from the records
    R"sql(DELETE FROM corrections
          WHERE gpu IN (SELECT gpu FROM records
                        WHERE id IN (SELECT value FROM json_each(?1))))sql",
    // orders of devices without another record
    R"sql(DELETE FROM orders
          WHERE gpu IN (SELECT gpu FROM records WHERE id IN (SELECT value FROM json_each(?1)))
            AND gpu NOT IN (SELECT gpu FROM records
                            WHERE id NOT IN (SELECT value FROM json_each(?1))))sql",
    // devices without another record
    R"sql(DELETE FROM devices
          WHERE gpu IN (SELECT gpu FROM records WHERE id IN (SELECT value FROM json_each(?1)))
            AND gpu NOT IN (SELECT gpu FROM records
                            WHERE id NOT IN (SELECT value FROM json_each(?1))))sql",
    "DELETE FROM records WHERE id IN (SELECT value FROM json_each(?1))",
};

/// Drops problems and environments without a reference to them.
void drop_orphans(const Connection& db) {
  db.query(
        "DELETE FROM problems WHERE id NOT IN (SELECT problem_id FROM records "
        "UNION SELECT problem_id FROM baselines UNION SELECT problem_id FROM searches "
        "UNION SELECT problem_id FROM orders)")
      .run();
  db.query(
        "DELETE FROM environments WHERE id NOT IN (SELECT environment_id FROM records "
        "UNION SELECT environment_id FROM baselines)")
      .run();
}

/// Drops damaged rows. Records are dropped as in remove(); a search whose winner is dropped is
/// dropped, too.
std::int64_t drop_damaged_rows(const Connection& db) {
  const std::vector<DamagedPlace> damage = damaged_rows(db);
  std::map<std::string, nlohmann::json> rows;
  for (const DamagedPlace& place : damage) rows[place.table].push_back(place.row);
  if (rows.contains("winners"))
    db.query(
          "DELETE FROM searches WHERE (problem_id, gpu) IN (SELECT r.problem_id, r.gpu FROM "
          "records AS r JOIN winners AS w ON w.record_id = r.id WHERE w.rowid IN "
          "(SELECT value FROM json_each(?)))")
        .bind(rows.at("winners").dump())
        .run();
  for (const char* table : {"winners", "general", "baselines", "searches", "images", "corrections",
                            "orders", "devices"})
    if (rows.contains(table))
      db.query(std::string("DELETE FROM ") + table +
               " WHERE rowid IN (SELECT value FROM json_each(?))")
          .bind(rows.at(table).dump())
          .run();
  if (rows.contains("records"))
    for (const char* removal : kRemovals) db.query(removal).bind(rows.at("records").dump()).run();
  if (rows.contains("record_images"))
    db.query(
          "DELETE FROM record_images WHERE record_id NOT IN (SELECT id FROM records) "
          "OR image_id NOT IN (SELECT id FROM images)")
        .run();
  return static_cast<std::int64_t>(damage.size());
}

std::string chosen_ids(const Connection& db, const RecordFilter& filter) {
  const RecordCondition condition(db, filter);
  Query query = db.query("SELECT r.id FROM " + kRecordTables + condition.sql());
  condition.bind(query);
  auto ids = nlohmann::json::array();
  while (query.step()) ids.push_back(query.next<std::int64_t>());
  return ids.dump();
}

constexpr std::int64_t kMiB = 1 << 20;

std::int64_t bytes_of(const Connection& db) {
  return db.integer("PRAGMA page_count") * db.integer("PRAGMA page_size");
}

}  // namespace

DatabaseCounts Database::counts() const {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db, Transaction::Kind::read);
  DatabaseCounts counts;
  counts.records = db.integer("SELECT count(*) FROM records");
  counts.winners = db.integer("SELECT count(*) FROM winners");
  counts.baselines = db.integer("SELECT count(*) FROM baselines");
  counts.images = db.integer("SELECT count(*) FROM images");
  counts.searches = db.integer("SELECT count(*) FROM searches");
  counts.bytes = bytes_of(db);
  return counts;
}

std::int64_t Database::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  return bytes_of(db) - db.integer("PRAGMA freelist_count") * db.integer("PRAGMA page_size");
}

std::int64_t Database::drop_oldest_images(std::int64_t most_bytes) {
  const std::int64_t in_use = bytes_in_use();
  const std::lock_guard lock(state_->mutex);
  std::int64_t dropped = 0;
  state_->write([&](const Connection& db) {
    std::vector<std::int64_t> oldest;
    {
      Query query = db.query(
          "SELECT id, length(binary) + length(log) FROM images "
          "WHERE id < (SELECT max(id) FROM images) ORDER BY id");
      for (std::int64_t left = in_use; left > most_bytes && query.step();) {
        oldest.push_back(query.next<std::int64_t>());
        left -= query.next<std::int64_t>();
      }
    }
    for (const std::int64_t id : oldest) db.query("DELETE FROM images WHERE id = ?").bind(id).run();
    dropped = static_cast<std::int64_t>(oldest.size());
  });
  return dropped;
}

std::int64_t Database::remove(const RecordFilter& filter) {
  const std::lock_guard lock(state_->mutex);
  std::int64_t removed = 0;
  state_->write([&](const Connection& db) {
    const std::string ids = chosen_ids(db, filter);
    for (const char* removal : kRemovals) db.query(removal).bind(ids).run();
    removed = db.changes();  // from the last statement: records
    drop_orphans(db);
  });
  return removed;
}

Database::Pruned Database::prune(const std::vector<std::string>& current_source_hashes) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t before = bytes_of(state_->connection);
  Pruned pruned;
  state_->write([&](const Connection& db) {
    tilewise::drop_dead_claims(db);
    pruned.damaged_rows = drop_damaged_rows(db);
    if (!current_source_hashes.empty()) {
      db.query(kDropLosers).bind(nlohmann::json(current_source_hashes).dump()).run();
    }
    db.query(kDropImages).run();
    drop_orphans(db);
  });
  // The file shrinks only when the log is checkpointed and truncated. Also needed after a failure,
  // since the log has the attempt.
  constexpr const char* kCutLog = "PRAGMA wal_checkpoint(TRUNCATE)";
  try {
    state_->connection.execute(std::string("VACUUM; ") + kCutLog);
  } catch (const SqliteError& error) {
    if (!error.full()) throw;
    pruned.not_done = "the file could not be made smaller: that takes up to " +
                      std::to_string((bytes_of(state_->connection) + kMiB - 1) / kMiB) +
                      " MiB of free space for a moment; what was dropped makes room inside it";
    try {
      state_->connection.execute(kCutLog);
    } catch (const SqliteError& again) {
      if (!again.full()) throw;
    }
  }
  pruned.freed_bytes = std::max<std::int64_t>(0, before - bytes_of(state_->connection));
  return pruned;
}

}  // namespace tilewise
