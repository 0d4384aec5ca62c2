#include "vocabulary/spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace tilewise {
namespace {

/// `texts` must outlive the list.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Spawn::Spawn() {
  posix_spawn_file_actions_init(&actions_);
  posix_spawnattr_init(&attributes_);
}

Spawn::~Spawn() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

Spawn& Spawn::in_folder(const std::string& folder) {
  posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  return *this;
}

Spawn& Spawn::null(int its) {
  const int how = its == STDIN_FILENO ? O_RDONLY : O_WRONLY;
  posix_spawn_file_actions_addopen(&actions_, its, "/dev/null", how, 0);
  return *this;
}

Spawn& Spawn::give(int mine, int its) {
  posix_spawn_file_actions_adddup2(&actions_, mine, its);
  return *this;
}

void Spawn::mask(const sigset_t& signals) {
  posix_spawnattr_setsigmask(&attributes_, &signals);
  add_flags(POSIX_SPAWN_SETSIGMASK);
}

void Spawn::add_flags(int flags) {
  short all = 0;
  posix_spawnattr_getflags(&attributes_, &all);
  posix_spawnattr_setflags(&attributes_, static_cast<short>(all | flags));
}

Spawn& Spawn::block(std::initializer_list<int> signals) {
  sigset_t all;
  pthread_sigmask(SIG_SETMASK, nullptr, &all);
  for (const int signal : signals) sigaddset(&all, signal);
  mask(all);
  return *this;
}

Spawn& Spawn::unblock_all() {
  sigset_t none;
  sigemptyset(&none);
  mask(none);
  return *this;
}

Spawn& Spawn::in_own_group() {
  sigset_t ordinary;
  sigemptyset(&ordinary);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, SIGXFSZ})
    sigaddset(&ordinary, signal);
  posix_spawnattr_setsigdefault(&attributes_, &ordinary);
  posix_spawnattr_setpgroup(&attributes_, 0);
  add_flags(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  return *this;
}

Spawn& Spawn::with_environment(const std::function<bool(std::string_view)>& left_out,
                               std::vector<std::string> more) {
  own_environment_ = true;
  environment_ = std::move(more);
  for (char** entry = environ; *entry; ++entry)
    if (!left_out(*entry)) environment_.emplace_back(*entry);
  return *this;
}

int Spawn::start(const std::vector<std::string>& words, pid_t& program) const {
  std::vector<std::string> arguments = words, variables = environment_;
  return posix_spawnp(&program, words.front().c_str(), &actions_, &attributes_,
                      pointers(arguments).data(),
                      own_environment_ ? pointers(variables).data() : environ);
}

}  // namespace tilewise
