#pragma once
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

#include "samples.hpp"

// Small file systems, and users without root's privileges, both in child processes.
namespace tilewise::samples {

inline constexpr int kNotPermitted = 77;  // exit status: this machine forbids the test

/// In a child process: mounts a small file system at `folder`, which disappears with the child.
inline bool mount_private(const std::filesystem::path& folder, const char* options) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tilewise", folder.c_str(), "tmpfs", 0, options) == 0;
}

inline bool remount_read_only(const std::filesystem::path& folder) {
  return mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

/// Runs `body`, which returns an exit status, in a child process without root's privileges. If run
/// as root, the child has the user and group id `user`.
template <class Body>
int as_user(unsigned user, Body body) {
  return in_child([&] {
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0))
      return kNotPermitted;
    return body();
  });
}

}  // namespace tilewise::samples
