#pragma once
#include <atomic>
#include <cstdint>

namespace tilewise {

namespace detail {
extern std::atomic<std::uint32_t> forks;
}

/// The number of fork() calls between this process and the one that loaded the program. A parent
/// and its child differ by one. An object that holds threads, locks or a GPU keeps the value it was
/// made under: another value now means that the object belongs to a parent process. One relaxed
/// load, no system call.
inline std::uint32_t fork_generation() noexcept {
  return detail::forks.load(std::memory_order_relaxed);
}

}  // namespace tilewise
