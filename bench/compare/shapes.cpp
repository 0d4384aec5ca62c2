#include "bench/compare/shapes.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tilewise/error.hpp"
#include "tuner/size_range.hpp"
#include "vocabulary/csv.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/problem_text.hpp"

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

constexpr const char* kProductColumns = "layout, m, n, k, dtype, math, weight, source";

using NamedFields = std::map<std::string, std::string>;

NamedFields named_fields(const CsvRow& heading, const CsvRow& row) {
  if (row.fields.size() != heading.fields.size())
    throw Error(ErrorKind::invalid_argument, "it has " + std::to_string(row.fields.size()) +
                                                 " fields; the heading has " +
                                                 std::to_string(heading.fields.size()));
  NamedFields named;
  for (std::size_t i = 0; i < row.fields.size(); ++i) named[heading.fields[i]] = row.fields[i];
  return named;
}

std::vector<std::int64_t> numbers_of(const NamedFields& row, const std::string& column) {
  const auto found = row.find(column);
  const Extents extents = Extents::parse(found == row.end() ? "" : found->second);
  if (!extents.fixed())
    throw Error(ErrorKind::invalid_argument,
                column + ": '" + found->second + "' is an interval; give numbers, as in \"1,64\"");
  return extents.numbers();
}

/// The name of the kind: the type, except where the mode has a name of its own.
const ProductKind& kind_of(const NamedFields& row) {
  const auto of = [&](const char* column, const std::string& otherwise) {
    const auto found = row.find(column);
    return found == row.end() || found->second.empty() ? otherwise : found->second;
  };
  const std::string math = of("math", "strict"), type = of("dtype", "f32");
  const ProductKind& kind = parse_kind(math == "strict" ? type : math);
  if (math != "strict" && type != to_string(kind.a))
    throw Error(ErrorKind::invalid_argument,
                "math: " + math + " is of " + std::string(to_string(kind.a)) + ", not of " + type);
  return kind;
}

void add_products(std::vector<Problem>& problems, const NamedFields& row) {
  const ProductKind& kind = kind_of(row);
  const auto layouts = row.find("layout");
  for (const std::string& layout : split(layouts == row.end() ? "nn" : layouts->second, ','))
    for (const std::int64_t n : numbers_of(row, "n"))
      for (const std::int64_t k : numbers_of(row, "k"))
        for (const std::int64_t m : numbers_of(row, "m")) {
          Problem problem;
          set_types(problem, kind);
          set_layout(problem, parse_layout(layout));
          problem.m = m, problem.n = n, problem.k = k;
          problems.push_back(aligned(problem));
        }
}

void check_heading(const CsvRow& heading) {
  const std::vector<std::string> allowed = {"layout", "m",    "n",      "k",
                                            "dtype",  "math", "weight", "source"};
  for (const std::string& field : heading.fields)
    if (std::find(allowed.begin(), allowed.end(), field) == allowed.end())
      throw Error(ErrorKind::invalid_argument,
                  "'" + field + "' is no column; the columns are " + kProductColumns);
}

/// What `read` makes of a file, whose name is in its errors.
template <class Read>
std::vector<Problem> read_file(const std::string& path, Read read) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::io, "cannot read the shapes file " + path);
  try {
    return read(file);
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what());
  }
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
  return read_file(path, read_shapes);
}

std::vector<Problem> read_products(std::istream& csv) {
  std::ostringstream text;
  text << csv.rdbuf();
  std::vector<Problem> problems;
  const std::vector<CsvRow> rows = csv_rows(text.str(), CsvComments::hash);
  for (const CsvRow& row : rows) try {
      if (&row == &rows.front())
        check_heading(row);
      else
        add_products(problems, named_fields(rows.front(), row));
    } catch (const Error& error) {
      throw Error(error.kind(), "line " + std::to_string(row.line) + ": " + error.what());
    }
  if (problems.empty()) throw Error(ErrorKind::invalid_argument, "there is no product in it");
  return problems;
}

std::vector<Problem> read_products_file(const std::string& path) {
  return read_file(path, read_products);
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
