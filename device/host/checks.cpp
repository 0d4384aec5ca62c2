#include "device/host/checks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#if defined(TILEWISE_TELL_ADDRESS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(TILEWISE_TELL_THREADS)
#include <sanitizer/tsan_interface.h>

// The compiler's calls at the ends of an instrumented function; no header declares them.
extern "C" {
void __tsan_func_entry(void* caller);
void __tsan_func_exit();
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace tilewise::host {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kStagger = 37;  // lines between stack tops; coprime to a page's lines

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Stacks::Stacks(unsigned count) : bytes_(count * kStackBytes) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
}

void Stacks::guard(unsigned count) {
  // Where the system allows no more mappings, a stack overflow goes undetected.
  for (; guarded_ < count; ++guarded_)
    if (mprotect(memory_ + guarded_ * kStackBytes, page_bytes(), PROT_NONE) != 0) break;
}

Stacks::~Stacks() { munmap(memory_, bytes_); }

char* Stacks::bottom(unsigned index) const { return memory_ + index * kStackBytes + page_bytes(); }

char* Stacks::top(unsigned index) const {
  const std::size_t lines = index * kStagger % (page_bytes() / kLine);
  return memory_ + (index + 1) * kStackBytes - lines * kLine;
}

#if defined(TILEWISE_TELL_ADDRESS)

FiberChecks::FiberChecks(const Stacks& stacks, unsigned count)
    : stacks_(stacks), count_(count), states_(count + 1) {}
FiberChecks::~FiberChecks() = default;

// Frames that are never left keep their poisoned redzones: those of an abandoned block, and the
// executor's own where it is instrumented.
void FiberChecks::block_begins(unsigned threads, bool abandoned) {
  std::fill_n(states_.begin(), threads, nullptr);
#if !defined(__SANITIZE_ADDRESS__)
  if (!abandoned) return;
#endif
  for (unsigned i = 0; i < (abandoned ? count_ : threads); ++i) {
    char* bottom = stacks_.bottom(i);
    __asan_unpoison_memory_region(bottom, static_cast<std::size_t>(stacks_.top(i) - bottom));
  }
}

void FiberChecks::before_switch(unsigned from, unsigned to, bool for_good) {
  const bool own = to == count_;
  const void* bottom = own ? own_bottom_ : stacks_.bottom(to);
  const std::size_t bytes =
      own ? own_bytes_ : static_cast<std::size_t>(stacks_.top(to) - stacks_.bottom(to));
  __sanitizer_start_switch_fiber(for_good ? nullptr : &states_[from], bottom, bytes);
}

// The first switch leaves the OS thread's own stack, so its bounds are learnt here.
void FiberChecks::after_switch(unsigned at) {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(states_[at], &bottom, &bytes);
  if (!own_bottom_) own_bottom_ = bottom, own_bytes_ = bytes;
}

void FiberChecks::release(unsigned) {}
void FiberChecks::acquire(unsigned) {}
void FiberChecks::edge(void*, bool) {}
void FiberChecks::async_proxy(unsigned, void*, bool) {}

#elif defined(TILEWISE_TELL_THREADS)

FiberChecks::FiberChecks(const Stacks& stacks, unsigned count)
    : stacks_(stacks), count_(count), states_(count + 1) {}

FiberChecks::~FiberChecks() {
  for (unsigned i = 0; i < count_; ++i)
    if (states_[i]) __tsan_destroy_fiber(states_[i]);
  if (proxy_) __tsan_destroy_fiber(proxy_);
}

void FiberChecks::block_begins(unsigned threads, bool) {
  states_[count_] = __tsan_get_current_fiber();
  for (unsigned i = 0; i < threads; ++i) {
    if (states_[i]) continue;
    states_[i] = __tsan_create_fiber(0);
    __tsan_set_fiber_name(states_[i], ("kernel thread " + std::to_string(i)).c_str());
  }
}

// When kernels are checked, only barriers order their threads. When the executor is checked, a
// switch orders the fibers, which share its lists.
void FiberChecks::before_switch(unsigned, unsigned to, bool) {
#if defined(TILEWISE_CHECK_THREADS)
  constexpr unsigned kOrder = __tsan_switch_to_fiber_no_sync;
#else
  constexpr unsigned kOrder = 0;
#endif
  __tsan_switch_to_fiber(states_[to], kOrder);
}

void FiberChecks::after_switch(unsigned) {}

#if defined(TILEWISE_CHECK_THREADS)
// At the end the thread that waits for the copies acquires what they have read.
void FiberChecks::async_proxy(unsigned of, void* edge, bool begins) {
  if (!proxy_) {
    proxy_ = __tsan_create_fiber(0);
    __tsan_set_fiber_name(proxy_, "copies of tiles");
  }
  char* const done = static_cast<char*>(edge) + 1;
  if (!begins) __tsan_release(done);
  __tsan_switch_to_fiber(begins ? proxy_ : states_[of], __tsan_switch_to_fiber_no_sync);
  __tsan_acquire(begins ? edge : done);
}
#else
void FiberChecks::async_proxy(unsigned, void*, bool) {}
#endif

#if defined(TILEWISE_CHECK_THREADS)
CallerFrame::CallerFrame(void* caller) { __tsan_func_entry(caller); }
CallerFrame::~CallerFrame() { __tsan_func_exit(); }
Unwatched::Unwatched() { __tsan_ignore_thread_begin(); }
Unwatched::~Unwatched() { __tsan_ignore_thread_end(); }
#endif

void FiberChecks::release(unsigned slot) { __tsan_release(&slots_[slot]); }
void FiberChecks::acquire(unsigned slot) { __tsan_acquire(&slots_[slot]); }
void FiberChecks::edge(void* at, bool release) {
  release ? __tsan_release(at) : __tsan_acquire(at);
}

#endif

}  // namespace tilewise::host
