#include "device/cpu/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "device/cpu/files.hpp"
#include "device/cpu/leftovers.hpp"
#include "vocabulary/open_file.hpp"
#include "vocabulary/spawn.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cpu {
namespace {
namespace fs = std::filesystem;

/// Messages of gcc, clang, the assembler and the linker (LC_ALL=C) for faults of the system.
/// Killed, Terminated and Interrupt are signals from outside. Segmentation fault and Aborted are
/// not included, since they mean that the source has crashed the compiler.
constexpr std::string_view kWords[] = {"Killed signal terminated program",
                                       "Terminated signal terminated program",
                                       "Interrupt signal terminated program",
                                       "Quit signal terminated program",
                                       "Hangup signal terminated program",
                                       "Bus error signal terminated program",
                                       "File size limit exceeded signal terminated program",
                                       "CPU time limit exceeded signal terminated program",
                                       "terminated with signal 9 [",
                                       "terminated with signal 15 [",
                                       "terminated with signal 7 [",
                                       "terminated with signal 25 [",
                                       "unable to execute command: Killed",
                                       "unable to execute command: Terminated",
                                       "unable to execute command: Bus error",
                                       "unable to execute command: File size limit exceeded",
                                       "No space left on device",
                                       "Disk quota exceeded",
                                       "File too large",
                                       "Read-only file system",
                                       "Input/output error",
                                       "virtual memory exhausted",
                                       "out of memory",
                                       "memory exhausted",
                                       "Cannot allocate memory",
                                       "Too many open files",
                                       "Resource temporarily unavailable"};

bool raised_by_mistake(int signal) {
  constexpr int kMistakes[] = {SIGSEGV, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  return std::find(std::begin(kMistakes), std::end(kMistakes), signal) != std::end(kMistakes);
}

/// Whether there is no executable program of this name: another attempt would fail the same way.
bool is_lasting(int start_error) {
  constexpr int kLasting[] = {ENOENT, EACCES, ENOTDIR, ENOEXEC, ELOOP, EPERM, ENAMETOOLONG, E2BIG};
  return std::find(std::begin(kLasting), std::end(kLasting), start_error) != std::end(kLasting);
}

/// A program's output, in memory where possible, so that it survives a full disk.
class Log : public OpenFile {
 public:
  explicit Log(const fs::path& folder) : OpenFile(opened(folder)) {}
  std::string text() const {
    std::string all;
    char piece[4096];
    for (;;) {
      const ssize_t got = pread(descriptor(), piece, sizeof piece, static_cast<off_t>(all.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return all;
      all.append(piece, static_cast<std::size_t>(got));
    }
  }

 private:
  static int opened(const fs::path& folder) {
    const int file = file_in_memory("log", Use::data);
    return file >= 0
               ? file
               : open((folder / "log.txt").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
};

/// Waits for a program and returns its wait status. Reaps it only after removing its entry from the
/// leftovers, so that its id is not reused before.
int wait_for(pid_t program) {
  siginfo_t ended;
  while (waitid(P_PID, static_cast<id_t>(program), &ended, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  Leftovers& all = leftovers();
  const std::lock_guard making(all.mutex);
  all.programs.erase(program);
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words, const fs::path& folder,
                       const fs::path& temporary) {
  ProgramEnd end;
  const Log log(folder);
  if (!log.is_open()) {
    end.start_error = errno;
    end.log = words.front() + ": no file for its output: " + std::strerror(errno);
    return end;
  }
  std::vector<std::string> settings{"LC_ALL=C"};
  if (!temporary.empty()) settings.push_back("TMPDIR=" + temporary.string());
  const auto replaced = [&](std::string_view setting) {
    return setting.starts_with("LC_ALL=") || (!temporary.empty() && setting.starts_with("TMPDIR="));
  };
  Spawn spawn;
  spawn.in_folder(folder).null(0).give(log.descriptor(), 1).give(log.descriptor(), 2);
  spawn.unblock_all().in_own_group().with_environment(replaced, std::move(settings));
  pid_t program = -1;
  {
    Leftovers& all = leftovers();
    const std::lock_guard making(all.mutex);
    end.start_error = spawn.start(words, program);
    if (end.start_error == 0) all.programs.insert(program);
  }
  if (end.start_error != 0) {
    end.log = words.front() + ": " + std::strerror(end.start_error);
    return end;
  }
  const int status = wait_for(program);
  end.log = log.text();
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    append(end.log,
           words.front() + " was ended by signal " + std::to_string(end.signal) + " (" +
               strsignal(end.signal) + ")",
           "\n");
  } else {
    end.status = WEXITSTATUS(status);
  }
  return end;
}

std::string outside_fault(const ProgramEnd& end) {
  if (end.start_error != 0) return is_lasting(end.start_error) ? "" : end.log;
  if (end.signal != 0 && !raised_by_mistake(end.signal))
    return end.log.substr(end.log.rfind('\n') + 1);
  if (end.signal == 0 && end.status == 0) return "";
  for (std::size_t begin = 0; begin < end.log.size();) {
    const std::size_t stop = std::min(end.log.find('\n', begin), end.log.size());
    const std::string_view line = std::string_view(end.log).substr(begin, stop - begin);
    begin = stop + 1;
    if (line.find(" | ") != line.npos) continue;  // a quoted line of the source
    for (const std::string_view words : kWords)
      if (line.find(words) != line.npos) return std::string(line);
  }
  return "";
}

}  // namespace tilewise::cpu
