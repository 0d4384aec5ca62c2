#include <bit>

#include "db/sqlite_error.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

constexpr const char* kInsert =
    "INSERT INTO searches (problem_id, gpu, strategy, seed, space, budget_seconds, "
    "max_evaluations, finished, evaluations, seconds, date) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id";
constexpr const char* kUpdate =
    "UPDATE searches SET problem_id = ?, gpu = ?, strategy = ?, seed = ?, space = ?, "
    "budget_seconds = ?, max_evaluations = ?, finished = ?, evaluations = ?, seconds = ?, date = ? "
    "WHERE id = ?";

void bind_search(Query& query, std::int64_t problem, const Search& s) {
  // SQLite's integers are signed: the seed keeps its bits.
  query.bind(problem, s.gpu, s.strategy, std::bit_cast<std::int64_t>(s.seed), s.space,
             s.budget_seconds, s.max_evaluations, s.finished, s.evaluations, s.seconds, s.date);
}

}  // namespace

Search read_search(Query& row) {
  Search s;
  row.read(s.id);
  s.problem = read_problem(row);
  std::int64_t seed = 0;
  row.read(s.gpu, s.strategy, seed, s.space, s.budget_seconds, s.max_evaluations, s.finished,
           s.evaluations, s.seconds, s.date);
  s.seed = std::bit_cast<std::uint64_t>(seed);
  return s;
}

std::int64_t add_search(const Connection& connection, const Search& search) {
  const std::int64_t problem = put_problem(connection, search.problem);
  Query query = connection.query(kInsert);
  bind_search(query, problem, search);
  query.step();
  return query.next<std::int64_t>();
}

std::int64_t Database::add(const Search& search) {
  const std::lock_guard lock(state_->mutex);
  Transaction transaction(state_->connection);
  const std::int64_t id = add_search(state_->connection, search);
  transaction.commit();
  return id;
}

void Database::update(const Search& search) {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db);
  const std::int64_t problem = put_problem(db, search.problem);
  {
    Query query = db.query(kUpdate);
    bind_search(query, problem, search);
    query.bind(search.id).run();
  }
  if (db.changes() == 0) {
    throw database_error(db.path(), "there is no search " + std::to_string(search.id) +
                                        " to update; it was removed meanwhile");
  }
  transaction.commit();
}

std::vector<Search> Database::searches(const Problem& problem, const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  const auto id = find_problem(state_->connection, problem);
  if (!id) return {};
  Query query = state_->connection.query("SELECT " + kSearchColumns + " FROM " + kSearchTables +
                                         " WHERE s.problem_id = ? AND s.gpu = ? ORDER BY s.id");
  query.bind(*id, gpu);
  return state_->rows(query, "search", read_search);
}

}  // namespace tilewise
