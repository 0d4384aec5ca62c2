#include "bench/compare/shapes.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tilewise/error.hpp"
#include "vocabulary/csv.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::bench {
namespace {

const std::string kHeading = "layout,m,n,k", kBatchHeading = kHeading + ",batch";
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::int64_t parse_extent(const std::string& text) {
  const auto value = number_in<std::int64_t>(text);
  if (!value || *value < 1 || *value > kLargest)
    throw Error(ErrorKind::invalid_argument,
                "'" + text + "' is not a size; sizes are whole numbers from 1 to 2^40");
  return *value;
}

Problem aligned(Problem problem) {
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

Problem parse_row(const std::vector<std::string>& fields, const std::string& heading) {
  const std::size_t wanted = split(heading, ',').size();
  if (fields.size() != wanted)
    throw Error(ErrorKind::invalid_argument, "it has " + std::to_string(fields.size()) +
                                                 " fields; " + heading + " are " +
                                                 std::to_string(wanted));
  Problem problem;
  set_layout(problem, parse_layout(fields[0]));
  problem.m = parse_extent(fields[1]);
  problem.n = parse_extent(fields[2]);
  problem.k = parse_extent(fields[3]);
  if (wanted > 4) problem.batch = parse_extent(fields[4]);
  return aligned(problem);
}

/// The parts of an item "nt:8x4096x4096*64" of a list or filter; a missing part is empty.
struct Item {
  std::string layout, size, batch;
};
Item take_apart(const std::string& text) {
  Item item;
  const auto colon = text.find(':');
  const bool layout_alone =
      colon == std::string::npos && text.find_first_of("0123456789") == std::string::npos;
  if (layout_alone) return {text, "", ""};
  item.layout = colon == std::string::npos ? "" : text.substr(0, colon);
  item.size = colon == std::string::npos ? text : text.substr(colon + 1);
  if (const auto star = item.size.find('*'); star != std::string::npos) {
    item.batch = item.size.substr(star + 1);
    item.size.resize(star);
  }
  return item;
}

bool names(const std::string& text, const Problem& problem) {
  if (text.empty()) return false;
  const Item item = take_apart(text);
  const bool cube = problem.m == problem.n && problem.n == problem.k;
  return (item.layout.empty() || item.layout == to_string(layout_of(problem))) &&
         (item.size.empty() || item.size == size_text(problem) ||
          (cube && item.size == std::to_string(problem.m))) &&
         (item.batch.empty() || item.batch == std::to_string(problem.batch));
}

}  // namespace

std::string shape_text(const Problem& problem) {
  return std::string(to_string(layout_of(problem))) + " " + size_text(problem) +
         (problem.batch == 1 ? "" : "*" + std::to_string(problem.batch));
}

std::vector<Problem> read_shapes(std::istream& csv) {
  std::ostringstream text;
  text << csv.rdbuf();
  std::vector<Problem> problems;
  std::string heading;
  for (const CsvRow& row : csv_rows(text.str(), CsvComments::hash)) try {
      if (!heading.empty()) {
        problems.push_back(parse_row(row.fields, heading));
        continue;
      }
      for (const std::string& field : row.fields) heading += (heading.empty() ? "" : ",") + field;
      if (heading != kHeading && heading != kBatchHeading)
        throw Error(ErrorKind::invalid_argument, "the heading is '" + heading + "'; it must be " +
                                                     kHeading + " or " + kBatchHeading);
    } catch (const Error& error) {
      throw Error(error.kind(), "line " + std::to_string(row.line) + ": " + error.what());
    }
  if (problems.empty()) throw Error(ErrorKind::invalid_argument, "there is no shape in it");
  return problems;
}

std::vector<Problem> read_shapes_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::io, "cannot read the shapes file " + path);
  try {
    return read_shapes(file);
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what());
  }
}

std::vector<Problem> parse_shapes(const std::string& list) {
  std::vector<Problem> problems;
  for (const std::string& text : split(list, ',')) {
    const Item item = take_apart(text);
    try {
      const Size size = parse_sizes(item.size).front();
      Problem problem;
      set_layout(problem, item.layout.empty() ? Layout::nn : parse_layout(item.layout));
      problem.m = size.m, problem.n = size.n, problem.k = size.k;
      if (!item.batch.empty()) problem.batch = parse_extent(item.batch);
      problems.push_back(aligned(problem));
    } catch (const Error& error) {
      throw Error(error.kind(), "'" + text + "': " + error.what());
    }
  }
  if (problems.empty()) throw Error(ErrorKind::invalid_argument, "there is no shape in the list");
  return problems;
}

std::vector<Problem> only(const std::vector<Problem>& problems, const std::string& filter) {
  const std::vector<std::string> items = split(filter, ',');
  const auto named_by = [](const std::string& item) {
    return [&item](const Problem& problem) { return names(item, problem); };
  };
  for (const std::string& item : items)
    if (std::none_of(problems.begin(), problems.end(), named_by(item)))
      throw Error(ErrorKind::invalid_argument,
                  "--only: '" + item +
                      "' names none of the shapes; give a layout (nt), a size (4096, "
                      "8x4096x4096, 32*64), or both (nt:8x4096x4096)");
  if (items.empty()) return problems;
  std::vector<Problem> chosen;
  for (const Problem& problem : problems)
    if (std::any_of(items.begin(), items.end(),
                    [&](const std::string& item) { return names(item, problem); }))
      chosen.push_back(problem);
  return chosen;
}

}  // namespace tilewise::bench
