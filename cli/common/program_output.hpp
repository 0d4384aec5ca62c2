#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Runs other programs.
namespace tilewise::cli {

/// The path of a program on PATH; empty when it is not there.
std::string find_program(const std::string& name);
/// Whether the path is a file that this user may execute.
bool is_program(const std::filesystem::path& file);
/// The program folders of a CUDA toolkit: of CUDA_HOME, of CUDA_PATH, /usr/local/cuda/bin.
std::vector<std::filesystem::path> toolkit_folders();
/// A program's standard output and exit status (-1: it was killed). Standard error is dropped, or
/// joined with `with_errors`. Empty when the program cannot be started.
struct ProgramOutput {
  int status = -1;
  std::string text;
};
std::optional<ProgramOutput> output_of(const std::vector<std::string>& command,
                                       bool with_errors = false);

}  // namespace tilewise::cli
