#include <string>

#include "db/tables.hpp"

// Schema version 6: energy per product and power limit of a measurement, objective of a winner and
// of a search.
namespace tilewise {
namespace {

bool has_column(const Connection& db, const std::string& table, const std::string& column) {
  Query query = db.query("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return query.bind(table, column).step();
}

}  // namespace

void add_energy_columns(const Connection& db) {
  for (const std::string table : {"records", "baselines"}) {
    if (has_column(db, table, "energy_mj")) continue;
    // Processes of an older version that have the file open add rows without these columns.
    db.execute("ALTER TABLE " + table + " ADD COLUMN energy_mj REAL DEFAULT 0; ALTER TABLE " +
               table + " ADD COLUMN power_limit_w REAL DEFAULT 0");
  }
  for (const std::string table : {"winners", "searches"})
    if (!has_column(db, table, "objective"))
      db.execute("ALTER TABLE " + table + " ADD COLUMN objective TEXT NOT NULL DEFAULT 'time'");
}

}  // namespace tilewise
