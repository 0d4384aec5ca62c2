#include "cli/common/program_output.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "vocabulary/spawn.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {

std::string find_program(const std::string& name) {
  std::istringstream folders(environment_variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string program = (folder.empty() ? "." : folder) + "/" + name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

bool is_program(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

std::vector<std::filesystem::path> toolkit_folders() {
  std::vector<std::filesystem::path> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string value = environment_variable(name); !value.empty())
      folders.push_back(std::filesystem::path(value) / "bin");
  folders.emplace_back("/usr/local/cuda/bin");
  return folders;
}

std::optional<ProgramOutput> output_of(const std::vector<std::string>& command, bool with_errors) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Spawn spawn;
  spawn.null(0).give(ends[1], 1);
  if (with_errors)
    spawn.give(ends[1], 2);
  else
    spawn.null(2);
  pid_t child = -1;
  const int error = spawn.start(command, child);
  close(ends[1]);
  ProgramOutput output;
  if (error == 0) {
    std::array<char, 1 << 16> buffer;
    for (;;) {
      const ssize_t n = read(ends[0], buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      output.text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  close(ends[0]);
  return error == 0 ? std::optional(output) : std::nullopt;
}

}  // namespace tilewise::cli
