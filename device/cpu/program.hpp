#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tilewise::cpu {

/// A program's end and its output.
struct ProgramEnd {
  int start_error = 0;  ///< errno of a failed start, otherwise 0
  int signal = 0;       ///< the signal that ended it, otherwise 0
  int status = 0;       ///< its exit status otherwise
  std::string log;      ///< standard output and standard error
};

/// Runs a program (found by PATH) in `folder` and waits for its end. It has no input, LC_ALL=C, its
/// temporary files in `temporary` (empty: the caller's place) and its own process group: Ctrl-C
/// does not reach it, and processes that it started end with it.
ProgramEnd run_program(const std::vector<std::string>& words, const std::filesystem::path& folder,
                       const std::filesystem::path& temporary);

/// The fault of the system that ended a program: a signal from outside, no memory, no space, too
/// many files. Empty if there is none or it cannot be determined.
std::string outside_fault(const ProgramEnd& end);

}  // namespace tilewise::cpu
