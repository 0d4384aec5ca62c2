#pragma once
#include <spawn.h>
#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// How a program is started. What is not set is the caller's: descriptors, blocked signals,
/// environment, folder, process group. Not thread-safe.
class Spawn {
 public:
  Spawn();
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  Spawn& in_folder(const std::string& folder);
  /// The program's descriptor `its` is /dev/null.
  Spawn& null(int its);
  /// The program's descriptor `its` is the caller's `mine`.
  Spawn& give(int mine, int its);
  /// `signals` are blocked from its first instruction on, besides those that the thread blocks.
  Spawn& block(std::initializer_list<int> signals);
  /// No signal is blocked: as it would be where the thread blocks them.
  Spawn& unblock_all();
  /// Ctrl-C at the terminal does not reach it, and no signal is ignored.
  Spawn& in_own_group();
  /// The caller's environment without the variables that `left_out` names ("NAME=" of each entry),
  /// and `more` ("NAME=VALUE").
  Spawn& with_environment(const std::function<bool(std::string_view)>& left_out,
                          std::vector<std::string> more = {});

  /// Starts `words`, whose first is a path, or a name that is searched in PATH. Returns 0 with the
  /// process's id in `program`, or an errno.
  int start(const std::vector<std::string>& words, pid_t& program) const;

 private:
  void mask(const sigset_t& signals);
  void add_flags(int flags);
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  bool own_environment_ = false;
  std::vector<std::string> environment_;
};

}  // namespace tilewise
