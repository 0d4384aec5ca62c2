#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kKeys = "problem_id, gpu, kernel_template, configuration, source_hash";
const std::string kValues = "launch_revision, outcome, detail, " + kMeasurementColumns + ", " +
                            kUsageColumns +
                            ", compile_ms, error_ratio, normwise_error, predicted_us, "
                            "environment_id, date";

}  // namespace

Record read_record(Query& row) {
  Record record;
  row.read(record.id);
  record.problem = read_problem(row);
  std::string configuration, outcome;
  row.read(record.gpu, record.candidate.kernel_template, configuration, record.source_hash,
           record.launch_revision, outcome, record.detail);
  record.candidate.configuration = Configuration::parse(configuration);
  record.outcome = parse_outcome(outcome);
  record.measurement = read_measurement(row);
  record.usage = read_usage(row);
  row.read(record.compile_ms, record.error_ratio, record.normwise_error, record.predicted_us);
  record.environment = read_environment(row);
  row.read(record.environment.date);
  return record;
}

RecordCondition::RecordCondition(const Connection& connection, const RecordFilter& filter)
    : gpu_(filter.gpu), kernel_template_(filter.kernel_template), limit_(filter.limit) {
  const auto add = [this](const char* condition) {
    sql_ += (sql_.empty() ? " WHERE " : " AND ") + std::string(condition);
  };
  if (filter.problem) {
    problem_ = find_problem(connection, *filter.problem).value_or(0);  // 0 is no id: finds nothing
    add("r.problem_id = ?");
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
  for (const std::string* text : {&gpu_, &kernel_template_, &outcome_}) {
    if (!text->empty()) query.bind(*text);
  }
  if (limit_ > 0) query.bind(limit_);
}

std::int64_t put_record(const Connection& connection, const Record& record) {
  const std::int64_t problem = put_problem(connection, record.problem);
  const std::int64_t environment = put_environment(connection, record.environment);
  static const std::string sql = upsert("records", kKeys, kValues) + " RETURNING id";
  std::int64_t id = 0;
  {
    Query query = connection.query(sql);
    query.bind(problem, record.gpu, record.candidate.kernel_template,
               record.candidate.configuration.text(), record.source_hash, record.launch_revision,
               to_string(record.outcome), record.detail);
    bind_measurement(query, record.measurement);
    bind_usage(query, record.usage);
    query.bind(record.compile_ms, record.error_ratio, record.normwise_error, record.predicted_us,
               environment, record.environment.date);
    query.step();
    id = query.next<std::int64_t>();
  }
  if (record.outcome != Outcome::ok) {
    connection.query("UPDATE winners SET quarantined = ? WHERE record_id = ?")
        .bind(std::string(to_string(record.outcome)) + ": " + record.detail, id)
        .run();
  }
  return id;
}

std::int64_t Database::add(const Record& record) {
  const std::lock_guard lock(state_->mutex);
  Transaction transaction(state_->connection);
  const std::int64_t id = put_record(state_->connection, record);
  transaction.commit();
  return id;
}

std::vector<Record> Database::records(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  const RecordCondition condition(state_->connection, filter);
  Query query = state_->connection.query("SELECT " + kRecordColumns + " FROM " + kRecordTables +
                                         condition.sql());
  condition.bind(query);
  return state_->rows(query, "record", read_record);
}

std::optional<Record> Database::record(std::int64_t id) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT " + kRecordColumns + " FROM " + kRecordTables +
                                         " WHERE r.id = ?");
  query.bind(id);
  auto found = state_->rows(query, "record", read_record);
  if (found.empty()) return {};
  return std::move(found.front());
}

std::vector<std::string> Database::gpus() const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT DISTINCT gpu FROM records ORDER BY gpu");
  return state_->rows(query, "GPU", [](Query& row) { return row.next<std::string>(); });
}

}  // namespace tilewise
