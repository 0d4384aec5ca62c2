#include "bench/compare/shapes.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

constexpr const char* kHeading = "layout,m,n,k";
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::int64_t parse_extent(const std::string& text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < 1 ||
      value > kLargest)
    throw Error(ErrorKind::invalid_argument,
                "'" + text + "' is not a size; sizes are whole numbers from 1 to 2^40");
  return value;
}

Problem parse_shape(const std::string& line) {
  const std::vector<std::string> fields = split(line, ',');
  if (fields.size() != 4)
    throw Error(ErrorKind::invalid_argument, "'" + line + "' has " + std::to_string(fields.size()) +
                                                 " fields; " + kHeading + " are 4");
  Problem problem;
  problem.layout = parse_layout(fields[0]);
  problem.m = parse_extent(fields[1]);
  problem.n = parse_extent(fields[2]);
  problem.k = parse_extent(fields[3]);
  problem.alignment = natural_alignment(problem.layout, problem.m, problem.n, problem.k, problem.a,
                                        problem.b, problem.c);
  return problem;
}

bool names(const std::string& item, const Problem& problem) {
  const std::string layout(to_string(problem.layout)), size = size_text(problem);
  const bool cube = problem.m == problem.n && problem.n == problem.k;
  const auto is_size = [&](const std::string& text) {
    return text == size || (cube && text == std::to_string(problem.m));
  };
  const auto colon = item.find(':');
  if (colon == std::string::npos) return item == layout || is_size(item);
  return item.substr(0, colon) == layout && is_size(item.substr(colon + 1));
}

}  // namespace

std::vector<Problem> read_shapes(std::istream& csv) {
  std::vector<Problem> problems;
  bool heading_seen = false;
  int number = 0;
  for (std::string line; std::getline(csv, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    try {
      if (heading_seen)
        problems.push_back(parse_shape(line));
      else if (line != kHeading)
        throw Error(ErrorKind::invalid_argument,
                    "the heading is '" + line + "'; it must be " + kHeading);
    } catch (const Error& error) {
      throw Error(error.kind(), "line " + std::to_string(number) + ": " + error.what());
    }
    heading_seen = true;
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

std::vector<Problem> only(const std::vector<Problem>& problems, const std::string& filter) {
  const std::vector<std::string> items = split(filter, ',');
  const auto named_by = [](const std::string& item) {
    return [&item](const Problem& problem) { return names(item, problem); };
  };
  for (const std::string& item : items)
    if (std::none_of(problems.begin(), problems.end(), named_by(item)))
      throw Error(ErrorKind::invalid_argument,
                  "--only: '" + item +
                      "' names no shape of the file; give a layout (nt), a size (4096, "
                      "8x4096x4096), or both (nt:8x4096x4096)");
  if (items.empty()) return problems;
  std::vector<Problem> chosen;
  for (const Problem& problem : problems)
    if (std::any_of(items.begin(), items.end(),
                    [&](const std::string& item) { return names(item, problem); }))
      chosen.push_back(problem);
  return chosen;
}

}  // namespace tilewise::bench
