#pragma once
#include <cstddef>
#include <vector>

// Built with TILEWISE_CHECK_ADDRESS or TILEWISE_CHECK_THREADS in the executables whose kernels are
// compiled with a sanitizer, which must be told of fibers; so must a sanitizer that all but kernels
// is built with. Elsewhere the checks are empty.
#if defined(TILEWISE_CHECK_ADDRESS) || defined(__SANITIZE_ADDRESS__)
#define TILEWISE_TELL_ADDRESS
#elif defined(TILEWISE_CHECK_THREADS) || defined(__SANITIZE_THREAD__)
#define TILEWISE_TELL_THREADS
#endif

/// Of functions that begin on one fiber and end on another, or never end: the thread sanitizer
/// counts entries and exits of functions, fiber by fiber.
#if defined(__SANITIZE_THREAD__)
#define TILEWISE_UNCOUNTED [[gnu::no_sanitize_thread]]
#else
#define TILEWISE_UNCOUNTED
#endif

namespace tilewise::host {

inline constexpr std::size_t kStackBytes = std::size_t{256} << 10;

/// The stacks of a block's fibers: one mapping, of which only what is used takes memory, with a
/// page below each stack that nobody may touch.
class Stacks {
 public:
  explicit Stacks(unsigned count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  char* bottom(unsigned index) const;
  /// Staggered, so that the stacks' hot ends do not share cache sets.
  char* top(unsigned index) const;

 private:
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What sanitizers are told. Fiber `count` is the OS thread's own stack.
class FiberChecks {
 public:
  /// Edges between threads: what was done before release() has happened for whoever comes out of
  /// acquire() of the same slot. Two barriers that follow one another need slots of their own.
  enum Slot : unsigned { even, odd, begin, end, warps, slots = warps + 64 };
  static unsigned slot_of(unsigned phase) { return phase % 2 == 0 ? even : odd; }
  static unsigned slot_of_warp(unsigned warp, unsigned met) { return warps + warp * 2 + met % 2; }

#if defined(TILEWISE_TELL_ADDRESS) || defined(TILEWISE_TELL_THREADS)
  FiberChecks(const Stacks& stacks, unsigned count);
  ~FiberChecks();
  FiberChecks(const FiberChecks&) = delete;
  FiberChecks& operator=(const FiberChecks&) = delete;
  void block_begins(unsigned threads);
  TILEWISE_UNCOUNTED void before_switch(unsigned from, unsigned to, bool for_good);
  void after_switch(unsigned at);
  void release(unsigned slot);
  void acquire(unsigned slot);
  static void edge(void* at, bool release);  ///< at a place of the kernel's choice

 private:
  const Stacks& stacks_;
  const unsigned count_;
  std::vector<void*> states_;  ///< of each fiber: its fake stack, or its thread
  const void* own_bottom_ = nullptr;
  std::size_t own_bytes_ = 0;
  char slots_[Slot::slots] = {};
#else
  FiberChecks(const Stacks&, unsigned) {}
  void block_begins(unsigned) {}
  void before_switch(unsigned, unsigned, bool) {}
  void after_switch(unsigned) {}
  void release(unsigned) {}
  void acquire(unsigned) {}
  static void edge(void*, bool) {}
#endif
};

/// While it lives, what the executor does to its own lists on a kernel thread's behalf is not
/// looked at: those lists are shared by all threads of a block, which take turns.
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

/// Names the kernel's line in a race report: the executor is not instrumented, so what it does for
/// a kernel would be reported without the place it was asked from (`caller`, a return address).
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

}  // namespace tilewise::host
