#include "device/cpu/checks.hpp"

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

// Calls that the compiler inserts at the ends of an instrumented function; no header declares them.
extern "C" {
void __tsan_func_entry(void* caller);
void __tsan_func_exit();
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace tilewise::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr unsigned kWarpFibers = 32;
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
  // If the system allows no more mappings, a stack overflow goes undetected.
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
    : stacks_(stacks),
      count_(count),
      states_(count + 1),
      groups_(std::size_t{count} * 4 * kGroups) {}
FiberChecks::~FiberChecks() = default;

// Frames that are never left keep their poisoned redzones: those of an abandoned block, and those
// of an instrumented executor.
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

// The first switch leaves the OS thread's own stack, so its bounds are determined here.
void FiberChecks::after_switch(unsigned at) {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(states_[at], &bottom, &bytes);
  if (!own_bottom_) own_bottom_ = bottom, own_bytes_ = bytes;
}

void FiberChecks::edge(void*, bool) {}
void FiberChecks::fence_proxy_async() {}
void FiberChecks::async_proxy(bool) {}
void FiberChecks::block_ends() {}

#elif defined(TILEWISE_TELL_THREADS)

FiberChecks::FiberChecks(const Stacks& stacks, unsigned count)
    : stacks_(stacks),
      count_(count),
      states_(count + 1),
      at_(count),
      groups_(std::size_t{count} * 4 * kGroups) {}

FiberChecks::~FiberChecks() {
  for (unsigned i = 0; i < count_; ++i)
    if (states_[i]) __tsan_destroy_fiber(states_[i]);
}

void FiberChecks::block_begins(unsigned threads, bool) {
  threads_ = threads;
  has_proxy_ = in_proxy_ = false;
  states_[count_] = __tsan_get_current_fiber();
  for (unsigned i = 0; i < threads; ++i) {
    if (states_[i]) continue;
    states_[i] = __tsan_create_fiber(0);
    __tsan_set_fiber_name(states_[i], ("kernel thread " + std::to_string(i)).c_str());
  }
}

// In a check of kernels, only barriers order their threads. In a check of the executor, a switch
// orders the fibers, which share its lists.
void FiberChecks::before_switch(unsigned, unsigned to, bool) {
  at_ = to;
#if defined(TILEWISE_CHECK_THREADS)
  constexpr unsigned kOrder = __tsan_switch_to_fiber_no_sync;
#else
  constexpr unsigned kOrder = 0;
#endif
  __tsan_switch_to_fiber(states_[to], kOrder);
}

void FiberChecks::after_switch(unsigned) {}

#if defined(TILEWISE_CHECK_THREADS)
/// Shared by the BlockRunners of an OS thread, which take turns, since fibers take time and memory
/// to create.
struct FiberChecks::ProxyFibers {
  struct OfThread {
    void* ordered = nullptr;    ///< the second fiber
    bool has_grown = false;     ///< since the warp's fiber acquired it
    char fence = 0, issue = 0;  ///< places of edges
  };
  std::vector<OfThread> of_threads;
  std::vector<void*> of_warps;

  ~ProxyFibers() {
    for (const OfThread& thread : of_threads) __tsan_destroy_fiber(thread.ordered);
    for (void* warp : of_warps) __tsan_destroy_fiber(warp);
  }
};

namespace {
void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
}  // namespace

/// A fiber is ordered after everything that its creator is ordered after: the OS thread is ordered
/// after no access of this block.
void* FiberChecks::new_fiber() {
  switch_to(states_[count_]);
  void* fiber = __tsan_create_fiber(0);
  switch_to(states_[at_]);
  return fiber;
}

void FiberChecks::begin_async_proxy() {
  if (has_proxy_) return;
  static thread_local ProxyFibers of_os_thread;
  proxies_ = &of_os_thread;
  auto& [of_threads, of_warps] = *proxies_;
  has_proxy_ = true;
  of_threads.reserve(count_);  // places must not move
  while (of_threads.size() < threads_) of_threads.push_back({new_fiber()});
  while (of_warps.size() * kWarpFibers < threads_) {
    const std::string name = "async proxy of warp " + std::to_string(of_warps.size());
    __tsan_set_fiber_name(of_warps.emplace_back(new_fiber()), name.c_str());
  }
  for (unsigned i = 0; i < threads_; ++i) {
    switch_to(of_threads[i].ordered);
    __tsan_acquire(&slots_[2 * begin]);
    of_threads[i].has_grown = true;
  }
  switch_to(states_[at_]);
}

void FiberChecks::fence_proxy_async() {
  begin_async_proxy();
  auto& mine = proxies_->of_threads[at_];
  __tsan_release(&mine.fence);
  switch_to(mine.ordered);
  __tsan_acquire(&mine.fence);
  mine.has_grown = true;
  switch_to(states_[at_]);
}

void FiberChecks::async_proxy(bool begins) {
  in_proxy_ = begins;
  if (!begins) return switch_to(states_[at_]);
  begin_async_proxy();
  auto& mine = proxies_->of_threads[at_];
  if (mine.has_grown) {
    switch_to(mine.ordered);
    __tsan_release(&mine.issue);
  }
  switch_to(proxies_->of_warps[at_ / kWarpFibers]);
  if (mine.has_grown) __tsan_acquire(&mine.issue);
  mine.has_grown = false;
}

void FiberChecks::edge(void* at, bool release) {
  const auto order = release ? __tsan_release : __tsan_acquire;
  char* const of_proxy = static_cast<char*>(at) + 1;
  order(at);
  if (!has_proxy_) return;
  if (in_proxy_ || at_ == count_) return order(of_proxy);
  auto& mine = proxies_->of_threads[at_];
  switch_to(mine.ordered);
  order(of_proxy);
  if (!release) mine.has_grown = true;
  switch_to(states_[at_]);
}

/// Ends everything in flight before the next block begins.
void FiberChecks::block_ends() {
  if (!has_proxy_) return;
  for (unsigned warp = 0; warp * kWarpFibers < threads_; ++warp) {
    switch_to(proxies_->of_warps[warp]);
    __tsan_release(&slots_[2 * end]);
  }
  switch_to(states_[count_]);
}
#else
void FiberChecks::edge(void* at, bool release) {
  release ? __tsan_release(at) : __tsan_acquire(at);
}
void FiberChecks::fence_proxy_async() {}
void FiberChecks::async_proxy(bool) {}
void FiberChecks::block_ends() {}
#endif

#if defined(TILEWISE_CHECK_THREADS)
CallerFrame::CallerFrame(void* caller) { __tsan_func_entry(caller); }
CallerFrame::~CallerFrame() { __tsan_func_exit(); }
Unwatched::Unwatched() { __tsan_ignore_thread_begin(); }
Unwatched::~Unwatched() { __tsan_ignore_thread_end(); }
#endif

#endif

}  // namespace tilewise::cpu
