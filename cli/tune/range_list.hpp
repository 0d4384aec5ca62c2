#pragma once
#include <string>
#include <vector>

#include "cli/common/inputs.hpp"
#include "tuner/size_range.hpp"

/// Lists of ranges in files: `cover --problems FILE`.
namespace tilewise::cli {

/// A range with its share of the budget.
struct WeightedRange {
  SizeRange range;
  double weight = 0;
};

/// The ranges of a CSV file with a heading, one of each kind of products, in the order of the file.
/// The columns are m, n and k (Extents: numbers and intervals, in quotes if there are several), and
/// optionally layout, dtype (each may be a list in quotes), out, math, weight (above 0; 1 without
/// it, shared by the types of a row) and source, a note for readers. An absent or empty value is
/// that of `defaults`; in a row with a dtype, out is the usual type of C and math is strict. Lines
/// that begin with # are skipped. Throws Error(io) when the file cannot be read, and
/// Error(invalid_argument) with the file, the line, the value and the allowed values.
std::vector<WeightedRange> read_range_list(const std::string& path, const ProblemOptions& defaults);

}  // namespace tilewise::cli
