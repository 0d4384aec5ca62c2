#include <algorithm>
#include <string_view>
#include <tuple>

#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kSelect = "SELECT " + kWinnerColumns + " FROM " + kWinnerTables;

Error no_winner(const Connection& db, std::int64_t record_id, const std::string& why) {
  return {ErrorKind::invalid_argument, "record " + std::to_string(record_id) + " of the database " +
                                           db.path().string() + " cannot be served: " + why};
}

Record record_of(const Connection& db, std::int64_t record_id) {
  Query query = db.query("SELECT " + kRecordColumns + " FROM " + kRecordTables + " WHERE r.id = ?");
  if (!query.bind(record_id).step()) throw no_winner(db, record_id, "there is no such record");
  try {
    return read_record(query);
  } catch (const DamagedRow& damage) {
    throw no_winner(db, record_id, damage.what());
  }
}

/// Sorts by GPU, size and layout. SQLite's sort would copy each row, which takes longer.
std::vector<Winner> in_order(std::vector<Winner> winners) {
  std::vector<Winner*> order;
  for (Winner& winner : winners) order.push_back(&winner);
  const auto key = [](const Winner* w) {
    const Problem& p = w->record.problem;
    return std::tuple<const std::string&, std::int64_t, std::int64_t, std::int64_t,
                      std::string_view, std::int64_t>(w->record.gpu, p.m, p.n, p.k,
                                                      to_string(layout_of(p)), w->record.id);
  };
  std::sort(order.begin(), order.end(),
            [&](const Winner* x, const Winner* y) { return key(x) < key(y); });
  std::vector<Winner> sorted;
  sorted.reserve(winners.size());
  for (Winner* winner : order) sorted.push_back(std::move(*winner));
  return sorted;
}

Error not_ok(const Connection& db, const Record& record) {
  return no_winner(db, record.id,
                   "its outcome is " + std::string(to_string(record.outcome)) + ", not ok");
}

}  // namespace

Winner read_winner(Query& row) {
  Winner winner{read_record(row), {}, {}};
  ReadFields read(row);
  fields(read, winner);
  std::string hash;
  bool fits = false;
  row.read(hash, fits);
  const std::string name = "the winner that is record " + std::to_string(winner.record.id);
  if (!fits) throw DamagedRow(name + " is kept for another problem or GPU");
  require_hash(winner, hash, name);
  return winner;
}

void put_winner(const Connection& connection, std::int64_t record_id, const std::string& since,
                const std::string& quarantined, std::optional<Objective> objective) {
  Winner winner{record_of(connection, record_id), since, quarantined,
                objective.value_or(Objective::time)};
  {
    Query query = connection.query("SELECT since, objective FROM winners WHERE record_id = ?");
    if (query.bind(record_id).step()) {
      std::string stored;
      query.read(winner.since, stored);
      if (!objective) winner.objective = named<Objective>(stored).value_or(Objective::time);
    }
  }
  // A damaged row may have this record as the winner of another problem.
  connection
      .query(
          "DELETE FROM winners WHERE record_id = ?1 AND (problem_id, gpu) NOT IN "
          "(SELECT problem_id, gpu FROM records WHERE id = ?1)")
      .bind(record_id)
      .run();
  static const std::string names =
      "problem_id, gpu, record_id, " + Columns::of<Winner>("w").names() + ", hash";
  std::int64_t problem = 0;
  {
    Query query = connection.query("SELECT problem_id FROM records WHERE id = ?");
    if (query.bind(record_id).step()) query.read(problem);
  }
  Query query = connection.query(upsert("winners", "problem_id, gpu", names));
  query.bind(problem, winner.record.gpu, record_id);
  BindFields bind(query);
  fields(bind, winner);
  query.bind(row_hash(winner)).run();
}

void quarantine_winner(const Connection& connection, std::int64_t record_id,
                       const std::string& why) {
  bool is_winner = false;
  {
    Query query = connection.query("SELECT 1 FROM winners WHERE record_id = ?");
    is_winner = query.bind(record_id).step();
  }
  if (is_winner) put_winner(connection, record_id, "", why);
}

void Database::set_winner(std::int64_t record_id, Objective objective) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    if (const Record record = record_of(db, record_id); record.outcome != Outcome::ok)
      throw not_ok(db, record);
    put_winner(db, record_id, utc_now(), "", objective);
  });
}

std::optional<Winner> Database::winner(const Problem& problem, const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  const auto id = find_problem(state_->connection, problem);
  if (!id) return {};
  Query query = state_->connection.query(kSelect + " WHERE w.problem_id = ? AND w.gpu = ?");
  query.bind(*id, gpu);
  auto found = state_->rows(query, "winner", [](Query& row) { return read_winner(row); });
  // A damaged index may return another problem's row.
  if (found.empty() || found.front().record.problem != problem) return {};
  return std::move(found.front());
}

std::vector<Winner> Database::winners(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(kSelect + " WHERE ? IN (w.gpu, '')");
  query.bind(gpu);
  return in_order(state_->rows(query, "winner", [](Query& row) { return read_winner(row); }));
}

void put_general(const Connection& connection, std::int64_t record_id) {
  // A damaged row may have the record for another problem.
  connection.query("DELETE FROM general WHERE record_id = ?").bind(record_id).run();
  connection
      .query(
          "INSERT OR REPLACE INTO general (problem_id, gpu, record_id) "
          "SELECT problem_id, gpu, id FROM records WHERE id = ?")
      .bind(record_id)
      .run();
}

void Database::set_general(std::int64_t record_id) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    if (const Record record = record_of(db, record_id); record.outcome != Outcome::ok)
      throw not_ok(db, record);
    put_general(db, record_id);
  });
}

std::vector<Record> Database::general(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  // Selects by id: with a join SQLite would read all records.
  Query query = state_->connection.query(
      "SELECT " + kRecordColumns + " FROM " + kRecordTables +
      " WHERE r.id IN (SELECT record_id FROM general) AND ? IN (r.gpu, '') AND r.outcome = 'ok' "
      "ORDER BY r.gpu, p.m, p.n, p.k, p.layout, r.id");
  query.bind(gpu);
  return state_->rows(query, "general record", [](Query& row) { return read_record(row); });
}

std::vector<Problem> Database::problems_faster_than_baselines(double share) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(
      "SELECT " + kProblemColumns +
      " FROM winners w JOIN records r ON r.id = w.record_id JOIN problems p ON p.id = w.problem_id"
      " WHERE w.quarantined = '' AND r.median_us < ? *"
      " (SELECT min(b.median_us) FROM baselines b"
      "  WHERE b.problem_id = w.problem_id AND b.gpu = w.gpu AND b.median_us > 0)");
  query.bind(share);
  return state_->rows(query, "problem", read_problem);
}

void Database::quarantine(std::int64_t record_id, const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) { quarantine_winner(db, record_id, why); });
}

}  // namespace tilewise
