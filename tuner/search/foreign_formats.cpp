#include "tuner/search/foreign_formats.hpp"

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "tuner/search/recorded_space.hpp"
#include "tuner/search/search_memory.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using ForeignJson = nlohmann::ordered_json;

std::string text_of_json(const ForeignJson& document) {
  return document.dump(1, ' ', false, ForeignJson::error_handler_t::replace) + "\n";
}

ForeignJson configuration_json(const Record& record) {
  ForeignJson json = ForeignJson::object();
  for (const auto& [name, value] : record.candidate.configuration.values()) json[name] = value;
  return json;
}

/// Samples in milliseconds; the median if a record has no samples.
std::vector<double> runtimes_of(const Record& record) {
  std::vector<double> times;
  if (!is_ok(record)) return times;
  for (const double us : record.measurement->samples_us) times.push_back(us / 1e3);
  if (times.empty()) times.push_back(record.measurement->median_us / 1e3);
  return times;
}

const char* invalidity_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "correct";
    case Outcome::compile_error:
      return "compile";
    case Outcome::wrong_result:
      return "correctness";
    case Outcome::timeout:
      return "timeout";
    case Outcome::launch_error:
      break;
  }
  return "runtime";
}

std::string gpu_name(const std::string& gpu) { return gpu.substr(0, gpu.find('|')); }

/// The whole number of a text, which may have a fraction of zeros; empty for other texts.
std::optional<int> whole_number_of(const std::string& text) {
  const auto value = number_in<double>(text);
  const bool in_range = value && *value >= std::numeric_limits<int>::min() &&
                        *value <= std::numeric_limits<int>::max();
  if (!in_range || *value != static_cast<int>(*value)) return std::nullopt;
  return static_cast<int>(*value);
}

/// The configuration of a row with current names. Throws Error(invalid_argument) unless the
/// template allows it for the problem on the device.
Configuration checked_configuration(const RecordedTable& table, const RecordedTable::Row& row,
                                    const KernelTemplate& kernel, const Problem& problem,
                                    const DeviceInfo& device) {
  Configuration configuration;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const std::optional<int> value = whole_number_of(row.values[i]);
    if (!value)
      throw Error(ErrorKind::invalid_argument,
                  table.parameters[i] + " is '" + row.values[i] + "', which is no whole number");
    configuration.set(table.parameters[i], *value);
  }
  configuration = with_added(kernel, configuration);
  if (const std::string reason = rejection(kernel, problem, configuration, device); !reason.empty())
    throw Error(ErrorKind::invalid_argument, reason);
  return configuration;
}

/// The times by configuration. Throws Error(invalid_argument) for the first invalid row.
std::map<Configuration, std::optional<double>> checked_rows(const RecordedTable& table,
                                                            const Record& known) {
  const KernelTemplate& kernel = find_template(known.candidate.kernel_template);
  const DeviceInfo device = nominal_from_key(known.gpu);
  if (table.rows.empty())
    throw Error(ErrorKind::invalid_argument, "there is no configuration in it");
  std::map<Configuration, std::optional<double>> times;
  for (std::size_t i = 0; i < table.rows.size(); ++i) try {
      times[checked_configuration(table, table.rows[i], kernel, known.problem, device)] =
          table.rows[i].microseconds;
    } catch (const Error& error) {
      throw Error(error.kind(), "configuration " + std::to_string(i + 1) + " of " +
                                    std::to_string(table.rows.size()) + " is none of " +
                                    kernel.name + ": " + error.what());
    }
  return times;
}

}  // namespace

std::string t4_text(const std::vector<Record>& records) {
  ForeignJson document{{"schema_version", "1.0.0"},
                       {"metadata", {{"timeunit", "milliseconds"}}},
                       {"results", ForeignJson::array()}};
  for (const Record& record : records) {
    const bool ok = is_ok(record);
    ForeignJson result{{"timestamp", record.environment.date},
                       {"configuration", configuration_json(record)},
                       {"times",
                        {{"compilation_time", record.compile_ms},
                         {"runtimes", runtimes_of(record)},
                         {"framework", 0},
                         {"search_algorithm", 0},
                         {"validation", 0}}},
                       {"invalidity", invalidity_of(record.outcome)},
                       {"correctness", ok ? 1 : 0},
                       {"measurements", ForeignJson::array()},
                       {"objectives", {"time"}}};
    if (ok)
      result["measurements"].push_back(
          {{"name", "time"}, {"value", record.measurement->median_us / 1e3}, {"unit", "ms"}});
    document["results"].push_back(std::move(result));
  }
  return text_of_json(document);
}

std::string kernel_tuner_text(const std::vector<Record>& records) {
  if (records.empty()) throw Error(ErrorKind::invalid_argument, "there is no record to write");
  const Record& first = records.front();
  std::map<std::string, std::set<int>> values;
  for (const Record& record : records)
    for (const auto& [name, value] : record.candidate.configuration.values())
      values[name].insert(value);
  ForeignJson document{{"device_name", gpu_name(first.gpu)},
                       {"kernel_name", first.candidate.kernel_template},
                       {"problem_size", {first.problem.m, first.problem.n, first.problem.k}},
                       {"tune_params_keys", ForeignJson::array()},
                       {"tune_params", ForeignJson::object()},
                       {"objective", "time"},
                       {"cache", ForeignJson::object()}};
  for (const auto& [name, all] : values) {
    document["tune_params_keys"].push_back(name);
    document["tune_params"][name] = all;
  }
  for (const Record& record : records) {
    ForeignJson entry = configuration_json(record);
    const std::string key = join(record.candidate.configuration.values(), ",",
                                 [](const auto& named) { return std::to_string(named.second); });
    if (is_ok(record))
      entry["time"] = record.measurement->median_us / 1e3;
    else
      entry["time"] = record.outcome == Outcome::compile_error ? "CompilationFailedConfig"
                                                               : "RuntimeFailedConfig";
    entry["times"] = runtimes_of(record);
    entry["compile_time"] = record.compile_ms;
    entry["verification_time"] = 0;
    entry["benchmark_time"] = 0;
    entry["strategy_time"] = 0;
    entry["framework_time"] = 0;
    entry["timestamp"] = record.environment.date;
    document["cache"][key] = std::move(entry);
  }
  // Kernel Tuner expects "}", a line end and "}" at the end, in order to append there.
  return document.dump(0, ' ', false, ForeignJson::error_handler_t::replace) + "\n";
}

std::string as_export(std::string_view text, const std::string& file, const Record& known) {
  const RecordedTable table = read_foreign(text, file);
  ForeignJson document{{"format", "tilewise"}, {"version", 1}, {"records", ForeignJson::array()}};
  std::map<Configuration, std::optional<double>> times;
  try {
    times = checked_rows(table, known);
  } catch (const Error& error) {
    throw Error(error.kind(), file + ": nothing was imported: " + error.what());
  }
  std::int64_t id = 0;
  for (const auto& [configuration, us] : times) {
    Record record = known;
    record.id = ++id;
    record.candidate.configuration = configuration;
    record.outcome = us ? Outcome::ok : Outcome::launch_error;
    record.environment.date = now_text();
    if (us) {
      record.measurement.emplace();
      record.measurement->median_us = *us;
      record.measurement->samples = record.measurement->launches_per_sample = 1;
      record.measurement->method = "imported";
    }
    document["records"].push_back(ForeignJson::parse(to_json(record)));
  }
  return text_of_json(document);
}

}  // namespace tilewise
