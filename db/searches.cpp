#include <bit>

#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

constexpr const char* kInsert =
    "INSERT INTO searches (problem_id, gpu, strategy, seed, space, sources, budget_seconds, "
    "max_evaluations, finished, evaluations, seconds, date, objective, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id";
constexpr const char* kUpdate =
    "UPDATE searches SET problem_id = ?, gpu = ?, strategy = ?, seed = ?, space = ?, sources = ?, "
    "budget_seconds = ?, max_evaluations = ?, finished = ?, evaluations = ?, seconds = ?, "
    "date = ?, objective = ?, hash = ? WHERE id = ?";

void bind_search(Query& query, std::int64_t problem, const Search& s) {
  // SQLite's integers are signed: the seed is stored bit by bit.
  query.bind(problem, s.gpu, s.strategy, std::bit_cast<std::int64_t>(s.seed), s.space, s.sources,
             s.budget_seconds, s.max_evaluations, s.finished, s.evaluations, s.seconds, s.date,
             to_string(s.objective), row_hash(s));
}

}  // namespace

Search read_search(Query& row, std::string* unchecked) {
  Search s;
  row.read(s.id);
  s.problem = read_problem(row);
  std::int64_t seed = 0;
  std::string objective, hash;
  row.read(s.gpu, s.strategy, seed, s.space, s.sources, s.budget_seconds, s.max_evaluations,
           s.finished, s.evaluations, s.seconds, s.date, objective, hash);
  s.objective = parse_objective(objective);
  s.seed = std::bit_cast<std::uint64_t>(seed);
  require_hash(s, std::move(hash), "search " + std::to_string(s.id), unchecked);
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
  std::int64_t id = 0;
  state_->write([&](const Connection& db) { id = add_search(db, search); });
  return id;
}

void Database::update(const Search& search) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
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
