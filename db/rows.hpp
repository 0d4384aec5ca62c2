#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "db/columns.hpp"
#include "db/database.hpp"
#include "db/row_hash.hpp"
#include "db/sqlite.hpp"

// Rows that others refer to, and helpers for all statements.
namespace tilewise {

/// A winner's fields other than its record.
template <class Visit>
void fields(Visit& visit, Some<Winner> auto& x) {
  visit("since", x.since, {.text = Field::Text::date});
  visit("quarantined", x.quarantined, {.text = Field::Text::message});
  visit("objective", x.objective, {.since = 6});
}

/// The columns of the table `problems` (alias p), without id, and the form for reading.
inline const std::string kProblemNames = Columns::of<Problem>("p").names();
inline const std::string kProblemColumns = Columns::of<Problem>("p").selected();
/// Throws Error(invalid_argument) for an unknown name or variant.
Problem read_problem(Query& row);
/// The problem's id; adds the row when absent.
std::int64_t put_problem(const Connection& connection, const Problem& problem);
std::optional<std::int64_t> find_problem(const Connection& connection, const Problem& problem);

/// The id of the row with the environment's shared part; adds the row when absent.
std::int64_t put_environment(const Connection& connection, const Environment& environment);

/// "?, ?, ?", one for each of a comma-separated list.
std::string marks(const std::string& names);
/// "INSERT INTO table (names) VALUES (?, ...)", replacing the row of these `keys` (the table's
/// unique key), whose other values may be damaged. Both are comma-separated lists of columns.
std::string upsert(const std::string& table, const std::string& keys, const std::string& names);

/// Reads a struct by its columns and compares it with the row's hash. If they differ, throws
/// DamagedRow that names the row by name_of(value).
template <class T, class NameOf>
T read_hashed(Query& row, NameOf name_of) {
  T value;
  ReadFields read(row);
  fields(read, value);
  if (row_hash(value) != row.next<std::string>())
    throw DamagedRow(name_of(value) + " does not match its hash");
  return value;
}
/// Binds the row's own columns and its hash.
template <class T>
void bind_hashed(Query& query, const T& value, std::int64_t problem = 0,
                 std::int64_t environment = 0) {
  BindFields bind(query, problem, environment);
  fields(bind, value);
  query.bind(row_hash(value));
}

/// The current time as ISO 8601 in UTC: "2025-06-01T12:34:56Z".
std::string utc_now();

}  // namespace tilewise
