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

/// Options that several subcommands share, and their parsers. They throw Error(invalid_argument)
/// with the option, the value and the allowed values.
namespace tilewise::cli {

/// The problems: every size in every layout, all of one kind; or a list in a file, with the other
/// options as defaults.
struct ProblemOptions {
  std::string sizes;
  std::string list;  ///< path of a problem list, see problem_list.hpp
  std::string layout = "nn";
  std::string dtype = "f32";
  std::string dtype_b;  ///< empty: `dtype`
  std::string out;      ///< empty: default_result()
  std::string math = "strict";
  std::optional<double> accuracy;
  std::int64_t batch = 1;
  std::int64_t groups = 0;  ///< of a grouped product; 0: not grouped, but by `grouped`
  std::string rows;         ///< of all groups; empty: the sizes' m
  std::string grouped;      ///< Grouping; empty: rows if there are groups
  std::string distribution = "even";
  std::string align = "auto";
  std::string epilogue;  ///< docs/epilogues.md; empty: none
  std::string order;     ///< set_order(); docs/invariance.md
};
/// A problem with its share of the work: 1 in a list without weights.
struct WeightedProblem {
  Problem problem;
  double weight = 1;
  bool own_math = false;  ///< math mode from its row in the list; --accuracy keeps it
  double calls = 0;       ///< recorded calls of an application; 0: not known
  double us = 0;          ///< of one recorded call, with the library that the application used
};

/// An option whose value is a list in one text. Texts of repeated options are joined with
/// `separator`; the first one replaces the default.
CLI::Option* add_list_option(CLI::App& app, const std::string& names, std::string& value,
                             const std::string& help, char separator = ',');

/// `sizes_default` is shown in --help; empty: --sizes or --problems is required. `with_accuracy`
/// adds --accuracy.
void add_problem_options(CLI::App& app, ProblemOptions& options, const std::string& sizes_default,
                         bool with_accuracy = true);
/// Adds the options of the kind only: --layout, --dtype, --dtype-b, --out, --math, --batch.
void add_kind_options(CLI::App& app, ProblemOptions& options);
/// A problem without sizes: types, mode and batch.
Problem kind_of(const ProblemOptions& options);
/// Makes every problem option require --sizes or --problems.
void need_sizes(CLI::App& app);
/// Whether --sizes or --problems is given.
bool names_problems(const ProblemOptions& options);
/// Refuses --invariant, where only an order that is named (--order) makes sense.
void refuse_kept_order(const ProblemOptions& options);
/// The problems of --sizes alone: every size in every layout.
std::vector<Problem> problems_of_sizes(const ProblemOptions& options);
/// Requires --sizes or --problems. The error names every bad size, or the place in the list.
/// --accuracy is checked but not applied: the mode of the problems is strict.
std::vector<Problem> problems_of(const ProblemOptions& options);
/// The same for a device; --accuracy chooses each problem's mode (see mode_within()). Throws
/// Error(unsupported) for kinds that the device lacks.
std::vector<Problem> problems_of(const ProblemOptions& options, const DeviceInfo& device,
                                 const std::vector<Winner>& winners);
/// The same with weights. A repeated problem occurs once, with the sum of its weights.
std::vector<WeightedProblem> weighted_problems_of(const ProblemOptions& options,
                                                  const DeviceInfo& device,
                                                  const std::vector<Winner>& winners);
/// The layouts of "nn,tn" or "all".
std::vector<Layout> parse_layouts(const std::string& text);
/// Options that restrict the candidates.
struct CandidateOptions {
  std::string templates;
  std::string subspace;
};
void add_candidate_options(CLI::App& app, CandidateOptions& options);
std::vector<const KernelTemplate*> templates_of(const CandidateOptions& options);
Subspace subspace_of(const CandidateOptions& options);

/// "simt {"TILE_M":64,...}": parameters that are not named have their defaults; "simt" is the
/// default configuration. Throws with the violated constraint when the candidate is invalid for the
/// problem on the device.
Candidate parse_candidate(const std::string& text, const Problem& problem,
                          const DeviceInfo& device);

/// "90", "90s", "2m", "1.5h" in seconds, more than 0.
double parse_seconds(const std::string& option, const std::string& text);

/// Validators of an option's text: a whole number from `least` to `most`, always decimal (use
/// transform(), since CLI11 reads 010 as 8); a finite number above 0. The error names the value and
/// the allowed range; --help does not.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = 1'000'000'000'000);
CLI::Validator number_above_zero();
CLI::Validator time_span();  ///< for parse_seconds()
/// The largest seed of the random number generators.
inline constexpr std::uint64_t kLargestSeed = std::numeric_limits<std::uint64_t>::max();

/// "a,b,,c" -> a, b, c.
std::vector<std::string> split_list(const std::string& text);

}  // namespace tilewise::cli
