#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kUpsertBaseline =
    upsert("baselines", "problem_id, gpu, library, version, variant",
           Columns::of<Baseline>("b").names() + ", hash");

const std::string kInsertBaseline =
    kUpsertBaseline.substr(0, kUpsertBaseline.find(" DO UPDATE")) + " DO NOTHING";

}  // namespace

Baseline read_baseline(Query& row) {
  return read_hashed<Baseline>(
      row, [](const Baseline& baseline) { return "a baseline of " + to_string(baseline.problem); });
}

void put_baseline(const Connection& connection, const Baseline& baseline, Replace replace) {
  const std::int64_t problem = put_problem(connection, baseline.problem);
  const std::int64_t environment = put_environment(connection, baseline.environment);
  Query query = connection.query(replace == Replace::always ? kUpsertBaseline : kInsertBaseline);
  bind_hashed(query, baseline, problem, environment);
  query.run();
}

void Database::add(const Baseline& baseline) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) { put_baseline(db, baseline, Replace::always); });
}

std::vector<Baseline> Database::baselines(const std::optional<Problem>& problem,
                                          const std::string& gpu) const {
  const std::lock_guard lock(state_->mutex);
  std::string sql = "SELECT " + kBaselineColumns + " FROM " + kBaselineTables +
                    " WHERE ? IN (b.gpu, '')" + (problem ? " AND b.problem_id = ?" : "") +
                    " ORDER BY p.m, p.n, p.k, p.layout, p.id, b.gpu, library, version, b.variant";
  Query query = state_->connection.query(sql);
  query.bind(gpu);
  if (problem) query.bind(find_problem(state_->connection, *problem).value_or(0));
  return state_->rows(query, "baseline", [](Query& row) { return read_baseline(row); });
}

}  // namespace tilewise
