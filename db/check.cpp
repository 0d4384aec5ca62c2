#include <set>
#include <utility>

#include "db/state.hpp"
#include "db/tables.hpp"

// Checks every row against its hash (`autotune db check`).
namespace tilewise {
namespace {

/// Reads a whole image. Throws DamagedRow if it does not match its hash or is set aside.
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

/// The damaged rows without duplicates.
class Damage {
 public:
  void add(const std::string& table, std::int64_t row, std::string what) {
    if (known_.emplace(table, row).second) places_.push_back({table, row, std::move(what)});
  }
  bool has(const std::string& table, std::int64_t row) const {
    return known_.contains({table, row});
  }
  std::vector<DamagedPlace> take() { return std::move(places_); }

 private:
  std::vector<DamagedPlace> places_;
  std::set<std::pair<std::string, std::int64_t>> known_;
};

/// Reads every row of `sql`, whose first column is its rowid, and passes damage to `damaged`. A row
/// of a newer version is not damaged.
template <class Read, class Damaged>
void check_rows(const Connection& db, const std::string& sql, Read read, Damaged damaged) {
  Query query = db.query(sql);
  while (query.step()) {
    const auto row = query.next<std::int64_t>();
    try {
      read(query);
    } catch (const DamagedRow& error) {
      damaged(row, error.what());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
    }
  }
}

void check_references(const Connection& db, Damage& damage) {
  Query query = db.query("PRAGMA foreign_key_check");
  while (query.step()) {
    const auto table = query.next<std::string>();
    const auto row = query.next<std::int64_t>();
    damage.add(table, row,
               "row " + std::to_string(row) + " of " + table + " refers to a row of " +
                   query.next<std::string>() + " that is not there");
  }
}

/// A damaged record also damages its winner; it is listed once, as a record.
void check_records(const Connection& db, Damage& damage) {
  std::int64_t record = 0;
  bool is_winner = false;
  check_rows(
      db,
      "SELECT r.id, r.id IN (SELECT record_id FROM winners), " + kRecordColumns + " FROM " +
          kRecordTables,
      [&](Query& row) {
        row.read(is_winner);
        read_record(row);
      },
      [&](std::int64_t row, const std::string& what) {
        damage.add("records", row, what + (is_winner ? "; it is a winner" : ""));
      });
  check_rows(
      db, "SELECT w.rowid, r.id, " + kWinnerColumns + " FROM " + kWinnerTables,
      [&](Query& row) {
        row.read(record);
        read_winner(row);
      },
      [&](std::int64_t row, const std::string& what) {
        if (!damage.has("records", record)) damage.add("winners", row, what);
      });
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
  for (DamagedPlace& place : damaged_rows(db)) damage.push_back(std::move(place.what));
  return damage;
}

std::vector<DamagedPlace> damaged_rows(const Connection& db) {
  Damage damage;
  const auto check = [&](const char* table, const std::string& sql, auto read) {
    check_rows(db, sql, read,
               [&](std::int64_t row, const std::string& what) { damage.add(table, row, what); });
  };
  check_references(db, damage);
  check_records(db, damage);
  check("baselines", "SELECT b.rowid, " + kBaselineColumns + " FROM " + kBaselineTables,
        [](Query& row) { read_baseline(row); });
  check("searches", "SELECT s.id, " + kSearchColumns + " FROM " + kSearchTables,
        [](Query& row) { read_search(row); });
  check("corrections", "SELECT rowid, " + kCorrectionColumns + " FROM corrections",
        read_corrections);
  check("orders", "SELECT o.rowid, " + kOrderColumns + " FROM " + kOrderTables, read_order);
  check("devices", "SELECT rowid, " + kDeviceColumns + " FROM devices AS d", read_device);
  check("images",
        "SELECT id, " + kImageColumns + ", log, unpacked(binary), hash, refused FROM images",
        read_checked_image);
  return damage.take();
}

}  // namespace tilewise
