#pragma once
#include <optional>
#include <string>
#include <vector>

/// Other programs.
namespace tilewise::cli {

/// The path of a program on PATH; empty when it is not there.
std::string find_program(const std::string& name);
/// What a program (a path) writes on standard output, and its exit status (-1: it was killed).
/// Standard error is dropped, or joined with `with_errors`. Nothing when it cannot be started.
struct ProgramOutput {
  int status = -1;
  std::string text;
};
std::optional<ProgramOutput> output_of(const std::vector<std::string>& command,
                                       bool with_errors = false);

}  // namespace tilewise::cli
