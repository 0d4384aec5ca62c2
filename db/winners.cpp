#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kSelect = "SELECT " + kRecordColumns + ", w.since, w.quarantined FROM " +
                            kRecordTables + " JOIN winners AS w ON w.record_id = r.id";

Winner read_winner(Query& row) {
  Winner winner;
  winner.record = read_record(row);
  row.read(winner.since, winner.quarantined);
  return winner;
}

}  // namespace

void put_winner(const Connection& connection, std::int64_t record_id, const std::string& since,
                const std::string& quarantined) {
  // The same record again keeps its date.
  connection
      .query(
          "INSERT INTO winners (problem_id, gpu, record_id, since, quarantined) "
          "SELECT problem_id, gpu, id, ?, ? FROM records WHERE id = ? "
          "ON CONFLICT (problem_id, gpu) DO UPDATE SET "
          "since = iif(record_id = excluded.record_id, since, excluded.since), "
          "record_id = excluded.record_id, quarantined = excluded.quarantined")
      .bind(since, quarantined, record_id)
      .run();
}

void Database::set_winner(std::int64_t record_id) {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db);
  std::string outcome;
  {
    Query query = db.query("SELECT outcome FROM records WHERE id = ?");
    if (query.bind(record_id).step()) query.read(outcome);
  }
  if (outcome != to_string(Outcome::ok)) {
    throw Error(ErrorKind::invalid_argument,
                "record " + std::to_string(record_id) + " cannot be a winner: " +
                    (outcome.empty() ? "there is no such record in " + db.path().string()
                                     : "its outcome is " + outcome + ", not ok"));
  }
  put_winner(db, record_id, utc_now(), "");
  transaction.commit();
}

std::optional<Winner> Database::winner(const Problem& problem, const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  const auto id = find_problem(state_->connection, problem);
  if (!id) return {};
  Query query = state_->connection.query(kSelect + " WHERE w.problem_id = ? AND w.gpu = ?");
  query.bind(*id, gpu);
  auto found = state_->rows(query, "winner", read_winner);
  if (found.empty()) return {};
  return std::move(found.front());
}

std::vector<Winner> Database::winners(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(
      kSelect + " WHERE ? IN (w.gpu, '') ORDER BY w.gpu, p.m, p.n, p.k, p.layout, r.id");
  query.bind(gpu);
  return state_->rows(query, "winner", read_winner);
}

void Database::quarantine(std::int64_t record_id, const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  Transaction transaction(state_->connection);
  state_->connection.query("UPDATE winners SET quarantined = ? WHERE record_id = ?")
      .bind(why, record_id)
      .run();
  transaction.commit();
}

}  // namespace tilewise
