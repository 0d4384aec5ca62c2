#include "db/kernel_text.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

// Every row against its hash: what `autotune db check` shows, and how a migration makes the hashes.
namespace tilewise {
namespace {

const std::string kRecords = "SELECT " + kRecordColumns + " FROM " + kRecordTables;
const std::string kWinners = "SELECT " + kWinnerColumns + " FROM " + kWinnerTables;
const std::string kBaselines = "SELECT " + kBaselineColumns + " FROM " + kBaselineTables;
const std::string kSearches = "SELECT " + kSearchColumns + " FROM " + kSearchTables;
const std::string kImages =
    "SELECT " + kImageColumns + ", log, binary, hash, refused FROM images ORDER BY id";

/// A whole image; throws DamagedRow for one that does not match its hash, and one that was set
/// aside for that.
Image read_checked_image(Query& row) {
  Image image = read_image(row);
  std::string hash, refused;
  row.read(image.log, image.binary, hash, refused);
  const std::string name =
      "the image of " + to_string(image.kernel) + " for " + to_string(image.target);
  if (!refused.empty()) throw DamagedRow(name + " is set aside: " + refused);
  require_hash(image, hash, name);
  return image;
}

/// Tries to read every row; adds what is damaged. A row of a newer version is no damage.
template <class Read>
void check_rows(const Connection& db, const std::string& sql, Read read,
                std::vector<std::string>& damage) {
  Query query = db.query(sql);
  while (query.step()) {
    try {
      read(query);
    } catch (const DamagedRow& damaged) {
      damage.push_back(damaged.what());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
    }
  }
}

/// Hashes every row of `sql`, whose first column tells which it is, and stores that by `update`.
template <class Read>
void hash_rows(const Connection& db, const std::string& sql, const char* update, Read read) {
  std::vector<std::pair<std::string, std::int64_t>> hashes;
  {
    Query query = db.query(sql);
    while (query.step()) {
      try {
        const auto id = query.next<std::int64_t>();
        std::string unchecked;
        hashes.emplace_back(row_hash(read(query, &unchecked)), id);
      } catch (const Error& error) {  // of a newer version: never read by this one
        if (error.kind() != ErrorKind::invalid_argument) throw;
      }
    }
  }
  for (const auto& [hash, id] : hashes) db.query(update).bind(hash, id).run();
}

}  // namespace

std::vector<std::string> Database::check() const {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  std::vector<std::string> damage;
  {
    Query query = db.query("PRAGMA integrity_check");
    while (query.step())
      if (std::string words = query.next<std::string>(); words != "ok")
        damage.push_back("SQLite: " + std::move(words));
  }
  {
    Query query = db.query("PRAGMA foreign_key_check");
    while (query.step()) {
      const auto table = query.next<std::string>();
      const auto row = query.next<std::string>();
      damage.push_back("row " + row + " of " + table + " refers to a row of " +
                       query.next<std::string>() + " that is not there");
    }
  }
  check_rows(
      db, kRecords, [](Query& row) { read_record(row); }, damage);
  check_rows(
      db, kWinners, [](Query& row) { read_winner(row); }, damage);
  check_rows(
      db, kBaselines, [](Query& row) { read_baseline(row); }, damage);
  check_rows(
      db, kSearches, [](Query& row) { read_search(row); }, damage);
  check_rows(db, kImages, read_checked_image, damage);
  return damage;
}

void hash_all_rows(const Connection& db) {
  hash_rows(db, "SELECT r.id, " + kRecordColumns + " FROM " + kRecordTables,
            "UPDATE records SET hash = ? WHERE id = ?", read_record);
  hash_rows(db, "SELECT r.id, " + kWinnerColumns + " FROM " + kWinnerTables,
            "UPDATE winners SET hash = ? WHERE record_id = ?", read_winner);
  hash_rows(db, "SELECT b.rowid, " + kBaselineColumns + " FROM " + kBaselineTables,
            "UPDATE baselines SET hash = ? WHERE rowid = ?", read_baseline);
  hash_rows(db, "SELECT s.id, " + kSearchColumns + " FROM " + kSearchTables,
            "UPDATE searches SET hash = ? WHERE id = ?", read_search);
}

}  // namespace tilewise
