#include "db/state.hpp"
#include "db/tables.hpp"

// The facts of devices with stored records.
namespace tilewise {

DeviceFacts read_device(Query& row) {
  return read_hashed<DeviceFacts>(
      row, [](const DeviceFacts& facts) { return "the facts of " + facts.gpu; });
}

void put_device(const Connection& db, const DeviceFacts& facts) {
  static const std::string names = Columns::of<DeviceFacts>("d").names() + ", hash";
  Query query =
      db.query("INSERT OR REPLACE INTO devices (" + names + ") VALUES (" + marks(names) + ")");
  bind_hashed(query, facts);
  query.run();
}

bool has_device(const Connection& db, const std::string& gpu) {
  return db.query("SELECT 1 FROM devices WHERE gpu = ?").bind(gpu).step();
}

std::optional<DeviceFacts> Database::device(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  Query query =
      state_->connection.query("SELECT " + kDeviceColumns + " FROM devices AS d WHERE gpu = ?");
  query.bind(gpu);
  auto found = state_->rows(query, "row of devices", read_device);
  // A damaged index may return another row.
  if (found.empty() || found.front().gpu != gpu) return {};
  return std::move(found.front());
}

void Database::put(const DeviceFacts& facts) {
  const std::optional<DeviceFacts> stored = device(facts.gpu);
  DeviceFacts now = facts;
  if (stored) {
    if (!(now.power_limit_w > 0)) now.power_limit_w = stored->power_limit_w;
    DeviceFacts same = now;
    same.date = stored->date;
    if (same == *stored) return;
  }
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) { put_device(db, now); });
}

}  // namespace tilewise
