#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"

// Candidates as tables print them and as --only and --subspace read them:
//
//   simt 128x128x8 thread=8x8 vector=4/4/4 warp_m=4 prefetch=tma-4 group_m=8
//
// 128x128x8 is TILE_M x TILE_N x TILE_K; thread= (warp=) is THREAD_M x THREAD_N (WARP_M x WARP_N);
// a/b/c are the values of A, B and C; a name by itself means yes. A parameter is left out where it
// has its plain value: "no", "none" or else its first label; of numbers 1, else 0.
namespace tilewise {

/// The allowed values of parameters, by name; parameters without an entry keep all values.
using Subspace = std::map<std::string, std::vector<int>>;

/// The error for a name that is no parameter of the templates. Its text lists their parameters.
Error no_such_parameter(const std::string& name,
                        const std::vector<const KernelTemplate*>& templates);

/// The value of a parameter that is left out; null where it must be named.
const int* plain_value(const Parameter& parameter);

/// The form above. A candidate with a template, parameter or value unknown to this version is
/// written as JSON, as by to_string().
std::string short_text(const Candidate& candidate);

/// Reads the values named in `text`, for the parameters of `templates`. Items are separated by
/// blanks or ';'. NAME=VALUE,VALUE lists values, as numbers or as the labels of Parameter. Names
/// and labels may be in lower or upper case. Throws Error(invalid_argument).
Subspace parse_values(std::string_view text, const std::vector<const KernelTemplate*>& templates);

/// The complete configuration of `kernel` for `text`, which has no template name. Throws
/// Error(invalid_argument) for unknown or repeated names, several values, or a parameter that is
/// left out and has no plain value.
Configuration parse_configuration(std::string_view text, const KernelTemplate& kernel);

/// An explanation of the form in a few lines, for --help.
extern const char* const kCandidateLegend;

}  // namespace tilewise
