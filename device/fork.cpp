#include "device/fork.hpp"

#include <pthread.h>

namespace tilewise {
namespace detail {
std::atomic<std::uint32_t> forks{0};
}
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "the child of a process with threads may not wait for a lock");

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace
}  // namespace tilewise
