#pragma once
#include <string>
#include <vector>

#include "cli/common/inputs.hpp"

/// Lists of problems in files: `--problems FILE`.
namespace tilewise::cli {

/// The problems of a file: CSV with a heading, or (when its first character is [) a JSON array of
/// objects. The columns (keys) are m, n and k. Optional ones are layout, dtype, out, math, batch,
/// align ("16", "16/4/16" for A, B, C, or in JSON an array) and weight (above 0). `autotune record`
/// also writes calls and us, which make the weight where there is none, and lda, ldb, ldc for
/// readers. An absent or empty value is that of `defaults`; without a layout, a row is one problem
/// in each default layout. Empty lines and lines that begin with # are skipped. In JSON, "dtype"
/// may also name the four types "A,B,C,accumulator", the notation of printed problems. Throws
/// Error(io) when the file cannot be read, and Error(invalid_argument) with the file, the place,
/// the value and the allowed values.
std::vector<WeightedProblem> read_problem_list(const std::string& path,
                                               const ProblemOptions& defaults);

/// Removes repeats: each problem keeps its first place and has the sum of its weights.
std::vector<WeightedProblem> without_repeats(std::vector<WeightedProblem> problems);

/// Seconds of each problem's search, `budget` on average: half of the time is shared out evenly,
/// half in proportion to the weights. A search of a product that takes little time needs as much to
/// find a fast kernel as another.
std::vector<double> shares_of(double budget, const std::vector<WeightedProblem>& problems);

}  // namespace tilewise::cli
