#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "cli/command.hpp"
#include "cli/common/input_file.hpp"
#include "cli/common/json.hpp"
#include "cli/common/signals.hpp"
#include "cli/tune/drop_in_library.hpp"
#include "vocabulary/csv.hpp"
#include "vocabulary/decimal.hpp"

extern char** environ;

namespace tilewise::cli {
namespace {

namespace fs = std::filesystem;
// Fields of a recorded line. All fields except kCalls and kMicroseconds identify the problem.
constexpr std::size_t kCalls = 10, kMicroseconds = 11, kFields = 15;

struct RecordCommand {
  std::string list = "problems.csv";
};

void setup(CLI::App& app, RecordCommand& options) {
  app.add_option("-o,--list", options.list, "The list to write, which --problems reads")
      ->type_name("FILE")
      ->capture_default_str();
  app.footer(
      "Runs PROGRAM, and writes the matrix products that it makes by cuBLAS: sizes, types, leading "
      "dimensions, alignment, how often, and the time of a call on the GPU (the mean of the first "
      "8). "
      "The program and its children run as ever, with " +
      std::string(kDropInLibrary) +
      " preloaded, which answers nothing. Programs that end by a signal or by _exit(), and those "
      "that "
      "look up cuBLAS's functions by name, are not recorded. The exit status is the "
      "program's.\n\n" +
      examples({"autotune record -- ./simulation --steps 100",
                "autotune record -o model.csv -- python3 train.py",
                "autotune --problems model.csv --budget 20s    tune them, and say what the program "
                "would gain"}));
}

// The running program, for the handler below.
std::atomic<pid_t> running{0};
void pass_on(int signal) {
  if (const pid_t program = running; program > 0) kill(program, signal);
}

/// Signals while the program runs. Ctrl-C goes to the program only; SIGTERM and SIGHUP are
/// forwarded to it unless ignored. They are blocked until unblock().
class SignalsOfProgram {
 public:
  SignalsOfProgram() {
    sigset_t passed_on;
    sigemptyset(&passed_on);
    for (const int signal : {SIGTERM, SIGHUP}) sigaddset(&passed_on, signal);
    pthread_sigmask(SIG_BLOCK, &passed_on, &mask_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      const bool of_program = kSignals[i] == SIGINT || kSignals[i] == SIGQUIT;
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (!is_ignored(kSignals[i])) std::signal(kSignals[i], of_program ? SIG_IGN : pass_on);
    }
  }
  SignalsOfProgram(const SignalsOfProgram&) = delete;
  SignalsOfProgram& operator=(const SignalsOfProgram&) = delete;
  ~SignalsOfProgram() { restore(); }
  void unblock() const { pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }
  /// Restores the previous actions. Async-signal-safe.
  void restore() const {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    unblock();
  }

 private:
  static constexpr std::array kSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
  sigset_t mask_{};
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// The environment with the preloaded library and the prefix of its output files.
std::vector<std::string> settings_with(const fs::path& library, const fs::path& to) {
  const char* before = std::getenv("LD_PRELOAD");
  std::vector<std::string> settings{
      "LD_PRELOAD=" + library.string() + (before && *before ? ":" + std::string(before) : ""),
      "TILEWISE_DROP_IN_RECORD=" + to.string()};
  for (char** entry = environ; *entry; ++entry)
    if (!std::string_view(*entry).starts_with("LD_PRELOAD=") &&
        !std::string_view(*entry).starts_with("TILEWISE_DROP_IN_RECORD="))
      settings.emplace_back(*entry);
  return settings;
}

/// Starts a program with the signal actions that this program was started with: posix_spawn()
/// cannot ignore a signal that is not ignored here. Throws Error(not_found) when it does not start.
pid_t start_program(std::vector<std::string> words, std::vector<std::string> settings,
                    const SignalsOfProgram& signals) {
  const std::vector<char*> arguments = pointers_to(words), environment = pointers_to(settings);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::io, "no pipe to a program: " + std::string(strerror(errno)));
  const pid_t program = fork();
  if (program == 0) {
    restore_own_signals();
    signals.restore();
    execvpe(arguments[0], arguments.data(), environment.data());
    const int why = errno;
    static_cast<void>(!write(ends[1], &why, sizeof why));
    _exit(127);
  }
  int error = program < 0 ? errno : 0;
  close(ends[1]);
  while (program > 0 && read(ends[0], &error, sizeof error) < 0 && errno == EINTR) continue;
  close(ends[0]);
  if (error == 0) return program;
  if (program > 0) waitpid(program, nullptr, 0);
  throw Error(ErrorKind::not_found, words.front() + " does not start: " + strerror(error));
}

/// Runs the program to its end. Returns its wait status.
int run_program(const std::vector<std::string>& words, const std::vector<std::string>& settings,
                const SignalsOfProgram& signals) {
  const pid_t program = start_program(words, settings, signals);
  running = program;
  signals.unblock();  // forwards signals that arrived before the program ran
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) continue;
  running = 0;
  return status;
}

struct Recorded {
  double calls = 0, us = 0;  ///< of all calls
  double timed = 0;          ///< calls in processes with a time
};

/// An epilogue has commas.
std::string in_csv(const std::string& field) {
  return field.find(',') == field.npos ? field : '"' + field + '"';
}

/// The lines of all processes, by the fields that identify a problem: those before and after the
/// two numbers.
std::map<std::pair<std::string, std::string>, Recorded> read_parts(const fs::path& folder) {
  std::map<std::pair<std::string, std::string>, Recorded> problems;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::vector<CsvRow> rows = csv_rows(contents_of(entry.path()));
    for (std::size_t row = 1; row < rows.size(); ++row) {  // after the heading
      const std::vector<std::string>& fields = rows[row].fields;
      if (fields.size() != kFields) continue;  // truncated by a full disk
      std::string before, after;
      for (std::size_t i = 0; i < kCalls; ++i) before += in_csv(fields[i]) + ",";
      for (std::size_t i = kMicroseconds + 1; i < kFields; ++i) after += "," + fields[i];
      Recorded& problem = problems[{before, after}];
      const double calls = number_in<double>(fields[kCalls]).value_or(0);
      const double us = number_in<double>(fields[kMicroseconds]).value_or(0);
      problem.calls += calls;
      if (us > 0) problem.us += calls * us, problem.timed += calls;
    }
  }
  for (auto& [key, problem] : problems)
    if (problem.timed > 0) problem.us *= problem.calls / problem.timed;
  return problems;
}

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int run_record(const RecordCommand& options, const Output& output) {
  const std::vector<std::string>& words = words_behind_dashes();
  if (words.empty())
    throw Error(ErrorKind::invalid_argument,
                "no program: write it and its arguments behind --, as autotune record -- ./app");
  const DropInLibrary library;
  // Reports an unwritable list before the program runs.
  if (!std::ofstream(options.list, std::ios::app)) throw cannot_write(options.list);
  const PrivateFolder parts(fs::temp_directory_path());
  const SignalsOfProgram signals;  // until the list is written
  const int status =
      run_program(words, settings_with(library.path(), parts.path() / "part"), signals);
  const auto problems = read_parts(parts.path());
  std::vector<std::pair<Recorded, std::string>> lines;
  double calls = 0, us = 0;
  for (const auto& [key, problem] : problems) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%.0f,%.6g", problem.calls, problem.us / problem.calls);
    lines.emplace_back(problem, key.first + numbers + key.second);
    calls += problem.calls, us += problem.us;
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& x, const auto& y) { return x.first.us > y.first.us; });
  if (lines.empty()) {
    warn("the program made no product by cuBLAS that could be recorded; " + options.list +
         " is as it was");
    return exit_status(status);
  }
  std::ofstream list(options.list);
  list << "layout,m,n,k,dtype,out,math,batch,align,epilogue,calls,us,lda,ldb,ldc\n";
  for (const auto& [problem, line] : lines) list << line << '\n';
  list.close();
  if (!list) throw cannot_write(options.list);
  const int ended = exit_status(status);
  if (output.json) {
    print_document(Json{{"list", options.list},
                        {"problems", lines.size()},
                        {"calls", calls},
                        {"ms", us / 1e3},
                        {"program_status", ended}});
  } else {
    char text[200];
    std::snprintf(text, sizeof text, "%zu problems, %.0f calls, %.4g ms in them: ", lines.size(),
                  calls, us / 1e3);
    note(output, "autotune: " + std::string(text) + options.list);
    note(output, "autotune: to tune them: autotune --problems " + options.list);
  }
  return ended;
}

}  // namespace

void add_record(CLI::App& app, Selection& selection) {
  add_command<RecordCommand>(app, selection, "record",
                             "Write the products that a program makes by cuBLAS as a list to tune",
                             setup, run_record);
}

}  // namespace tilewise::cli
