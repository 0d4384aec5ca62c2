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
    db.execute("ALTER TABLE " + table + " ADD COLUMN energy_mj REAL; ALTER TABLE " + table +
               " ADD COLUMN power_limit_w REAL; UPDATE " + table +
               " SET energy_mj = 0, power_limit_w = 0 WHERE samples IS NOT NULL");
  }
  for (const std::string table : {"winners", "searches"})
    if (!has_column(db, table, "objective"))
      db.execute("ALTER TABLE " + table + " ADD COLUMN objective TEXT NOT NULL DEFAULT 'time'");
}

}  // namespace tilewise
