#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tilewise/error.hpp"
#include "tuner/cli/ladder_report.hpp"

extern char** environ;

namespace tilewise::cli {
namespace {

/// In gnuplot's single quotes only the quote is special; it is doubled.
std::string quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? "''" : c == '\n' ? " " : std::string(1, c);
  return made + "'";
}

/// In a data block double quotes delimit a text, and cannot be escaped.
std::string datum(const std::string& text) {
  std::string made = text;
  for (char& c : made)
    if (c == '"' || c == '\n') c = ' ';
  return '"' + made + '"';
}

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

std::string three_digits(double value) {
  return format_number(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string first_lines(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.substr(0, 300);
}

}  // namespace

std::string figure_script(const Ladder& ladder, const std::string& svg) {
  const RateUnit unit = rate_unit(ladder);
  const double peak = unit.scaled(peak_tflops(ladder));
  std::ostringstream data, script;
  int bars = 0;
  double top = peak;
  for (const Rung& rung : ladder.rungs)
    if (const double rate = unit.scaled(tflops_of(ladder, rung)); rate > 0) {
      top = std::max(top, rate);
      data << bars++ << ' ' << rate << ' ' << datum(rung.name) << ' ' << datum(three_digits(rate))
           << '\n';
    }
  script << "set terminal svg size 960,540 font 'sans-serif,14' background 'white' noenhanced\n"
         << "set output " << quoted(svg) << "\n"
         << "set title "
         << quoted(std::string(to_string(ladder.problem.layout)) + " " + size_text(ladder.problem) +
                   " f32 on " + ladder.device.name)
         << "\n$rungs << END\n"
         << data.str() << "END\n"
         << "set style fill solid 0.8 noborder\nset boxwidth 0.7\nunset key\n"
         << "set ylabel '" << unit.name()
         << "'\nset grid ytics lt 1 lc rgb '#dddddd'\nset border 3\n"
         << "set tics nomirror\nset xtics rotate by -30\n"
         << "set xrange [-0.6:" << bars - 0.4
         << "]\nset yrange [0:*]\nset offsets 0,0,graph 0.08,0\n";
  if (peak > 0)
    script << "set arrow 1 from graph 0, first " << peak << " to graph 1, first " << peak
           << " nohead dt 2 lw 2 lc rgb '#aa3333'\n"
           << "set label 1 'f32 peak " << three_digits(peak) << "' at graph 0.01, first " << peak
           << " offset 0,0.6 tc rgb '#aa3333'\nset yrange [0:" << 1.12 * top << "]\n";
  script << "plot $rungs using 1:2:xtic(3) with boxes lc rgb '#3366aa', "
            "$rungs using 1:2:4 with labels offset 0,0.7\n";
  return script.str();
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

void draw_figure(const Ladder& ladder, const std::string& svg, const std::string& gnuplot) {
  const Scratch scratch;
  std::ofstream file(scratch.script());
  file << figure_script(ladder, svg);
  file.close();
  if (!file) throw Error(ErrorKind::io, "cannot write " + scratch.script());
  if (!run(gnuplot, scratch.script(), scratch.words()))
    throw Error(ErrorKind::io,
                gnuplot + " could not draw " + svg + ": " + first_lines(scratch.words()));
}

}  // namespace tilewise::cli
