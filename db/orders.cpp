#include "db/state.hpp"
#include "db/tables.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/sum_order.hpp"

// The orders of sums that are kept for invariant products.
namespace tilewise {

KeptOrder read_order(Query& row) {
  return read_hashed<KeptOrder>(
      row, [](const KeptOrder& order) { return "the order of " + to_string(order.problem); });
}

void put_order(const Connection& db, const KeptOrder& order, Replace replace) {
  static const std::string names = Columns::of<KeptOrder>("o").names() + ", hash";
  const std::string how = replace == Replace::always ? "REPLACE" : "IGNORE";
  const std::int64_t problem = put_problem(db, order.problem);
  Query query =
      db.query("INSERT OR " + how + " INTO orders (" + names + ") VALUES (" + marks(names) + ")");
  bind_hashed(query, order, problem);
  query.run();
}

void Database::put(const KeptOrder& order) {
  if (order.problem != order_key(order.problem))
    throw Error(ErrorKind::invalid_argument,
                "an order is kept for products of one row, not for " + to_string(order.problem));
  (void)parse_sum_order(order.sum_order);
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) { put_order(db, order, Replace::always); });
}

std::optional<KeptOrder> Database::order(const Problem& key, const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  const auto id = find_problem(state_->connection, key);
  if (!id) return {};
  Query query = state_->connection.query("SELECT " + kOrderColumns + " FROM " + kOrderTables +
                                         " WHERE o.problem_id = ? AND o.gpu = ?");
  query.bind(*id, gpu);
  if (!query.step()) return {};
  try {
    KeptOrder found = read_order(query);
    if (found.problem != key || found.gpu != gpu)
      throw DamagedRow("the order of " + to_string(key) + " is another's");
    return found;
  } catch (const DamagedRow& damage) {
    throw database_error(state_->connection.path(), damage.what());
  }
}

std::vector<KeptOrder> Database::orders(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT " + kOrderColumns + " FROM " + kOrderTables +
                                         " WHERE ? IN (o.gpu, '') ORDER BY o.gpu, p.n, p.k, p.id");
  query.bind(gpu);
  return state_->rows(query, "order", read_order);
}

}  // namespace tilewise
