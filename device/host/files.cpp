#include "device/host/files.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "tilewise/error.hpp"

namespace tilewise::host {

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string pattern = (base / "tilewise-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error(ErrorKind::io, "cannot make a folder in " + base.string() + ": " +
                                   std::strerror(errno) + " (TMPDIR names another place)");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::keep() {
  kept_ = true;
  return path_.string();
}

void write_file(const std::filesystem::path& path, const void* data, std::size_t bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  stream.close();
  if (!stream) throw Error(ErrorKind::io, "cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(ErrorKind::io, "cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

int run_program(const std::vector<std::string>& words, const std::filesystem::path& folder,
                std::string& log) {
  const std::filesystem::path log_file = folder / "log.txt";
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    log = words.front() + ": " + std::strerror(error);
    return -1;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  log = read_file(log_file);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  log += "\n" + words.front() + " was ended by signal " + std::to_string(WTERMSIG(status));
  return -1;
}

}  // namespace tilewise::host
