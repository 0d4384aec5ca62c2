#pragma once
#include <atomic>
#include <cstdint>

namespace tilewise {

namespace detail {
extern std::atomic<std::uint32_t> forks;
}

/// The number of fork() calls between the process that loaded the program and this one: a child's
/// number is its parent's plus 1. An object with threads, locks or a GPU stores the number at its
/// creation; a different number later means that a parent process owns the object. One relaxed
/// load, no system call.
inline std::uint32_t fork_generation() noexcept {
  return detail::forks.load(std::memory_order_relaxed);
}

}  // namespace tilewise
