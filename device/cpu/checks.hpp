#pragma once
#include <cstddef>
#include <vector>

// Sanitizers must be informed about fibers. The checks are active in executables whose kernels are
// compiled with a sanitizer (TILEWISE_CHECK_ADDRESS, TILEWISE_CHECK_THREADS) and in programs that
// are built with one; elsewhere they are empty.
#if defined(TILEWISE_CHECK_ADDRESS) || defined(__SANITIZE_ADDRESS__)
#define TILEWISE_TELL_ADDRESS
#elif defined(TILEWISE_CHECK_THREADS) || defined(__SANITIZE_THREAD__)
#define TILEWISE_TELL_THREADS
#endif

/// For functions that begin on one fiber and end on another, or never end: the thread sanitizer
/// counts entries and exits per fiber.
#if defined(__SANITIZE_THREAD__)
#define TILEWISE_UNCOUNTED [[gnu::no_sanitize_thread]]
#else
#define TILEWISE_UNCOUNTED
#endif

namespace tilewise::cpu {

enum class AsyncGroup : unsigned char { products, stores };

inline constexpr std::size_t kStackBytes = std::size_t{256} << 10;

/// The stacks of fibers in one mapping, which occupies memory only where used.
class Stacks {
 public:
  explicit Stacks(unsigned count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  /// Makes the page below each of the first `count` stacks inaccessible. A page costs the process
  /// two memory mappings, so only used stacks have one.
  void guard(unsigned count);
  char* bottom(unsigned index) const;
  /// Staggered, so that the hot ends of the stacks use different cache sets.
  char* top(unsigned index) const;

 private:
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned guarded_ = 0;
};

/// Reports fibers and their order to sanitizers. Fiber `count` is the OS thread's own stack.
///
/// The async proxy, for the thread sanitizer. TMA and wgmma access memory for a thread. These
/// accesses are not ordered after everything that the thread is ordered after: a
/// fence_proxy_async() orders them after its ordinary accesses. Therefore a thread has a second
/// sanitizer fiber, which stands for the order of the asynchronous accesses that the thread issues.
/// The second fiber releases and acquires with the thread, at a place of its own for each edge, and
/// acquires the thread at a fence. A third fiber, one per warp, makes the accesses. It acquires the
/// second fiber when they are issued. The thread and its second fiber acquire the third one when
/// the thread has waited for them. Blocks that do not use the async proxy have neither fiber.
class FiberChecks {
 public:
  /// Happens-before edges: release() of a slot precedes a later acquire() of the slot. Consecutive
  /// barriers need different slots.
  enum Slot : unsigned { begin, end, barriers, warps = barriers + 16, slots = warps + 128 };
  static unsigned slot_of(unsigned phase, unsigned block) {
    return barriers + block * 2 + phase % 2;
  }
  static unsigned slot_of_warp(unsigned warp, unsigned met) { return warps + warp * 2 + met % 2; }

#if defined(TILEWISE_TELL_ADDRESS) || defined(TILEWISE_TELL_THREADS)
  FiberChecks(const Stacks& stacks, unsigned count);
  ~FiberChecks();
  FiberChecks(const FiberChecks&) = delete;
  FiberChecks& operator=(const FiberChecks&) = delete;
  /// `abandoned`: the previous block left fibers in the middle of their kernel.
  void block_begins(unsigned threads, bool abandoned);
  TILEWISE_UNCOUNTED void before_switch(unsigned from, unsigned to, bool for_good);
  void after_switch(unsigned at);
  void release(unsigned slot) { edge(&slots_[2 * slot], true); }
  void acquire(unsigned slot) { edge(&slots_[2 * slot], false); }
  /// The kernel chooses the address; the next byte is the async proxy's place.
  void edge(void* at, bool release);
  void fence_proxy_async();
  /// From begin to end, accesses and releases are those of the hardware, for this thread.
  void async_proxy(bool begins);
  /// The place of the edge from a thread's group of asynchronous accesses to the thread.
  void* place_of(unsigned thread, AsyncGroup kind, int group) {
    return &groups_[((thread * 2 + static_cast<unsigned>(kind)) * kGroups +
                     static_cast<unsigned>(group) % kGroups) *
                    2];
  }
  void block_ends();  ///< called by the OS thread

 private:
  static constexpr unsigned kGroups = 16;  ///< more than a kernel has in flight
  struct ProxyFibers;                      ///< of an OS thread
  void begin_async_proxy();
  void* new_fiber();

  const Stacks& stacks_;
  const unsigned count_;
  std::vector<void*> states_;  ///< per fiber: its fake stack, or the sanitizer's fiber
  const void* own_bottom_ = nullptr;
  std::size_t own_bytes_ = 0;
  ProxyFibers* proxies_ = nullptr;
  unsigned at_ = 0;         ///< the fiber that runs
  unsigned threads_ = 0;    ///< in the block or cluster
  bool has_proxy_ = false;  ///< this block or cluster uses the async proxy
  bool in_proxy_ = false;
  char slots_[2 * Slot::slots] = {};
  std::vector<char> groups_;
#else
  FiberChecks(const Stacks&, unsigned) {}
  void block_begins(unsigned, bool) {}
  void before_switch(unsigned, unsigned, bool) {}
  void after_switch(unsigned) {}
  void release(unsigned) {}
  void acquire(unsigned) {}
  void edge(void*, bool) {}
  void fence_proxy_async() {}
  void async_proxy(bool) {}
  void* place_of(unsigned, AsyncGroup, int) { return nullptr; }
  void block_ends() {}
#endif
};

/// Scope in which the thread sanitizer ignores accesses: all threads of a block, which run one at a
/// time, share the executor's own lists.
class Unwatched {
 public:
#if defined(TILEWISE_CHECK_THREADS)
  Unwatched();
  ~Unwatched();
#else
  Unwatched() {}
  ~Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

/// Adds the kernel's line (`caller`, a return address) to race reports: the executor itself is not
/// instrumented.
class CallerFrame {
 public:
#if defined(TILEWISE_CHECK_THREADS)
  explicit CallerFrame(void* caller);
  ~CallerFrame();
#else
  explicit CallerFrame(void*) {}
  ~CallerFrame() {}
#endif
  CallerFrame(const CallerFrame&) = delete;
  CallerFrame& operator=(const CallerFrame&) = delete;
};

}  // namespace tilewise::cpu
