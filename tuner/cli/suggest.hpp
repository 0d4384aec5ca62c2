#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace tilewise::cli {

/// Throws Error(invalid_argument) for a first word that is no subcommand, with the nearest.
void refuse_unknown_command(const CLI::App& app, const std::string& word);

/// After a failed parse: " (did you mean --sizes?)" for an unknown option near a known one, or "".
std::string suggestion(const CLI::App& app);

}  // namespace tilewise::cli
