#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kUpsert =
    upsert("records", "problem_id, gpu, kernel_template, configuration, source_hash",
           Columns::of<Record>("r").names() + ", hash") +
    " RETURNING id";

}  // namespace

Record read_record(Query& row) {
  return read_hashed<Record>(
      row, [](const Record& record) { return "record " + std::to_string(record.id); });
}

RecordCondition::RecordCondition(const Connection& connection, const RecordFilter& filter)
    : gpu_(filter.gpu), kernel_template_(filter.kernel_template), limit_(filter.limit) {
  const auto add = [this](const char* condition) {
    sql_ += (sql_.empty() ? " WHERE " : " AND ") + std::string(condition);
  };
  if (filter.problem) {
    problem_ = find_problem(connection, *filter.problem).value_or(0);  // 0 matches no row
    add("r.problem_id = ?");
  }
  if (filter.types) {
    const Problem& p = *filter.types;
    for (const DType type : {p.a.type, p.b.type, p.c.type, p.accumulator})
      types_.emplace_back(to_string(type));
    types_.emplace_back(to_string(p.math));
    for (const char* column : {"a_type", "b_type", "c_type", "accumulator", "math"})
      add((std::string("p.") + column + " = ?").c_str());
  }
  if (!gpu_.empty()) add("r.gpu = ?");
  if (!kernel_template_.empty()) add("r.kernel_template = ?");
  if (filter.outcome) {
    outcome_ = to_string(*filter.outcome);
    add("r.outcome = ?");
  }
  sql_ += limit_ > 0 ? " ORDER BY r.date DESC, r.id DESC LIMIT ?" : " ORDER BY r.id";
}

void RecordCondition::bind(Query& query) const {
  if (problem_) query.bind(*problem_);
  for (const std::string& type : types_) query.bind(type);
  for (const std::string* text : {&gpu_, &kernel_template_, &outcome_}) {
    if (!text->empty()) query.bind(*text);
  }
  if (limit_ > 0) query.bind(limit_);
}

std::int64_t put_record(const Connection& connection, const Record& record) {
  const std::int64_t problem = put_problem(connection, record.problem);
  const std::int64_t environment = put_environment(connection, record.environment);
  std::int64_t id = 0;
  {
    Query query = connection.query(kUpsert);
    bind_hashed(query, record, problem, environment);
    query.step();
    id = query.next<std::int64_t>();
  }
  if (record.outcome != Outcome::ok) {
    quarantine_winner(connection, id,
                      std::string(to_string(record.outcome)) + ": " + record.detail);
  }
  return id;
}

std::int64_t Database::add(const Record& record) {
  const std::lock_guard lock(state_->mutex);
  std::int64_t id = 0;
  state_->write([&](const Connection& db) { id = put_record(db, record); });
  return id;
}

std::vector<std::int64_t> Database::add_all(const std::vector<Record>& records) {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::int64_t> ids;
  state_->write([&](const Connection& db) {
    ids.clear();  // of an attempt that failed
    for (const Record& record : records) ids.push_back(put_record(db, record));
  });
  return ids;
}

void Database::renew(std::int64_t record_id, const std::string& source_hash,
                     const std::string& launch_revision) {
  const std::optional<Record> stored = record(record_id);
  if (!stored) return;
  Record renewed = *stored;
  renewed.source_hash = source_hash;
  renewed.launch_revision = launch_revision;
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    db.query(
          "UPDATE OR IGNORE records SET source_hash = ?, launch_revision = ?, hash = ? WHERE id = "
          "?")
        .bind(source_hash, launch_revision, row_hash(renewed), record_id)
        .run();
    std::string quarantined;
    bool is_winner = false;
    {
      Query query = db.query("SELECT quarantined FROM winners WHERE record_id = ?");
      is_winner = query.bind(record_id).step();
      if (is_winner) query.read(quarantined);
    }
    if (is_winner) put_winner(db, record_id, "", quarantined);  // its hash has the record's key
  });
}

std::vector<Record> Database::records(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  const RecordCondition condition(state_->connection, filter);
  Query query = state_->connection.query("SELECT " + kRecordColumns + " FROM " + kRecordTables +
                                         condition.sql());
  condition.bind(query);
  return state_->rows(query, "record", [](Query& row) { return read_record(row); });
}

std::optional<Record> Database::record(std::int64_t id) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT " + kRecordColumns + " FROM " + kRecordTables +
                                         " WHERE r.id = ?");
  query.bind(id);
  auto found = state_->rows(query, "record", [](Query& row) { return read_record(row); });
  if (found.empty()) return {};
  return std::move(found.front());
}

std::int64_t Database::count(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  const RecordCondition condition(state_->connection, filter);
  Query query = state_->connection.query("SELECT count(*) FROM (SELECT r.id FROM " + kRecordTables +
                                         condition.sql() + ")");
  condition.bind(query);
  return query.step() ? query.next<std::int64_t>() : 0;
}

std::vector<Database::StoredProblem> Database::problems(const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(
      "SELECT r.gpu, count(*), " + kProblemColumns +
      " FROM records AS r JOIN problems AS p ON p.id = r.problem_id WHERE ? IN (r.gpu, '') "
      "GROUP BY r.gpu, p.id ORDER BY r.gpu, p.m, p.n, p.k, p.layout, p.id");
  query.bind(gpu);
  return state_->rows(query, "problem", [](Query& row) {
    StoredProblem stored;
    row.read(stored.gpu, stored.records);
    stored.problem = read_problem(row);
    return stored;
  });
}

std::vector<std::string> Database::gpus() const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT DISTINCT gpu FROM records ORDER BY gpu");
  return state_->rows(query, "GPU", [](Query& row) { return row.next<std::string>(); });
}

}  // namespace tilewise
