#include "cli/common/problem_list.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "cli/common/csv_list.hpp"
#include "cli/common/input_file.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/standard_json.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

constexpr const char* kColumns =
    "m, n, k, layout, dtype, dtype_b, out, math, batch, grouped, distribution, align, epilogue, "
    "order, weight, calls, us, lda, ldb, ldc";

/// A number from 0 to 1e12, or above 0 unless `may_be_0`.
double number_of(const char* column, const std::string& text, bool may_be_0) {
  const auto number = number_in<double>(text);
  if (!number || !(may_be_0 ? *number >= 0 : *number > 0) || !(*number <= 1e12))
    refuse_list(std::string(column) + ": '" + text + "' is not allowed; give a number " +
                (may_be_0 ? "of at least 0" : "above 0") + ", at most 1e12");
  return *number;
}

/// The problems of one row; its values replace those of the command line.
std::vector<WeightedProblem> problems_of_row(const Row& row, const ProblemOptions& defaults) {
  ProblemOptions options = defaults;
  options.list.clear();
  options.rows.clear();
  const auto take = [&row](const char* column, std::string& value) {
    const auto found = row.find(column);
    if (found != row.end()) value = found->second;
    return found != row.end();
  };
  std::string extents[3];
  for (int i = 0; i < 3; ++i) {
    const std::string name(1, "mnk"[i]);
    if (!take(name.c_str(), extents[i]))
      refuse_list(name + " is missing; every problem has m, n and k");
    if (extents[i].find_first_not_of("0123456789") != std::string::npos)
      refuse_list(name + ": '" + extents[i] + "' is not a whole number from 1 to 2^40");
  }
  options.sizes = extents[0] + "x" + extents[1] + "x" + extents[2];
  take("layout", options.layout);
  if (take("dtype", options.dtype)) {
    if (row.count("out") == 0) options.out.clear();
    if (row.count("dtype_b") == 0) options.dtype_b.clear();
  }
  take("dtype_b", options.dtype_b);
  take("out", options.out);
  take("align", options.align);
  take("epilogue", options.epilogue);
  take("order", options.order);
  std::replace(options.align.begin(), options.align.end(), '/', ',');
  if (std::string batch; take("batch", batch)) {
    if (const std::string bad = whole_number(1)(batch); !bad.empty()) refuse_list("batch: " + bad);
    options.batch = number_in<std::int64_t>(batch).value();
  }
  // A row's batch and grouping replace --groups.
  if (row.contains("batch") || row.contains("grouped")) {
    if (!row.contains("batch") && options.groups > 0) options.batch = options.groups;
    options.groups = 0;
  }
  take("grouped", options.grouped);
  take("distribution", options.distribution);
  WeightedProblem weighted;
  weighted.own_math = take("math", options.math);
  if (std::string calls; take("calls", calls)) weighted.calls = number_of("calls", calls, true);
  if (std::string us; take("us", us)) weighted.us = number_of("us", us, true);
  if (weighted.calls > 0) weighted.weight = std::max(1.0, weighted.calls * weighted.us);
  if (std::string weight; take("weight", weight))
    weighted.weight = number_of("weight", weight, false);
  std::vector<WeightedProblem> problems;
  for (const Problem& problem : problems_of_sizes(options)) {
    weighted.problem = problem;
    problems.push_back(weighted);
  }
  return problems;
}

/// The same, with the place in error messages.
void add_row(std::vector<WeightedProblem>& problems, const Row& row, const ProblemOptions& defaults,
             const std::string& place) {
  try {
    for (const WeightedProblem& problem : problems_of_row(row, defaults))
      problems.push_back(problem);
  } catch (const Error& error) {
    std::string message = error.what();
    if (message.starts_with("--")) message.erase(0, 2);  // a column, not an option
    throw Error(error.kind(), place + ": " + message);
  }
}

/// The text of a file, read once: the file may be a pipe, and commands read the list for each
/// device.
const std::string& list_text(const std::string& path) {
  static std::map<std::string, std::string> texts;
  const auto known = texts.find(path);
  return known != texts.end() ? known->second : texts[path] = contents_of(path);
}

std::vector<WeightedProblem> read_csv(const std::string& text, const ProblemOptions& defaults) {
  std::vector<WeightedProblem> problems;
  for (const ListRow& row : rows_of_list(text, kColumns))
    add_row(problems, row.values, defaults, row.place);
  return problems;
}

/// A JSON value as a field of a CSV file.
std::string field_of(const nlohmann::json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  return join(value, "/", field_of);
}

std::vector<WeightedProblem> read_json(const std::string& text, const ProblemOptions& defaults) {
  if (nests_deeper(text))
    refuse_list("brackets are nested more than " + std::to_string(kMostJsonDepth) + " deep");
  nlohmann::json list;
  try {
    list = nlohmann::json::parse(standard_json(text));
  } catch (const nlohmann::json::exception& error) {
    refuse_list(std::string("not JSON: ") + error.what());
  }
  std::vector<WeightedProblem> problems;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = "problem " + std::to_string(i + 1);
    if (!list[i].is_object()) refuse_list(place + ": it is not an object with m, n and k");
    Row row;
    for (const auto& [key, value] : list[i].items()) {
      try {
        check_column(key, kColumns);
      } catch (const Error& error) {
        refuse_list(place + ": " + error.what());
      }
      if (const std::string field = field_of(value); !field.empty()) row[key] = field;
    }
    // A problem in the program's own notation: the types of A, B, C and the accumulator.
    if (const auto types = split_list(row["dtype"]); types.size() == 4) {
      row["dtype"] = types[0];
      if (types[1] != types[0]) row["dtype_b"] = types[1];
      row["out"] = types[2];
    }
    if (row["dtype"].empty()) row.erase("dtype");
    add_row(problems, row, defaults, place);
  }
  return problems;
}

/// The text from its first character that is not blank.
std::string_view content_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

}  // namespace

std::vector<WeightedProblem> read_problem_list(const std::string& path,
                                               const ProblemOptions& defaults) {
  const std::string name = path == "-" ? "- (standard input)" : path;
  try {
    const std::string& text = list_text(path);
    const std::string_view content = content_of(text);
    if (content.empty()) refuse_list("it is empty");
    const bool json = content.starts_with('[');
    std::vector<WeightedProblem> problems =
        json ? read_json(text, defaults) : read_csv(text, defaults);
    if (problems.empty())
      refuse_list(std::string("there is no problem in it; it is CSV with a heading of ") +
                  kColumns + ", or a JSON array of objects with these keys");
    return problems;
  } catch (const Error& error) {
    throw Error(error.kind(), "--problems " + name + ", " + error.what());
  }
}

/// Adds a repeated problem: weights and calls are sums, and the time of a call is the mean.
static void add_to(WeightedProblem& known, const WeightedProblem& more) {
  known.weight += more.weight;
  const double calls = known.calls + more.calls;
  if (calls > 0) known.us = (known.calls * known.us + more.calls * more.us) / calls;
  known.calls = calls;
}

std::vector<WeightedProblem> without_repeats(std::vector<WeightedProblem> problems) {
  std::unordered_map<Problem, std::size_t> places;
  std::vector<WeightedProblem> once;
  for (const WeightedProblem& problem : problems) {
    const auto [place, is_new] = places.emplace(problem.problem, once.size());
    if (is_new)
      once.push_back(problem);
    else
      add_to(once[place->second], problem);
  }
  return once;
}

std::vector<double> shares_of(double budget, const std::vector<WeightedProblem>& problems) {
  double sum = 0;
  for (const WeightedProblem& problem : problems) sum += problem.weight;
  const double mean = sum / static_cast<double>(problems.size());
  std::vector<double> shares;
  for (const WeightedProblem& problem : problems)
    shares.push_back(budget * (1 + problem.weight / mean) / 2);
  return shares;
}

}  // namespace tilewise::cli
