#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/space/search_space.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"

/// Options that several subcommands share, and their parsing. Throws Error(invalid_argument) naming
/// the option, the value and what is allowed.
namespace tilewise::cli {

/// The problems: every size in every layout, of one kind; or a list in a file, with the other
/// options as its defaults.
struct ProblemOptions {
  std::string sizes;
  std::string list;  ///< path of a problem list, see problem_list.hpp
  std::string layout = "nn";
  std::string dtype = "f32";
  std::string out;  ///< empty: default_result()
  std::string math = "strict";
  std::optional<double> accuracy;
  std::int64_t batch = 1;
  std::string align = "auto";
};
/// A problem with its share of the work: in lists 1 unless stated.
struct WeightedProblem {
  Problem problem;
  double weight = 1;
  bool own_math = false;  ///< its row in the list has the math mode, which --accuracy leaves alone
  double calls = 0;       ///< of an application, as recorded; 0: not known
  double us = 0;          ///< of one of them, with the library that it used
};

/// An option of a list as one text. Given several times, its texts add up, with `separator` between
/// them; the first one replaces the default.
CLI::Option* add_list_option(CLI::App& app, const std::string& names, std::string& value,
                             const std::string& help, char separator = ',');

/// `sizes_default` is shown in --help; empty: --sizes or --problems is required. `with_accuracy`
/// adds --accuracy.
void add_problem_options(CLI::App& app, ProblemOptions& options, const std::string& sizes_default,
                         bool with_accuracy = true);
/// Of these, the options of the kind: --layout, --dtype, --out, --math, --batch.
void add_kind_options(CLI::App& app, ProblemOptions& options);
/// A problem without sizes: types, mode and batch.
Problem kind_of(const ProblemOptions& options);
/// Makes every problem option require --sizes or --problems.
void need_sizes(CLI::App& app);
/// Whether --sizes or --problems is given.
bool names_problems(const ProblemOptions& options);
/// The problems of --sizes alone: every size in every layout.
std::vector<Problem> problems_of_sizes(const ProblemOptions& options);
/// Requires --sizes or --problems. The error names every bad size, or the place in the list.
/// --accuracy is only checked for its value: the problems' mode is strict.
std::vector<Problem> problems_of(const ProblemOptions& options);
/// The same on a device, where --accuracy chooses each problem's mode (see mode_within()). Throws
/// Error(unsupported) for what the device cannot do.
std::vector<Problem> problems_of(const ProblemOptions& options, const DeviceInfo& device,
                                 const std::vector<Winner>& winners);
/// The same with weights. A problem that is named twice is there once, with the sum of its weights.
std::vector<WeightedProblem> weighted_problems_of(const ProblemOptions& options,
                                                  const DeviceInfo& device,
                                                  const std::vector<Winner>& winners);
/// The layouts of "nn,tn" or "all".
std::vector<Layout> parse_layouts(const std::string& text);
/// The candidates.
struct CandidateOptions {
  std::string templates;
  std::string subspace;
};
void add_candidate_options(CLI::App& app, CandidateOptions& options);
std::vector<const KernelTemplate*> templates_of(const CandidateOptions& options);
Subspace subspace_of(const CandidateOptions& options);

/// "simt {"TILE_M":64,...}": parameters that are not named have their defaults; "simt" is the
/// default configuration. Throws with the violated constraint when the candidate is not valid for
/// the problem on the device.
Candidate parse_candidate(const std::string& text, const Problem& problem,
                          const DeviceInfo& device);

/// "90", "90s", "2m", "1.5h" -> seconds, more than 0.
double parse_seconds(const std::string& option, const std::string& text);

/// Checks of an option's text: a whole number from `least` to `most`, always decimal (use
/// transform(), since CLI11 reads 010 as 8); a finite number above 0. The error names what is
/// allowed and the value; --help does not.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = 1'000'000'000'000);
CLI::Validator number_above_zero();
CLI::Validator time_span();  ///< for parse_seconds()
/// Of the random number generators.
inline constexpr std::uint64_t kLargestSeed = std::numeric_limits<std::uint64_t>::max();

/// "a,b,,c" -> a, b, c.
std::vector<std::string> split_list(const std::string& text);

}  // namespace tilewise::cli
