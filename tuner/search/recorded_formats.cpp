// Readers of the file formats of read_recorded().
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tilewise/error.hpp"
#include "tuner/search/recorded_space.hpp"
#include "vocabulary/csv.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/standard_json.hpp"

namespace tilewise {
namespace {

using OrderedJson = nlohmann::ordered_json;

Error bad_recording(const std::string& name, const std::string& why) {
  return {ErrorKind::invalid_argument, name + ": " + why};
}

/// Kernel Tuner writes this number or a larger one as the time of a failed configuration.
constexpr double kMarkOfFailure = 1e20;

/// A measured value; empty for impossible values and for a mark of failure.
std::optional<double> measured(double value) {
  return value > 0 && value < kMarkOfFailure ? std::optional(value) : std::nullopt;
}
std::optional<double> measured(const std::string& text) {
  const auto value = number_in<double>(text);
  return value ? measured(*value) : std::nullopt;
}
std::optional<double> scaled(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

// --- CSV -----------------------------------------------------------------------------------------

/// Columns of parameters up to a column of times; further columns are ignored. A time that is empty
/// or not a number is a failure.
RecordedTable table_of_csv(std::string_view text) {
  static const std::map<std::string, double> to_us{
      {"median_ms", 1e3}, {"time_ms", 1e3}, {"time", 1e3}, {"median_us", 1}, {"time_us", 1}};
  std::vector<CsvRow> rows = csv_rows(text);
  RecordedTable table{"recorded", {}, {}};
  if (!rows.empty()) table.parameters = rows.front().fields;
  const auto time = std::find_if(table.parameters.begin(), table.parameters.end(),
                                 [](const auto& each) { return to_us.contains(each); });
  if (time == table.parameters.end() || time == table.parameters.begin())
    throw Error(ErrorKind::invalid_argument,
                "its first line has no column median_ms, time_ms, time (in milliseconds), "
                "median_us or time_us after columns of parameters");
  const double factor = to_us.at(*time);
  const std::size_t columns = table.parameters.size();
  table.parameters.erase(time, table.parameters.end());
  const std::size_t count = table.parameters.size();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    std::vector<std::string>& fields = rows[i].fields;
    if (fields.size() <= count || fields.size() > columns)
      throw Error(ErrorKind::invalid_argument, "line " + std::to_string(rows[i].line) +
                                                   ": it has " + std::to_string(fields.size()) +
                                                   " fields, the heading has " +
                                                   std::to_string(columns));
    const std::optional<double> us = scaled(measured(fields[count]), factor);
    fields.resize(count);
    table.rows.push_back({std::move(fields), us});
  }
  return table;
}

// --- JSON ----------------------------------------------------------------------------------------

std::string text_of(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A number, or the mean of several; empty where one of them is no measured value.
std::optional<double> measured(const OrderedJson& value) {
  if (value.is_number()) return measured(value.get<double>());
  if (value.is_string()) return measured(value.get<std::string>());
  if (!value.is_array() || value.empty()) return std::nullopt;
  double sum = 0;
  for (const OrderedJson& each : value) {
    const std::optional<double> one = measured(each);
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum / static_cast<double>(value.size());
}

/// Kernel Tuner's cache. Its writer adds the closing braces only at the end. Times are in
/// milliseconds; a failure has a text instead (older versions), 1e20, or "__error__".
RecordedTable table_of_cache(const OrderedJson& document) {
  RecordedTable table{document.value("kernel_name", "kernel"), {}, {}};
  for (const OrderedJson& key : document.at("tune_params_keys")) table.parameters.push_back(key);
  for (const auto& [key, entry] : document.at("cache").items()) {
    RecordedTable::Row row;
    for (const std::string& parameter : table.parameters)
      row.values.push_back(text_of(entry.at(parameter)));
    const auto time = entry.find("time");
    if (time != entry.end() && !entry.contains("__error__"))
      row.microseconds = scaled(measured(*time), 1e3);
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Microseconds per unit; empty where it is no unit of time.
std::optional<double> microseconds_in(std::string unit) {
  static const std::map<std::string, double> known{
      {"s", 1e6},       {"sec", 1e6},         {"second", 1e6},       {"seconds", 1e6},
      {"ms", 1e3},      {"millisecond", 1e3}, {"milliseconds", 1e3}, {"us", 1},
      {"\xC2\xB5s", 1}, {"\xCE\xBCs", 1},     {"microsecond", 1},    {"microseconds", 1},
      {"ns", 1e-3},     {"nanosecond", 1e-3}, {"nanoseconds", 1e-3}};
  std::transform(unit.begin(), unit.end(), unit.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto found = known.find(unit);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

/// An objective of T4: its name, or an object with "name".
std::string objective_name(const OrderedJson& objective) {
  return objective.is_object() ? objective.value("name", "") : text_of(objective);
}

/// Microseconds per unit of a measurement; empty where it is no time. A measurement without a unit
/// whose name begins with "time" has the file's unit.
std::optional<double> unit_of(const OrderedJson& measurement, double file_unit) {
  const std::string unit = measurement.value("unit", "");
  if (!unit.empty()) return microseconds_in(unit);
  return measurement.at("name").get<std::string>().starts_with("time") ? std::optional(file_unit)
                                                                       : std::nullopt;
}

/// The measurement that is an objective and a time; otherwise the mean of the runtimes. Objectives
/// with other units (GFLOP/s, J) are no times, and larger values may be better: without runtimes
/// they are refused.
std::optional<double> time_of_t4(const OrderedJson& result, double file_unit) {
  if (result.value("invalidity", "correct") != "correct") return std::nullopt;
  std::string other;
  for (const OrderedJson& objective : result.value("objectives", OrderedJson::array()))
    for (const OrderedJson& one : result.value("measurements", OrderedJson::array())) {
      if (one.at("name") != objective_name(objective)) continue;
      if (const auto unit = unit_of(one, file_unit))
        return scaled(measured(one.at("value")), *unit);
      if (other.empty()) other = one.at("name");
    }
  const OrderedJson times = result.value("times", OrderedJson::object());
  if (const auto found = times.find("runtimes"); found != times.end() && !found->empty())
    return scaled(measured(*found), file_unit);
  if (!other.empty())
    throw Error(ErrorKind::invalid_argument,
                "a result has the objective '" + other +
                    "', which is no time, and no runtimes; give runtimes, or an objective whose "
                    "unit is s, ms, us or ns");
  return std::nullopt;
}

RecordedTable table_of_t4(const OrderedJson& document) {
  RecordedTable table{"kernel", {}, {}};
  const std::string stated =
      document.value("metadata", OrderedJson::object()).value("timeunit", "milliseconds");
  const std::optional<double> unit = microseconds_in(stated);
  if (!unit)
    throw Error(
        ErrorKind::invalid_argument,
        "its timeunit is '" + stated + "'; it may be s, ms, us or ns, or the words for them");
  for (const OrderedJson& result : document.at("results")) {
    const OrderedJson& configuration = result.at("configuration");
    RecordedTable::Row row{{}, time_of_t4(result, *unit)};
    if (table.parameters.empty())
      for (const auto& [key, value] : configuration.items()) table.parameters.push_back(key);
    for (const std::string& parameter : table.parameters)
      row.values.push_back(text_of(configuration.at(parameter)));
    if (configuration.size() != table.parameters.size())
      throw Error(ErrorKind::invalid_argument, "result " + std::to_string(table.rows.size() + 1) +
                                                   " has other parameters than the first one");
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Makes a space for each GPU and problem.
std::vector<RecordedSpace> spaces_of_export(const OrderedJson& document) {
  std::map<std::string, std::map<std::string, RecordedTable>> tables;  // by space, by template
  for (const OrderedJson& each : document.at("records")) {
    const Record record = record_from_json(each.dump());
    const std::string gpu = record.gpu.substr(0, record.gpu.find('|'));
    const auto& values = record.candidate.configuration.values();
    RecordedTable& table =
        tables[table_text(record.problem) + " on " + gpu][record.candidate.kernel_template];
    table.name = record.candidate.kernel_template;
    RecordedTable::Row row{{}, is_ok(record) ? std::optional(time_of(record)) : std::nullopt};
    std::vector<std::string> names;
    for (const auto& [name, value] : values) {
      names.push_back(name);
      row.values.push_back(std::to_string(value));
    }
    if (table.rows.empty()) table.parameters = names;
    if (names == table.parameters)  // otherwise the row is from a version with other parameters
      table.rows.push_back(std::move(row));
  }
  std::vector<RecordedSpace> spaces;
  for (const auto& [name, of_template] : tables) {
    RecordedSpace space{name, {}, {}};
    for (const auto& [kernel, table] : of_template) add_table(space, table);
    if (static_cast<std::int64_t>(space.times.size()) - space.failed() >= 2)
      spaces.push_back(std::move(space));
  }
  std::stable_sort(spaces.begin(), spaces.end(),
                   [](const auto& x, const auto& y) { return x.times.size() > y.times.size(); });
  return spaces;
}

/// JSON that may lack its last braces, such as a cache that is still being written.
OrderedJson parse_json(std::string_view text) {
  const std::string standard = standard_json(text);
  if (nests_deeper(standard))
    throw Error(ErrorKind::invalid_argument,
                "brackets are nested more than " + std::to_string(kMostJsonDepth) + " deep");
  OrderedJson document = OrderedJson::parse(standard, nullptr, false);
  if (!document.is_discarded()) return document;
  document = OrderedJson::parse(
      standard.substr(0, standard.find_last_not_of(" \r\n\t,") + 1) + "}}", nullptr, false);
  if (document.is_discarded()) throw Error(ErrorKind::invalid_argument, "it is no complete JSON");
  return document;
}

bool is_table(const OrderedJson& document) {
  return document.contains("cache") || document.contains("results");
}
RecordedTable table_of(const OrderedJson& document) {
  return document.contains("cache") ? table_of_cache(document) : table_of_t4(document);
}

RecordedSpace space_of(const std::string& name, const RecordedTable& table) {
  RecordedSpace space{name, {}, {}};
  add_table(space, table);
  return space;
}

std::vector<RecordedSpace> spaces_of_json(const OrderedJson& document, const std::string& name) {
  if (document.contains("records")) return spaces_of_export(document);
  if (is_table(document)) return {space_of(name, table_of(document))};
  throw Error(ErrorKind::invalid_argument,
              "neither Kernel Tuner's cache (\"cache\"), nor T4 (\"results\"), nor an "
              "export of Tilewise (\"records\")");
}

/// Calls `read`. Puts the file's name in front of errors.
template <class Read>
auto of_file(const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const OrderedJson::exception& error) {
    throw bad_recording(
        name, std::string("it lacks a part, or has one of another kind: ") + error.what());
  } catch (const Error& error) {
    throw bad_recording(name, error.what());
  }
}

bool is_compressed(std::string_view text) { return text.starts_with("\x1f\x8b"); }

bool is_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  const std::size_t first = text.find_first_not_of(" \r\n\t");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

std::vector<RecordedSpace> read_recorded(std::string_view text, const std::string& name) {
  if (is_compressed(text))
    throw bad_recording(name, "it is compressed; zcat " + name + " | autotune replay -");
  std::vector<RecordedSpace> spaces = of_file(name, [&]() -> std::vector<RecordedSpace> {
    if (is_json(text)) return spaces_of_json(parse_json(text), name);
    return {space_of(name, table_of_csv(text))};
  });
  std::erase_if(spaces, [](const RecordedSpace& space) { return !std::isfinite(space.best()); });
  if (spaces.empty()) throw bad_recording(name, "it has no configuration with a time");
  return spaces;
}

RecordedTable read_foreign(std::string_view text, const std::string& name) {
  if (is_compressed(text))
    throw bad_recording(name, "it is compressed; zcat " + name + " | autotune import -");
  return of_file(name, [&] {
    const OrderedJson document = is_json(text) ? parse_json(text) : OrderedJson();
    if (!is_table(document))
      throw Error(ErrorKind::invalid_argument,
                  "neither Kernel Tuner's cache (\"cache\"), nor T4 (\"results\")");
    return table_of(document);
  });
}

}  // namespace tilewise
