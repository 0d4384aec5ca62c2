#include "api/said_once.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <set>

#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

/// Takes a name of Linux's abstract sockets. The name leaves no file and is free once every process
/// that has the socket has ended. False if another process has the name.
bool take_name(const std::string& name) {
  const int holder = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (holder < 0) return true;  // unknown: twice is better than never
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);  // the first byte is 0: abstract
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  const bool taken = bind(holder, reinterpret_cast<const sockaddr*>(&address), bytes) == 0;
  const bool of_another = !taken && errno == EADDRINUSE;
  if (!taken) close(holder);
  return !of_another;
}

/// Identifies a process group by its number, its pid namespace and its user.
std::string group_name() {
  char space[64] = {};
  const ssize_t count = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  return std::to_string(getuid()) + " " + std::to_string(getpgrp()) + " " +
         std::string(space, static_cast<std::size_t>(std::max<ssize_t>(0, count)));
}

}  // namespace

bool first_to_say(const std::string& text) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!said.insert(text).second) return false;
  return take_name("tilewise said " + hash_text(group_name() + " " + text));
}

}  // namespace tilewise
