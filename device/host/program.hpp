#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tilewise::host {

/// How a program ended, with what it wrote.
struct ProgramEnd {
  int start_error = 0;  ///< errno where it could not be started, else 0
  int signal = 0;       ///< that ended it, else 0
  int status = 0;       ///< its exit status, where neither of these
  std::string log;      ///< standard output and standard error
};

/// Runs a program (looked for on PATH) in `folder` and waits for its end, with no input, LC_ALL=C,
/// its temporary files in `temporary` (empty: where the caller has them) and a process group of its
/// own: Ctrl-C does not reach it, and it is ended with all that it started.
ProgramEnd run_program(const std::vector<std::string>& words, const std::filesystem::path& folder,
                       const std::filesystem::path& temporary);

/// Why an end is the system's fault and not the program's or its input's: a signal from outside, no
/// memory, no space, no more files. Empty when it is not, or cannot be told.
std::string outside_fault(const ProgramEnd& end);

}  // namespace tilewise::host
