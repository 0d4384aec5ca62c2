#pragma once
#include <spawn.h>
#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// How to start a program. Unset properties are the caller's: descriptors, blocked signals,
/// environment, folder, process group. Not thread-safe.
class Spawn {
 public:
  Spawn();
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  Spawn& in_folder(const std::string& folder);
  /// Makes the program's descriptor `its` /dev/null.
  Spawn& null(int its);
  /// Gives the program the caller's descriptor `mine` as `its`.
  Spawn& give(int mine, int its);
  /// Blocks `signals` from the first instruction on, in addition to those that the thread blocks.
  Spawn& block(std::initializer_list<int> signals);
  /// Blocks no signal, even if the thread blocks some.
  Spawn& unblock_all();
  /// Ctrl-C at the terminal does not reach the program, and no signal is ignored.
  Spawn& in_own_group();
  /// The caller's environment without the entries for which `left_out` is true, and with `more`
  /// ("NAME=VALUE").
  Spawn& with_environment(const std::function<bool(std::string_view)>& left_out,
                          std::vector<std::string> more = {});

  /// Starts `words`; the first is a path, or a name that is searched in PATH. Returns 0 with the
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
