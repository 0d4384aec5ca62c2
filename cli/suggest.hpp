#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tilewise::cli {

/// Throws Error(invalid_argument) for an unknown or missing ("db") subcommand, with the existing
/// subcommands and the nearest of them.
void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& words);

/// The suggestion after a failed parse: " (did you mean --sizes?)" for an unknown option similar to
/// a known one, otherwise "".
std::string suggestion(const CLI::App& app);

}  // namespace tilewise::cli
