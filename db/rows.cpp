#include "db/rows.hpp"

#include <array>
#include <ctime>
#include <string_view>
#include <vector>

#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  std::string name;
  for (const char letter : std::string(list) + ",") {
    if (letter == ',') {
      names.push_back(std::move(name));
      name.clear();
    } else if (letter != ' ') {
      name += letter;
    }
  }
  return names;
}

/// "m = ? AND n = ?", with `between` = " AND ".
std::string each(const std::string& names, const std::string& between) {
  return join(names_in(names), between, [](const std::string& name) { return name + " = ?"; });
}

const std::string kEnvironmentNames = Columns::of<Environment>("e").names();

void bind_problem(Query& query, const Problem& problem) {
  BindFields bind(query);
  fields(bind, problem);
}

/// Whether the row found by the index has the problem; a damaged row may not.
bool is_problem(const Connection& connection, std::int64_t id, const Problem& problem) {
  Query query =
      connection.query("SELECT " + kProblemColumns + " FROM problems AS p WHERE p.id = ?");
  if (!query.bind(id).step()) return false;
  try {
    return read_problem(query) == problem;
  } catch (const Error&) {
    return false;
  }
}

void mend_problem(const Connection& connection, std::int64_t id, const Problem& problem) {
  Query query =
      connection.query("UPDATE problems SET " + each(kProblemNames, ", ") + " WHERE id = ?");
  bind_problem(query, problem);
  query.bind(id).run();
}

}  // namespace

Problem read_problem(Query& row) {
  Problem problem;
  ReadFields read(row);
  read("", problem);
  return problem;
}

std::optional<std::int64_t> find_problem(const Connection& connection, const Problem& problem) {
  static const std::string sql = "SELECT id FROM problems WHERE " + each(kProblemNames, " AND ");
  Query query = connection.query(sql);
  bind_problem(query, problem);
  if (!query.step()) return {};
  return query.next<std::int64_t>();
}

std::int64_t put_problem(const Connection& connection, const Problem& problem) {
  if (const auto id = find_problem(connection, problem)) {
    if (!is_problem(connection, *id, problem)) mend_problem(connection, *id, problem);
    return *id;
  }
  static const std::string sql = "INSERT INTO problems (" + kProblemNames + ") VALUES (" +
                                 marks(kProblemNames) + ") RETURNING id";
  Query query = connection.query(sql);
  bind_problem(query, problem);
  query.step();
  return query.next<std::int64_t>();
}

std::int64_t put_environment(const Connection& connection, const Environment& environment) {
  // An update of an existing row returns the id and repairs a damaged row.
  static const std::string sql =
      upsert("environments", kEnvironmentNames, kEnvironmentNames) + " RETURNING id";
  Query query = connection.query(sql);
  BindFields(query).bind_shared(environment);
  query.step();
  return query.next<std::int64_t>();
}

std::string marks(const std::string& names) {
  return join(names_in(names), ", ", [](const std::string&) { return "?"; });
}

std::string upsert(const std::string& table, const std::string& keys, const std::string& names) {
  const std::string updates = join(
      names_in(names), ", ", [](const std::string& name) { return name + " = excluded." + name; });
  return "INSERT INTO " + table + " (" + names + ") VALUES (" + marks(names) + ") ON CONFLICT (" +
         keys + ") DO UPDATE SET " + updates;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace tilewise
