#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tilewise::cli {

/// Throws Error(invalid_argument) with the existing subcommands, and the nearest of them, for an
/// unknown subcommand, or for a missing one ("db").
void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& words);

/// After a failed parse: " (did you mean --sizes?)" for an unknown option near a known one, or "".
std::string suggestion(const CLI::App& app);

}  // namespace tilewise::cli
