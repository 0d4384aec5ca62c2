#include "cli/common/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tilewise/error.hpp"

extern char** environ;

namespace tilewise::cli {
namespace {

/// A temporary folder, removed by the destructor, with gnuplot's input and its messages.
class Scratch {
 public:
  Scratch() {
    const char* parent = std::getenv("TMPDIR");
    folder_ = std::string(parent && *parent ? parent : "/tmp") + "/tilewise-figure-XXXXXX";
    if (!mkdtemp(folder_.data()))
      throw Error(ErrorKind::io, "cannot make the folder " + folder_ + ": " + std::strerror(errno));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    unlink(script().c_str());
    unlink(words().c_str());
    rmdir(folder_.c_str());
  }
  std::string script() const { return folder_ + "/figure.gnuplot"; }
  std::string words() const { return folder_ + "/words"; }

 private:
  std::string folder_;
};

/// Runs `program script` with both outputs in the file `words`. True when it succeeded.
bool run(const std::string& program, const std::string& script, const std::string& words) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, words.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::string name = program, argument = script;
  char* arguments[] = {name.data(), argument.data(), nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(ErrorKind::io, "cannot start " + program + ": " + std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string first_lines(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.substr(0, 300);
}

}  // namespace

// In gnuplot's single quotes only the quote is special; it is doubled.
std::string gnuplot_quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? "''" : c == '\n' ? " " : std::string(1, c);
  return made + "'";
}

std::string find_gnuplot() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (folder.empty() ? "." : folder) + "/gnuplot";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  throw Error(ErrorKind::unsupported,
              "--svg is drawn by gnuplot, which is not on PATH; on Debian and Ubuntu "
              "apt-get install gnuplot-nox brings it (--json has the figures without it)");
}

void draw(const std::string& gnuplot, const std::string& script, const std::string& svg) {
  const Scratch scratch;
  std::ofstream file(scratch.script());
  file << script;
  file.close();
  if (!file) throw Error(ErrorKind::io, "cannot write " + scratch.script());
  if (!run(gnuplot, scratch.script(), scratch.words()))
    throw Error(ErrorKind::io,
                gnuplot + " could not draw " + svg + ": " + first_lines(scratch.words()));
}

}  // namespace tilewise::cli
