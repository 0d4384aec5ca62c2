#include "db/rows.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "tilewise/error.hpp"

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

/// JSON has no NaN: it is null, as in SQLite it is NULL.
std::string samples_text(const std::vector<double>& samples) {
  return nlohmann::json(samples).dump();
}

/// Samples that are all numbers, as samples_text() writes them; empty for any other text. The JSON
/// library takes ten times as long, which a program that opens a database waits for.
std::vector<double> parse_numbers(std::string_view text) {
  std::vector<double> samples;
  if (text.empty() || text.front() != '[') return {};
  samples.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1);
  const char *at = text.data(), *const end = at + text.size();
  for (;;) {
    ++at;  // past '[' or ','
    if (at == end || *at < '0' || *at > '9') return {};
    const auto [next, error] = std::from_chars(at, end, samples.emplace_back());
    if (error != std::errc() || next == end) return {};
    if (*next == ']' && next + 1 == end) return samples;
    if (*next != ',') return {};
    at = next;
  }
}

std::vector<double> parse_samples(const std::string& text) {
  if (auto numbers = parse_numbers(text); !numbers.empty()) return numbers;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<double> samples;
  if (!json.is_array()) {
    throw Error(ErrorKind::invalid_argument, "samples_us is no JSON array: " + text.substr(0, 80));
  }
  for (const auto& sample : json) {
    if (!sample.is_number() && !sample.is_null()) {
      throw Error(ErrorKind::invalid_argument, "a sample is no number: " + text.substr(0, 80));
    }
    samples.push_back(sample.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                       : sample.get<double>());
  }
  return samples;
}

void bind_problem(Query& query, const Problem& p) {
  query.bind(to_string(p.layout), p.m, p.n, p.k, to_string(p.a), to_string(p.b), to_string(p.c),
             to_string(p.accumulator), to_string(p.math), p.batch, p.alignment.a, p.alignment.b,
             p.alignment.c);
}

/// Whether the row found by the index has the problem; a damaged row does not.
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
  Query query = connection.query(
      "UPDATE problems SET layout = ?, m = ?, n = ?, k = ?, a_type = ?, b_type = ?, c_type = ?, "
      "accumulator = ?, math = ?, batch = ?, align_a = ?, align_b = ?, align_c = ? WHERE id = ?");
  bind_problem(query, problem);
  query.bind(id).run();
}

}  // namespace

Problem read_problem(Query& row) {
  Problem p;
  std::string layout, a, b, c, accumulator, math;
  row.read(layout, p.m, p.n, p.k, a, b, c, accumulator, math, p.batch, p.alignment.a, p.alignment.b,
           p.alignment.c);
  p.layout = parse_layout(layout);
  p.a = parse_dtype(a);
  p.b = parse_dtype(b);
  p.c = parse_dtype(c);
  p.accumulator = parse_dtype(accumulator);
  p.math = parse_math_mode(math);
  return p;
}

std::optional<std::int64_t> find_problem(const Connection& connection, const Problem& problem) {
  Query query = connection.query(
      "SELECT id FROM problems WHERE layout = ? AND m = ? AND n = ? AND k = ? AND a_type = ? AND "
      "b_type = ? AND c_type = ? AND accumulator = ? AND math = ? AND batch = ? AND align_a = ? "
      "AND "
      "align_b = ? AND align_c = ?");
  bind_problem(query, problem);
  if (!query.step()) return {};
  return query.next<std::int64_t>();
}

std::int64_t put_problem(const Connection& connection, const Problem& problem) {
  if (const auto id = find_problem(connection, problem)) {
    if (!is_problem(connection, *id, problem)) mend_problem(connection, *id, problem);
    return *id;
  }
  Query query = connection.query(
      "INSERT INTO problems (layout, m, n, k, a_type, b_type, c_type, accumulator, math, batch, "
      "align_a, align_b, align_c) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
  bind_problem(query, problem);
  query.step();
  return query.next<std::int64_t>();
}

Environment read_environment(Query& row) {
  Environment e;
  row.read(e.driver, e.compiler, e.host);
  return e;
}

std::int64_t put_environment(const Connection& connection, const Environment& e) {
  // An update of an existing row: it returns the id, and mends a damaged row.
  Query query = connection.query(
      "INSERT INTO environments (driver, compiler, host) VALUES (?, ?, ?) "
      "ON CONFLICT DO UPDATE SET driver = excluded.driver, compiler = excluded.compiler, "
      "host = excluded.host RETURNING id");
  query.bind(e.driver, e.compiler, e.host).step();
  return query.next<std::int64_t>();
}

std::optional<Measurement> read_measurement(Query& row) {
  if (row.null()) {
    row.skip(12);
    return {};
  }
  Measurement m;
  std::string samples;
  row.read(m.samples, m.median_us, m.spread, m.launches_per_sample, samples, m.cold, m.method,
           m.sm_clock_mhz, m.power_w, m.host_us, m.energy_mj, m.power_limit_w);
  m.samples_us = parse_samples(samples);
  return m;
}

void bind_measurement(Query& query, const std::optional<Measurement>& m) {
  if (!m) {
    for (int i = 0; i < 12; ++i) query.bind(nullptr);
    return;
  }
  query.bind(m->samples, m->median_us, m->spread, m->launches_per_sample,
             samples_text(m->samples_us), m->cold, m->method, m->sm_clock_mhz, m->power_w,
             m->host_us, m->energy_mj, m->power_limit_w);
}

ResourceUsage read_usage(Query& row) {
  ResourceUsage usage;
  row.read(usage.registers, usage.spill_bytes, usage.static_shared_bytes, usage.stack_bytes);
  return usage;
}

void bind_usage(Query& query, const ResourceUsage& usage) {
  query.bind(usage.registers, usage.spill_bytes, usage.static_shared_bytes, usage.stack_bytes);
}

std::string upsert(const std::string& table, const std::string& keys, const std::string& values) {
  // The keys too: in the row found by the index they may be damaged.
  std::string marks, updates;
  for (const std::string& name : names_in(keys + ", " + values)) {
    updates += (updates.empty() ? "" : ", ") + name + " = excluded." + name;
    marks += "?, ";
  }
  marks.resize(marks.size() - 2);
  return "INSERT INTO " + table + " (" + keys + ", " + values + ") VALUES (" + marks +
         ") ON CONFLICT (" + keys + ") DO UPDATE SET " + updates;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace tilewise
