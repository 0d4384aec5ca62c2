#include "db/process_identity.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>

namespace tilewise {
namespace {

/// A running process in /proc.
struct Shown {
  char state = '?';
  std::int64_t started = 0;
};

/// Reads /proc/PID/stat: "pid (name) state ... starttime ...", where the name may have any
/// character.
std::optional<Shown> shown(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  Shown process;
  fields >> process.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  if (!(fields >> process.started)) return std::nullopt;
  return process;
}

/// Boot and process namespace: pids are comparable where both are equal.
std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  char names[64] = "";
  const ssize_t count = readlink("/proc/self/ns/pid", names, sizeof names - 1);
  if (boot.empty() || count <= 0) return "";
  return boot + " " + std::string(names, static_cast<std::size_t>(count));
}

}  // namespace

ProcessIdentity new_identity() {
  std::random_device random;
  ProcessIdentity process;
  process.token = std::to_string(random()) + "-" + std::to_string(random());
  process.machine = this_machine();
  process.pid = getpid();
  process.started = shown("self").value_or(Shown{}).started;
  return process;
}

bool is_gone(const ProcessIdentity& other) {
  if (other.machine.empty() || other.machine != this_machine()) return false;
  const std::optional<Shown> now = shown(std::to_string(other.pid));
  // /proc may hide other users' processes (hidepid); kill(2)'s errno does not.
  if (!now) return kill(static_cast<pid_t>(other.pid), 0) != 0 && errno == ESRCH;
  return now->started != other.started || now->state == 'Z' || now->state == 'X';
}

}  // namespace tilewise
