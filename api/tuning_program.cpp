#include "api/tuning_program.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "api/shipped_images.hpp"
#include "db/trust.hpp"
#include "device/cpu/files.hpp"
#include "matmul/resolve.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/open_file.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/spawn.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

/// The folders next to the library, as in PREFIX/lib/libtilewise.so or Debian's
/// PREFIX/lib/x86_64-linux-gnu/..., and those of PATH.
std::vector<fs::path> usual_places() {
  std::vector<fs::path> places;
  if (const fs::path own = own_folder(); !own.empty())
    for (const char* from : {".", "../bin", "../../bin"})
      places.push_back((own / from / "autotune").lexically_normal());
  std::istringstream folders(environment_variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (folder.starts_with('/')) places.push_back(fs::path(folder) / "autotune");
  return places;
}

/// Why others may have written the program; empty if only its user or root can have. Anyone who may
/// write in its folder can replace it.
std::string distrust_program(const fs::path& program) {
  if (std::string why = distrust(program); !why.empty()) return why;
  for (const fs::path& file : {program, behind_links(program)})
    if (std::string why = distrust(file.parent_path()); !why.empty())
      return file.parent_path().string() + ": " + why;
  return "";
}

/// The program's standard error, in memory. The program's own children could keep a pipe open.
class ErrorLog : public OpenFile {
 public:
  ErrorLog() : OpenFile(cpu::file_in_memory("autotune", cpu::Use::data)) {}
  /// The last line of the last 4 KiB that is not empty.
  std::string last_line() const {
    char text[4096];
    const off_t size = lseek(descriptor(), 0, SEEK_END);
    const ssize_t got = pread(descriptor(), text, sizeof text,
                              std::max<off_t>(0, size - static_cast<off_t>(sizeof text)));
    std::string line, last;
    for (std::istringstream lines(std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0));
         std::getline(lines, line);)
      if (!line.empty()) last = line;
    return last;
  }
};

/// Whether the program ends by `until`. Its status is 0 if the caller's process reaps children
/// itself; then the database shows whether the search succeeded.
bool ends_by(Clock::time_point until, pid_t program, int& status) {
  constexpr auto kPoll = std::chrono::milliseconds(5);
  for (;;) {
    const pid_t ended = waitpid(program, &status, WNOHANG);
    if (ended == program) return true;
    if (ended < 0 && errno != EINTR) {
      status = 0;
      return true;
    }
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

std::string end_in_words(int status) {
  if (WIFSIGNALED(status)) return std::string("was ended by ") + strsignal(WTERMSIG(status));
  return "ended with exit status " + std::to_string(WEXITSTATUS(status));
}

/// Waits for the program and ends it at its time limit. Returns "" for status 0.
std::string wait_for_tuning(pid_t program, double seconds) {
  const std::chrono::duration<double> limit(seconds), grace(5);
  const auto later = [](auto duration) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(duration);
  };
  int status = 0;
  if (ends_by(later(limit), program, status)) return status == 0 ? "" : end_in_words(status);
  kill(program, SIGTERM);
  if (!ends_by(later(grace), program, status)) {
    kill(program, SIGKILL);
    ends_by(later(grace), program, status);
  }
  return "was ended after " + std::to_string(static_cast<int>(seconds)) + " s";
}

}  // namespace

fs::path find_autotune(const fs::path& named, Trust trust) {
  if (!named.empty()) {
    if (is_program(named)) return fs::absolute(named);
    throw Error(ErrorKind::not_found, "on_miss is tune, and " + named.string() +
                                          " (the option autotune) is no executable file");
  }
  std::string searched;
  for (const fs::path& place : usual_places()) {
    std::string why;
    if (is_program(place)) {
      if (trust == Trust::owner) why = distrust_program(place);
      if (why.empty()) return place;
    }
    append(searched, place.string() + (why.empty() ? "" : " (skipped: " + why + ")"));
  }
  throw Error(ErrorKind::not_found,
              "on_miss is tune, and there is no program autotune (the option autotune names it); "
              "searched: " +
                  searched);
}

TuningProgram::TuningProgram(Settings settings) : settings_(std::move(settings)) {
  constexpr double kMost = 86400;
  if (!(settings_.seconds > 0 && settings_.seconds <= kMost))
    throw Error(ErrorKind::invalid_argument,
                "tune_seconds is " + in_shortest_form(settings_.seconds) +
                    "; the budget of a search is above 0 and at most 86400 seconds");
  settings_.program = find_autotune(settings_.program, settings_.trust);
}

std::string TuningProgram::operator()(const Problem& problem, const DeviceInfo& device) const {
  std::vector<std::string> words{settings_.program.string(), "tune"};
  for (std::string& word : option_words(tune_options(problem))) words.push_back(std::move(word));
  words.insert(words.end(),
               {"--device", device_option(device), "--budget", in_shortest_form(settings_.seconds),
                "--db", settings_.database.string()});
  if (!settings_.nvrtc.empty()) words.insert(words.end(), {"--nvrtc", settings_.nvrtc});
  if (settings_.trust == Trust::anyone) words.emplace_back("--trust-files");

  const ErrorLog errors;
  Spawn spawn;  // in the caller's process group, so that Ctrl-C reaches it
  spawn.null(0).null(1).unblock_all();
  if (errors.descriptor() >= 0)
    spawn.give(errors.descriptor(), 2);
  else
    spawn.null(2);
  spawn.with_environment([this](std::string_view setting) {
    return settings_.trust != Trust::anyone && setting.starts_with("TILEWISE_TRUST_FILES=");
  });
  pid_t program = -1;
  const int failed = spawn.start(words, program);
  if (failed != 0) return words.front() + " cannot be started: " + std::strerror(failed);
  const double longest = 4 * settings_.seconds + settings_.beside_seconds;
  const std::string end = wait_for_tuning(program, longest);
  if (end.empty()) return "";
  const std::string said = errors.last_line();
  return words.front() + " " + end + (said.empty() ? "" : ": " + said);
}

void add_tuning(MatmulParts& parts, const MatmulOptions& options, const fs::path& database,
                Trust trust) {
  TuningProgram program({options.autotune, options.tune_seconds, database, trust,
                         options.nvrtc.empty() ? "" : fs::absolute(options.nvrtc).string()});
  try {
    // Opened even if it exists: another process may be making it, and a reader sees an empty file
    // then.
    Database::open(database, OpenMode::read_write, trust);
    parts.tune = std::move(program);
  } catch (const Error& error) {
    parts.notes.push_back(
        std::string("on_miss is tune, and products are served as by serve, since the database "
                    "cannot be written: ") +
        error.what());
  }
}

}  // namespace tilewise
