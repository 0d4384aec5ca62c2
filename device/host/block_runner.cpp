#include "device/host/block_runner.hpp"

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace tilewise::host {
namespace {

namespace context = boost::context::detail;

constexpr std::uint32_t kNever = UINT32_MAX;
constexpr std::uint64_t kYieldsBetweenLooks = 4096;
constexpr std::size_t kForgetCopies = 256;  // landed ones are forgotten in batches

// Of this OS thread. A fiber never changes threads.
thread_local BlockRunner* running = nullptr;

bool same(const Site& x, const Site& y) {
  return x.line == y.line && (x.file == y.file || std::strcmp(x.file, y.file) == 0);
}
std::string text(const Index& i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}
std::string text(const Site& site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

}  // namespace

struct KernelCalls {
  static const Thread* thread() { return &running->current_->thread; }
  static void barrier(Site site) { running->barrier(site); }
  static void yield(Site site) { running->yield(site); }
  static void copy(void* to, const void* from, unsigned bytes, unsigned valid) {
    const CallerFrame frame(__builtin_return_address(0));
    running->copy({to, from, bytes, valid, 0});
  }
  static void copies_commit() { running->copies_commit(); }
  static void copies_wait(int pending) {
    const CallerFrame frame(__builtin_return_address(0));
    running->copies_wait(pending);
  }

  /// Where a fiber begins: `from` is the one that switched to it.
  static void start(context::transfer_t from) {
    static_cast<BlockRunner::Fiber*>(from.data)->context = from.fctx;
    running->run_thread();
  }
};

const Runtime& kernel_runtime() {
  static constexpr Runtime runtime{KernelCalls::thread,        KernelCalls::barrier,
                                   KernelCalls::yield,         KernelCalls::copy,
                                   KernelCalls::copies_commit, KernelCalls::copies_wait};
  return runtime;
}

BlockRunner::BlockRunner(const HostOptions& options)
    : options_(options),
      stacks_(kMostThreads),
      checks_(stacks_, kMostThreads),
      fibers_(new Fiber[kMostThreads]),
      copies_(kMostThreads) {}

BlockRunner::~BlockRunner() = default;

unsigned BlockRunner::number_of(const Fiber& fiber) const {
  return &fiber == &main_ ? kMostThreads : static_cast<unsigned>(&fiber - fibers_.get());
}

std::string BlockRunner::name_of(unsigned thread) const {
  return "thread " + text(fibers_[thread].thread.index);
}

/// The ring that threads run in; the same for every block of that many threads.
void BlockRunner::order_threads(unsigned count) {
  if (order_.size() == count) return;
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.order == ThreadOrder::reversed) std::reverse(order_.begin(), order_.end());
  if (options_.order == ThreadOrder::shuffled)
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(options_.seed));
}

void BlockRunner::prepare(const BlockWork& work, const Index& block) {
  work_ = &work;
  count_ = work.threads.x * work.threads.y * work.threads.z;
  live_ = count_;
  arrived_ = 0;
  phase_ = 1;
  idle_yields_ = 0;
  failure_.clear();
  shared_.prepare(work.shared_bytes);
  block_ = {block, work.threads, work.grid, shared_.data()};
  order_threads(count_);
  checks_.block_begins(count_);
  for (unsigned i = 0; i < count_; ++i) {
    Fiber& fiber = fibers_[i];
    const unsigned row = i / work.threads.x;
    fiber.thread = {{i % work.threads.x, row % work.threads.y, row / work.threads.y}, &block_};
    char* top = stacks_.top(i);
    fiber.context = context::make_fcontext(top, static_cast<std::size_t>(top - stacks_.bottom(i)),
                                           &KernelCalls::start);
    fiber.ready_at = 0;
    fiber.file = nullptr;
    Copies& copies = copies_[i];
    copies.pending.clear();
    copies.first = 0;
    copies.groups = 0;
  }
  for (unsigned i = 0; i < count_; ++i)
    fibers_[order_[i]].next = &fibers_[order_[(i + 1) % count_]];
}

std::string BlockRunner::run(const BlockWork& work, const Index& block) {
  prepare(work, block);
  running = this;
  current_ = &main_;
  checks_.release(FiberChecks::begin);
  switch_to(fibers_[order_.front()]);
  checks_.acquire(FiberChecks::end);
  running = nullptr;
  if (failure_.empty()) failure_ = shared_.damage();
  return failure_.empty() ? "" : "block " + text(block) + ": " + failure_;
}

/// What a fiber does. Never returns: there is nothing below it on its stack.
void BlockRunner::run_thread() {
  checks_.after_switch(number_of(*current_));
  checks_.acquire(FiberChecks::begin);
  work_->image->run(work_->arguments);
  Fiber& me = *current_;
  if (arrived_ > 0)
    fail(name_of(number_of(me)) + " ends while " + name_of(first_thread_) +
         " waits at the barrier at " + text(first_site_));
  checks_.release(FiberChecks::end);
  me.ready_at = kNever;
  ended_ = number_of(me);
  idle_yields_ = 0;
  --live_;
  switch_to(live_ == 0 ? main_ : *next_ready(me), true);
}

/// Runs `to` until something switches back. As little as can be comes after the jump: the processor
/// guesses wrong where it returns to.
void BlockRunner::switch_to(Fiber& to, bool for_good) {
  Fiber& me = *current_;
  current_ = &to;
  checks_.before_switch(number_of(me), number_of(to), for_good);
  const context::transfer_t from = context::jump_fcontext(to.context, &me);
  static_cast<Fiber*>(from.data)->context = from.fctx;
  checks_.after_switch(number_of(me));
}

/// The next in the thread order that may run; `from` itself when it is the only one.
BlockRunner::Fiber* BlockRunner::next_ready(Fiber& from) {
  Fiber* fiber = from.next;
  while (fiber->ready_at > phase_) {
    if (fiber == &from) fail("deadlock: " + where_all_wait());
    fiber = fiber->next;
  }
  return fiber;
}

void BlockRunner::barrier(Site site) {
  Fiber& me = *current_;
  if (live_ != count_)
    fail(name_of(number_of(me)) + " waits at the barrier at " + text(site) + ", but " +
         name_of(ended_) + " has ended");
  if (arrived_ == 0)
    first_site_ = site, first_thread_ = number_of(me);
  else if (!same(site, first_site_))
    fail_divergent(me, site);
  me.file = site.file, me.line = site.line;
  const FiberChecks::Slot slot = FiberChecks::slot_of(phase_);
  checks_.release(slot);
  me.ready_at = phase_ + 1;
  idle_yields_ = 0;
  if (++arrived_ == live_) arrived_ = 0, ++phase_;
  switch_to(*next_ready(me));
  checks_.acquire(slot);
}

void BlockRunner::yield(Site site) {
  Fiber& me = *current_;
  me.file = site.file, me.line = site.line;
  if (idle_yields_++ % kYieldsBetweenLooks == 0) {
    const auto now = std::chrono::steady_clock::now();
    if (idle_yields_ == 1) idle_since_ = now;
    if (std::chrono::duration<double>(now - idle_since_).count() > options_.stall_seconds)
      fail("deadlock: threads only wait: " + where_all_wait());
    std::this_thread::yield();  // to the blocks that other OS threads run
  }
  Fiber* next = next_ready(me);
  if (next != &me) switch_to(*next);
}

/// Ends the block: its fibers are left as they are, and their stacks are used again.
void BlockRunner::fail(const std::string& what) {
  failure_ = what;
  switch_to(main_, true);
  __builtin_unreachable();
}

void BlockRunner::fail_divergent(const Fiber& me, Site site) {
  fail("divergent barrier: " + name_of(number_of(me)) + " arrives at " + text(site) + ", " +
       name_of(first_thread_) + " at " + text(first_site_));
}

/// "threads 0-31 at simt.cu:200 (barrier), 32-63 ended".
std::string BlockRunner::where_all_wait() const {
  const auto state = [this](unsigned i) -> std::string {
    const Fiber& fiber = fibers_[i];
    if (fiber.ready_at == kNever) return "ended";
    if (!fiber.file) return "not begun";
    return "at " + text(Site{fiber.file, fiber.line}) +
           (fiber.ready_at > phase_ ? " (barrier)" : "");
  };
  std::string all;
  for (unsigned i = 0, end; i < count_; i = end) {
    const std::string here = state(i);
    for (end = i + 1; end < count_ && state(end) == here;) ++end;
    all += (all.empty() ? "threads " : ", ") + std::to_string(i) +
           (end - i > 1 ? "-" + std::to_string(end - 1) : "") + " " + here;
  }
  return all;
}

void BlockRunner::copy(Copy copy) {
  Copies& copies = copies_[number_of(*current_)];
  copy.group = copies.groups;
  copies.pending.push_back(copy);
}

void BlockRunner::copies_commit() {
  Copies& copies = copies_[number_of(*current_)];
  ++copies.groups;
  if (copies.first < kForgetCopies) return;
  copies.pending.erase(copies.pending.begin(),
                       copies.pending.begin() + static_cast<std::ptrdiff_t>(copies.first));
  copies.first = 0;
}

/// Lands this thread's copies, oldest first, but for those of the last `pending` groups.
void BlockRunner::copies_wait(int pending) {
  Copies& copies = copies_[number_of(*current_)];
  for (; copies.first < copies.pending.size(); ++copies.first) {
    const Copy& copy = copies.pending[copies.first];
    if (copy.group >= copies.groups - pending) return;
    std::memcpy(copy.to, copy.from, copy.valid);
    std::memset(static_cast<char*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
  }
  copies.pending.clear();
  copies.first = 0;
}

}  // namespace tilewise::host
