#include "cli/tune/range_list.hpp"

#include <algorithm>

#include "cli/common/csv_list.hpp"
#include "cli/common/input_file.hpp"
#include "matmul/resolve.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise::cli {
namespace {

constexpr const char* kRangeColumns = "m, n, k, layout, dtype, dtype_b, out, math, weight, source";

Extents extents_in(const Row& row, const char* column) {
  const auto found = row.find(column);
  if (found == row.end())
    refuse_list(std::string(column) + " is missing; every range has m, n and k");
  try {
    return Extents::parse(found->second);
  } catch (const Error& error) {
    refuse_list(std::string(column) + ": " + error.what());
  }
}

std::string value_of(const Row& row, const char* column, const std::string& otherwise) {
  const auto found = row.find(column);
  return found == row.end() ? otherwise : found->second;
}

double weight_of(const Row& row) {
  const std::string text = value_of(row, "weight", "1");
  const auto weight = number_in<double>(text);
  if (!weight || !(*weight > 0) || !(*weight <= 1e12))
    refuse_list("weight: '" + text + "' is not allowed; give a number above 0, at most 1e12");
  return *weight;
}

/// Adds a row's block to the range of each of its kinds.
void add_block(std::vector<WeightedRange>& ranges, const Row& row, const ProblemOptions& defaults) {
  ProblemOptions options = defaults;
  const std::vector<std::string> types = split_list(value_of(row, "dtype", defaults.dtype));
  if (types.empty()) refuse_list("dtype: no type is given");
  SizeBlock block{parse_layouts(value_of(row, "layout", defaults.layout)), extents_in(row, "m"),
                  extents_in(row, "n"), extents_in(row, "k"),
                  weight_of(row) / static_cast<double>(types.size())};
  for (const std::string& type : types) {
    options.dtype = type;
    options.dtype_b = value_of(row, "dtype_b", row.contains("dtype") ? "" : defaults.dtype_b);
    options.out = value_of(row, "out", row.contains("dtype") ? "" : defaults.out);
    options.math = value_of(row, "math", row.contains("dtype") ? "strict" : defaults.math);
    const Problem kind = kind_of(options);
    auto range = std::find_if(ranges.begin(), ranges.end(), [&](const WeightedRange& known) {
      return same_types(known.range.kind, kind);
    });
    if (range == ranges.end()) range = ranges.insert(ranges.end(), {{kind, {}}, 0});
    range->range.blocks.push_back(block);
    range->weight += block.weight;
  }
}

std::vector<WeightedRange> ranges_in(const std::string& text, const ProblemOptions& defaults) {
  std::vector<WeightedRange> ranges;
  for (const ListRow& row : rows_of_list(text, kRangeColumns)) try {
      add_block(ranges, row.values, defaults);
    } catch (const Error& error) {
      std::string message = error.what();
      if (message.starts_with("--")) message.erase(0, 2);  // a column, not an option
      throw Error(error.kind(), row.place + ": " + message);
    }
  if (ranges.empty())
    refuse_list(std::string("there is no range in it; it is CSV with a heading of ") +
                kRangeColumns);
  return ranges;
}

}  // namespace

std::vector<WeightedRange> read_range_list(const std::string& path,
                                           const ProblemOptions& defaults) {
  try {
    return ranges_in(contents_of(path), defaults);
  } catch (const Error& error) {
    throw Error(error.kind(),
                "--problems " + (path == "-" ? "- (standard input)" : path) + ", " + error.what());
  }
}

}  // namespace tilewise::cli
