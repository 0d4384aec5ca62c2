#pragma once
#include <string>
#include <vector>

#include "cli/common/inputs.hpp"

/// Lists of problems in files: `--problems FILE`.
namespace tilewise::cli {

/// The problems of a file: CSV with a heading, or (when its first character is [) a JSON array of
/// objects. The columns (keys) are m, n, k, and optionally layout, dtype, out, math, batch, align
/// ("16", "16/4/16" for A, B, C, or in JSON an array) and weight (above 0), and what `autotune
/// record` writes: calls and us, which make the weight where there is none, and lda, ldb, ldc,
/// which are for readers. A value that is absent or empty is that of `defaults`; without a layout,
/// a row is one problem in each of the default layouts. Lines that begin with # and empty lines are
/// skipped. In JSON, "dtype" may also name the four types "A,B,C,accumulator", as the program
/// prints a problem. Throws Error(io) when the file cannot be read, and Error(invalid_argument)
/// with the file, the place, the value and what is allowed.
std::vector<WeightedProblem> read_problem_list(const std::string& path,
                                               const ProblemOptions& defaults);

/// The problems without repeats, each at its first place with the sum of its weights.
std::vector<WeightedProblem> without_repeats(std::vector<WeightedProblem> problems);

/// The seconds of each problem's search: `budget` seconds a problem in the mean, in proportion to
/// the weights, but at least a twentieth of `budget` each.
std::vector<double> shares_of(double budget, const std::vector<WeightedProblem>& problems);

}  // namespace tilewise::cli
