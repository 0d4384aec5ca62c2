// The files that read_recorded() reads.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tilewise/error.hpp"
#include "tuner/search/record_time.hpp"
#include "tuner/search/recorded_space.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

using OrderedJson = nlohmann::ordered_json;

Error bad_recording(const std::string& name, const std::string& why) {
  return {ErrorKind::invalid_argument, name + ": " + why};
}

std::optional<double> positive(double value) {
  return value > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// --- CSV -----------------------------------------------------------------------------------------

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    cell.erase(cell.find_last_not_of(" \r\t\"") + 1);
    cell.erase(0, cell.find_first_not_of(" \t\""));
    cells.push_back(std::move(cell));
  }
  if (!line.empty() && line.back() == ',') cells.emplace_back();
  return cells;
}

/// Columns of parameters up to a column of times; what follows is ignored. An empty time, or one
/// that is no number, is a failure.
RecordedTable table_of_csv(std::string_view text, const std::string& name) {
  static const std::map<std::string, double> to_us{
      {"median_ms", 1e3}, {"time_ms", 1e3}, {"time", 1e3}, {"median_us", 1}, {"time_us", 1}};
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  RecordedTable table{"recorded", cells_of(line), {}};
  const auto time = std::find_if(table.parameters.begin(), table.parameters.end(),
                                 [](const auto& each) { return to_us.contains(each); });
  if (time == table.parameters.end() || time == table.parameters.begin())
    throw bad_recording(name,
                        "its first line has no column median_ms, time_ms, time (in milliseconds), "
                        "median_us or time_us after columns of parameters");
  const double factor = to_us.at(*time);
  table.parameters.erase(time, table.parameters.end());
  const std::size_t count = table.parameters.size();
  while (std::getline(lines, line)) {
    std::vector<std::string> cells = cells_of(line);
    if (cells.empty()) continue;
    if (cells.size() <= count) throw bad_recording(name, "short row: " + line);
    char* end = nullptr;
    const double value = std::strtod(cells[count].c_str(), &end);
    const bool number = end != cells[count].c_str() && *end == 0;
    cells.resize(count);
    table.rows.push_back({std::move(cells), number ? positive(factor * value) : std::nullopt});
  }
  return table;
}

// --- JSON ----------------------------------------------------------------------------------------

std::string text_of(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Kernel Tuner's cache. Its writer leaves the closing braces out until the end. Times are in
/// milliseconds; a failure has a text there (older versions), or "__error__".
RecordedTable table_of_cache(const OrderedJson& document) {
  RecordedTable table{document.value("kernel_name", "kernel"), {}, {}};
  for (const OrderedJson& key : document.at("tune_params_keys")) table.parameters.push_back(key);
  for (const auto& [key, entry] : document.at("cache").items()) {
    RecordedTable::Row row;
    for (const std::string& parameter : table.parameters)
      row.values.push_back(text_of(entry.at(parameter)));
    const auto time = entry.find("time");
    if (time != entry.end() && time->is_number() && !entry.contains("__error__"))
      row.microseconds = positive(1e3 * time->get<double>());
    table.rows.push_back(std::move(row));
  }
  return table;
}

double microseconds_in(const std::string& unit) {
  if (unit == "s" || unit == "seconds") return 1e6;
  if (unit == "us" || unit == "microseconds") return 1;
  if (unit == "ns" || unit == "nanoseconds") return 1e-3;
  return 1e3;
}

/// The measurement that is the objective; else the mean of the runtimes.
std::optional<double> time_of_t4(const OrderedJson& result, const std::string& unit) {
  if (result.value("invalidity", "correct") != "correct") return std::nullopt;
  const OrderedJson objectives = result.value("objectives", OrderedJson::array());
  for (const OrderedJson& one : result.value("measurements", OrderedJson::array()))
    if (one.at("value").is_number() && !objectives.empty() && objectives.front() == one.at("name"))
      return positive(one.at("value").get<double>() * microseconds_in(one.value("unit", unit)));
  const OrderedJson times = result.value("times", OrderedJson::object());
  const auto found = times.find("runtimes");
  if (found == times.end() || found->empty()) return std::nullopt;
  const auto runtimes = found->get<std::vector<double>>();
  return positive(std::accumulate(runtimes.begin(), runtimes.end(), 0.0) /
                  static_cast<double>(runtimes.size()) * microseconds_in(unit));
}

RecordedTable table_of_t4(const OrderedJson& document) {
  RecordedTable table{"kernel", {}, {}};
  const std::string unit =
      document.value("metadata", OrderedJson::object()).value("timeunit", "milliseconds");
  for (const OrderedJson& result : document.at("results")) {
    const OrderedJson& configuration = result.at("configuration");
    RecordedTable::Row row{{}, time_of_t4(result, unit)};
    if (table.parameters.empty())
      for (const auto& [key, value] : configuration.items()) table.parameters.push_back(key);
    for (const std::string& parameter : table.parameters)
      row.values.push_back(text_of(configuration.at(parameter)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// A space for each GPU and problem.
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
    if (names == table.parameters)  // else of a version with other parameters
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

/// JSON that may lack its last braces, as a cache does that is still being written.
OrderedJson parse_json(std::string_view text, const std::string& name) {
  OrderedJson document = OrderedJson::parse(text, nullptr, false);
  if (!document.is_discarded()) return document;
  std::string mended(text.substr(0, text.find_last_not_of(" \r\n\t,") + 1));
  document = OrderedJson::parse(mended + "}}", nullptr, false);
  if (document.is_discarded()) throw bad_recording(name, "it is no complete JSON");
  return document;
}

std::vector<RecordedSpace> read_json(std::string_view text, const std::string& name) {
  const OrderedJson document = parse_json(text, name);
  try {
    if (document.contains("records")) return spaces_of_export(document);
    RecordedTable table;
    if (document.contains("cache"))
      table = table_of_cache(document);
    else if (document.contains("results"))
      table = table_of_t4(document);
    else
      throw bad_recording(name,
                          "neither Kernel Tuner's cache (\"cache\"), nor T4 (\"results\"), nor an "
                          "export of Tilewise (\"records\")");
    RecordedSpace space{name, {}, {}};
    add_table(space, table);
    return {std::move(space)};
  } catch (const OrderedJson::exception& error) {
    throw bad_recording(
        name, std::string("it lacks a part, or has one of another kind: ") + error.what());
  }
}

}  // namespace

std::vector<RecordedSpace> read_recorded(std::string_view text, const std::string& name) {
  if (text.starts_with("\x1f\x8b"))
    throw bad_recording(name, "it is compressed; zcat " + name + " | autotune replay -");
  const std::size_t first = text.find_first_not_of(" \r\n\t");
  std::vector<RecordedSpace> spaces;
  if (first != std::string_view::npos && text[first] == '{') {
    spaces = read_json(text, name);
  } else {
    spaces.push_back({name, {}, {}});
    add_table(spaces.back(), table_of_csv(text, name));
  }
  std::erase_if(spaces, [](const RecordedSpace& space) { return !std::isfinite(space.best()); });
  if (spaces.empty()) throw bad_recording(name, "it has no configuration with a time");
  return spaces;
}

}  // namespace tilewise
