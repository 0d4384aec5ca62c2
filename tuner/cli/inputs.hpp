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

/// Options that several subcommands share, and how their text becomes values. Everything here
/// throws Error(invalid_argument) that names the option, the value seen and what is allowed.
namespace tilewise::cli {

/// Which problems: every size in every layout, of one kind.
struct ProblemOptions {
  std::string sizes;
  std::string layout = "nn";
  std::string dtype = "f32";
  std::string out;  ///< empty: default_result()
  std::string math = "strict";
  std::optional<double> accuracy;
  std::int64_t batch = 1;
  std::string align = "auto";
};
/// `sizes_default` is shown in --help; empty: --sizes must be given. Without `with_accuracy` there
/// is no --accuracy: where problems are named and nothing is chosen.
void add_problem_options(CLI::App& app, ProblemOptions& options, const std::string& sizes_default,
                         bool with_accuracy = true);
/// All of them but --sizes say more about --sizes: they need it.
void need_sizes(CLI::App& app);
/// Needs --sizes. Every bad size is named, not the first one only. Of --accuracy only the value is
/// checked: their mode is strict.
std::vector<Problem> problems_of(const ProblemOptions& options);
/// The same on a device, where --accuracy chooses each problem's mode (see mode_within()). Throws
/// Error(unsupported) where the device cannot do what is asked.
std::vector<Problem> problems_of(const ProblemOptions& options, const DeviceInfo& device,
                                 const std::vector<Winner>& winners);
/// The layouts of "nn,tn" or "all".
std::vector<Layout> parse_layouts(const std::string& text);
/// Which candidates.
struct CandidateOptions {
  std::string templates;
  std::string subspace;
};
void add_candidate_options(CLI::App& app, CandidateOptions& options);
std::vector<const KernelTemplate*> templates_of(const CandidateOptions& options);
Subspace subspace_of(const CandidateOptions& options);

/// "simt {"TILE_M":64,...}": parameters that are not named have their default values, "simt" alone
/// is the default configuration. Throws when the candidate is not valid for the problem on the
/// device, with the constraint it breaks.
Candidate parse_candidate(const std::string& text, const Problem& problem,
                          const DeviceInfo& device);

/// "90", "90s", "2m", "1.5h" -> seconds, more than 0.
double parse_seconds(const std::string& option, const std::string& text);

/// Checks of an option's text: a whole number from `least` to `most`, always decimal (with
/// transform(), since CLI11 takes 010 for 8); a finite number above 0. The error names what is
/// allowed and the value seen; --help does not.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = 1'000'000'000'000);
CLI::Validator number_above_zero();
CLI::Validator time_span();  ///< what parse_seconds() takes
/// Of random numbers.
inline constexpr std::uint64_t kLargestSeed = std::numeric_limits<std::uint64_t>::max();

/// "a,b,,c" -> a, b, c.
std::vector<std::string> split_list(const std::string& text);

}  // namespace tilewise::cli
