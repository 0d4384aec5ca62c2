#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kNames = Columns::of<Search>("s").names() + ", hash";

}  // namespace

Search read_search(Query& row) {
  return read_hashed<Search>(
      row, [](const Search& search) { return "search " + std::to_string(search.id); });
}

std::int64_t add_search(const Connection& connection, const Search& search) {
  const std::int64_t problem = put_problem(connection, search.problem);
  Query query = connection.query("INSERT INTO searches (" + kNames + ") VALUES (" + marks(kNames) +
                                 ") RETURNING id");
  bind_hashed(query, search, problem);
  query.step();
  return query.next<std::int64_t>();
}

std::int64_t Database::add(const Search& search) {
  const std::lock_guard lock(state_->mutex);
  std::int64_t id = 0;
  state_->write([&](const Connection& db) { id = add_search(db, search); });
  return id;
}

void Database::update(const Search& search) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    const std::int64_t problem = put_problem(db, search.problem);
    {
      Query query =
          db.query("UPDATE searches SET (" + kNames + ") = (" + marks(kNames) + ") WHERE id = ?");
      bind_hashed(query, search, problem);
      query.bind(search.id).run();
    }
    if (db.changes() == 0) {
      throw database_error(db.path(), "there is no search " + std::to_string(search.id) +
                                          " to update; it was removed meanwhile");
    }
  });
}

std::vector<Search> Database::searches(const Problem& problem, const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  const auto id = find_problem(state_->connection, problem);
  if (!id) return {};
  Query query = state_->connection.query("SELECT " + kSearchColumns + " FROM " + kSearchTables +
                                         " WHERE s.problem_id = ? AND s.gpu = ? ORDER BY s.id");
  query.bind(*id, gpu);
  return state_->rows(query, "search", [](Query& row) { return read_search(row); });
}

}  // namespace tilewise
