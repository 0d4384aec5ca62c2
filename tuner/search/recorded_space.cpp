#include "tuner/search/recorded_space.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise {
namespace {

std::optional<double> number_of(const std::string& text) {
  if (text == "true" || text == "True") return 1;
  if (text == "false" || text == "False") return 0;
  const auto value = number_in<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// The whole number that stands for each text of a column.
struct Column {
  explicit Column(const std::set<std::string>& texts) {
    std::map<double, std::vector<std::string>> numbers;
    bool all_whole = true;
    for (const std::string& text : texts) {
      const std::optional<double> number = number_of(text);
      if (!number) break;
      numbers[*number].push_back(text);
      all_whole = all_whole && *number == std::trunc(*number) && std::abs(*number) < 1e9;
    }
    std::size_t parsed = 0;
    for (const auto& [number, same] : numbers) {
      parsed += same.size();
      const int code = all_whole ? static_cast<int>(number) : static_cast<int>(values.size());
      values.push_back(code);
      for (const std::string& text : same) codes[text] = code;
    }
    if (parsed == texts.size()) return;
    codes.clear();
    values.clear();
    for (const std::string& text : texts) {
      codes[text] = static_cast<int>(values.size());
      values.push_back(codes[text]);
      labels.push_back(text);
    }
  }
  std::map<std::string, int> codes;
  std::vector<int> values;
  std::vector<std::string> labels;
};

}  // namespace

double RecordedSpace::best() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [candidate, us] : times)
    if (us) least = std::min(least, *us);
  return least;
}

std::int64_t RecordedSpace::failed() const {
  return std::count_if(times.begin(), times.end(), [](const auto& entry) { return !entry.second; });
}

SearchSpace RecordedSpace::space() const {
  std::vector<const KernelTemplate*> all;
  for (const KernelTemplate& kernel : templates) all.push_back(&kernel);
  return SearchSpace(Problem{}, DeviceInfo{}, all);
}

void RecordedSpace::shuffle_values(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  for (KernelTemplate& kernel : templates)
    for (Parameter& parameter : kernel.parameters)
      for (std::size_t i = parameter.values.size(); i > 1; --i) {
        const std::size_t other = random_index(generator, i);
        std::swap(parameter.values[i - 1], parameter.values[other]);
        if (!parameter.labels.empty()) std::swap(parameter.labels[i - 1], parameter.labels[other]);
      }
}

void add_table(RecordedSpace& space, const RecordedTable& table) {
  KernelTemplate kernel;
  kernel.name = table.name;
  std::vector<Column> columns;
  for (const RecordedTable::Row& row : table.rows)
    if (row.values.size() != table.parameters.size())
      throw Error(ErrorKind::invalid_argument,
                  "a row of " + table.name + " has " + std::to_string(row.values.size()) +
                      " values for " + std::to_string(table.parameters.size()) + " parameters");
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    std::set<std::string> texts;
    for (const RecordedTable::Row& row : table.rows) texts.insert(row.values[i]);
    columns.emplace_back(texts);
    kernel.parameters.push_back(
        {table.parameters[i], columns.back().values, "", columns.back().labels});
  }
  auto listed = std::make_shared<std::vector<Configuration>>();
  for (const RecordedTable::Row& row : table.rows) {
    Configuration configuration;
    for (std::size_t i = 0; i < columns.size(); ++i)
      configuration.set(table.parameters[i], columns[i].codes.at(row.values[i]));
    space.times[{table.name, configuration}] = row.microseconds;
    listed->push_back(std::move(configuration));
  }
  std::sort(listed->begin(), listed->end());
  listed->erase(std::unique(listed->begin(), listed->end()), listed->end());
  kernel.constraints = {{"recorded", table.parameters, "the configuration was recorded",
                         [listed](const ConstraintInput& in) {
                           return std::binary_search(listed->begin(), listed->end(),
                                                     in.configuration);
                         }}};
  kernel.supports = [](const Problem&, const DeviceInfo&) { return true; };
  // Invalid, so that a replay has no default: a recording does not state a default.
  kernel.default_configuration = [](const Problem&, const DeviceInfo&) { return Configuration(); };
  kernel.listed = std::move(listed);
  space.templates.push_back(std::move(kernel));
}

}  // namespace tilewise
