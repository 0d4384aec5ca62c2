#include "device/cpu/block_runner.hpp"

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace tilewise::cpu {
namespace {

namespace context = boost::context::detail;

constexpr std::uint64_t kYieldsBetweenLooks = 4096;
constexpr std::size_t kForgetCopies = 256;  // finished copies are erased in batches

// One per OS thread. A fiber never changes its OS thread.
thread_local BlockRunner* running = nullptr;

}  // namespace

std::string text(const Index& i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}
std::string text(const Site& site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

struct KernelCalls {
  static const Thread* thread() { return &running->current_->thread; }
  static void barrier(Site site) { running->barrier(site); }
  static void yield(Site site) { running->yield(site); }
  static void warp(const WarpCall& call) { running->warp(call); }
  static void fault(Site site, const char* what) { running->fault(site, what); }
  static void copy(void* to, const void* from, unsigned bytes, unsigned valid) {
    const CallerFrame frame(__builtin_return_address(0));
    running->copy({to, from, bytes, valid, 0});
  }
  static void copies_commit() { running->copies_commit(); }
  static void copies_wait(int pending) {
    const CallerFrame frame(__builtin_return_address(0));
    running->copies_wait(pending);
  }
  static void mbarrier_made(const void* barrier, Site site) {
    const Unwatched own_list;
    running->barriers_.push_back({barrier, site, running->number_of(*running->current_), false});
  }
  static void mbarriers_ready() {
    const Unwatched own_list;
    running->mbarriers_ready();
    running->checks_.fence_proxy_async();
  }
  static void load_start(const TileLoad& load) {
    const Unwatched own_list;
    running->load_start(load);
  }
  static bool load_next(const void* barrier, TileLoad* load) {
    const Unwatched own_list;
    return running->load_next(barrier, *load);
  }
  static void arrival_start(const void* barrier, Site site) {
    const Unwatched own_list;
    running->arrival_start(barrier, site);
  }
  static bool arrival_next(const void* barrier, Site* site) {
    const Unwatched own_list;
    return running->arrival_next(barrier, *site);
  }
  static void edge(void* at, bool release) { running->checks_.edge(at, release); }
  static void fence_proxy_async() { running->checks_.fence_proxy_async(); }
  static void async_proxy(bool begins) { running->checks_.async_proxy(begins); }
  static void cluster_barrier(Site site) { running->cluster_barrier(site); }
  static char* shared_of(unsigned block, Site site) { return running->shared_of(block, site); }
  static void product_fence() {
    running->products_[running->number_of(*running->current_)].fenced = true;
  }
  static void product_start(const AsyncProduct& product) {
    const Unwatched own_list;
    running->product_start(product);
  }
  static void products_commit() { running->products_commit(); }
  static void products_wait(int pending) {
    const CallerFrame frame(__builtin_return_address(0));
    running->products_wait(pending);
  }
  static bool set_registers(int registers, bool raises, unsigned blocks, Site site) {
    return running->set_registers(registers, raises, blocks, site);
  }

  static void store_start(const TileStore& store) {
    const Unwatched own_list;
    running->store_start(store);
  }
  static void stores_commit() { ++running->stores_[running->number_of(*running->current_)].groups; }
  static bool store_next(int pending, TileStore* store) {
    const Unwatched own_list;
    return running->store_next(pending, *store);
  }

  /// A fiber's entry point; `from` is the context that switched to it.
  TILEWISE_UNCOUNTED static void start(context::transfer_t from) {
    static_cast<BlockRunner::Fiber*>(from.data)->context = from.fctx;
    running->run_thread();
  }
};

const Runtime& kernel_runtime() {
  static constexpr Runtime runtime{KernelCalls::thread,        KernelCalls::barrier,
                                   KernelCalls::yield,         KernelCalls::warp,
                                   KernelCalls::fault,         KernelCalls::copy,
                                   KernelCalls::copies_commit, KernelCalls::copies_wait,
                                   KernelCalls::mbarrier_made, KernelCalls::mbarriers_ready,
                                   KernelCalls::load_start,    KernelCalls::load_next,
                                   KernelCalls::arrival_start, KernelCalls::arrival_next,
                                   KernelCalls::edge,          KernelCalls::cluster_barrier,
                                   KernelCalls::shared_of,     KernelCalls::product_fence,
                                   KernelCalls::product_start, KernelCalls::products_commit,
                                   KernelCalls::products_wait, KernelCalls::set_registers,
                                   KernelCalls::store_start,   KernelCalls::stores_commit,
                                   KernelCalls::store_next,    KernelCalls::fence_proxy_async,
                                   KernelCalls::async_proxy};
  return runtime;
}

BlockRunner::BlockRunner(const CpuOptions& options)
    : options_(options),
      stacks_(kMostClusterThreads),
      checks_(stacks_, kMostClusterThreads),
      fibers_(new Fiber[kMostClusterThreads]),
      copies_(kMostClusterThreads),
      products_(kMostClusterThreads),
      stores_(kMostClusterThreads),
      warps_(kMostClusterThreads / kWarp) {}

BlockRunner::~BlockRunner() = default;

std::string BlockRunner::name_of(unsigned thread) const {
  const std::string name = "thread " + text(fibers_[thread].thread.index);
  return blocks_.size() == 1
             ? name
             : name + " of block " + std::to_string(thread / count_) + " of the cluster";
}

/// Sets the order of threads, the same for every cluster of `count` threads.
void BlockRunner::order_threads(unsigned count) {
  if (order_.size() == count) return;
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.order == ThreadOrder::reversed) std::reverse(order_.begin(), order_.end());
  if (options_.order == ThreadOrder::shuffled)
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(options_.seed));
}

/// Prepares the threads of the cluster's block `rank`.
void BlockRunner::prepare_block(unsigned rank, const Index& index) {
  BlockState& block = blocks_[rank];
  block.memory.prepare(work_->shared_bytes);
  static_cast<Block&>(block) = {{index.x + rank, index.y, index.z},
                                work_->threads,
                                work_->grid,
                                block.memory.data(),
                                work_->shared_bytes,
                                rank,
                                work_->cluster};
  block.live = count_;
  block.arrived = 0;
  block.phase = 1;
  block.warpgroups.assign((count_ + kWarpgroup - 1) / kWarpgroup, {});
  for (unsigned i = 0; i < count_; ++i) {
    const unsigned thread = rank * count_ + i, row = i / work_->threads.x;
    Fiber& fiber = fibers_[thread];
    fiber.thread = {
        {i % work_->threads.x, row % work_->threads.y, row / work_->threads.y}, i % kWarp, &block};
    char* top = stacks_.top(thread);
    fiber.context = context::make_fcontext(
        top, static_cast<std::size_t>(top - stacks_.bottom(thread)), &KernelCalls::start);
    fiber.ready_at = 0;
    fiber.file = nullptr;
    fiber.operation = nullptr;
    Copies& copies = copies_[thread];
    copies.pending.clear();
    copies.first = 0;
    copies.groups = 0;
    Products& products = products_[thread];
    products.pending.clear();
    products.sums.clear();
    products.groups = products.released = 0;
    products.fenced = false;
    stores_[thread].pending.clear();
    stores_[thread].groups = 0;
  }
}

void BlockRunner::prepare(const BlockWork& work, const Index& block) {
  work_ = &work;
  count_ = work.threads.x * work.threads.y * work.threads.z;
  live_ = count_ * work.cluster;
  in_cluster_ = 0;
  clustered_ = false;
  idle_yields_ = 0;
  blocks_.resize(work.cluster);
  order_threads(live_);
  stacks_.guard(live_);
  checks_.block_begins(live_, !failure_.empty());
  failure_.clear();
  for (unsigned rank = 0; rank < work.cluster; ++rank) prepare_block(rank, block);
  for (Warp& warp : warps_) warp.open.clear();
  loads_.clear();
  arrivals_.clear();
  barriers_.clear();
  for (unsigned i = 0; i < live_; ++i) fibers_[order_[i]].next = &fibers_[order_[(i + 1) % live_]];
}

/// Runs `to` until a switch back. Little code follows the jump, since the processor mispredicts its
/// return address.
inline void BlockRunner::switch_to(Fiber& to, bool for_good) {
  Fiber& me = *current_;
  current_ = &to;
  checks_.before_switch(number_of(me), number_of(to), for_good);
  const context::transfer_t from = context::jump_fcontext(to.context, &me);
  static_cast<Fiber*>(from.data)->context = from.fctx;
  checks_.after_switch(number_of(me));
}

/// The next ready fiber in thread order; `from` itself when no other is ready.
inline BlockRunner::Fiber* BlockRunner::next_ready(Fiber& from) {
  Fiber* fiber = from.next;
  while (fiber->ready_at > block_of(*fiber).phase) {
    if (fiber == &from) fail_deadlock();
    fiber = fiber->next;
  }
  return fiber;
}

std::string BlockRunner::run(const BlockWork& work, const Index& block) {
  prepare(work, block);
  running = this;
  current_ = &main_;
  checks_.release(FiberChecks::begin);
  switch_to(fibers_[order_.front()]);
  checks_.block_ends();
  checks_.acquire(FiberChecks::end);
  running = nullptr;
  if (failure_.empty()) failure_ = unfinished_load();
  if (failure_.empty()) failure_ = overwritten_barrier();
  if (failure_.empty()) failure_ = unfinished_product();
  if (failure_.empty()) failure_ = partial_warpgroup();
  if (failure_.empty()) failure_ = unfinished_store();
  for (const BlockState& state : blocks_)
    if (failure_.empty()) failure_ = state.memory.damage();
  return failure_.empty() ? "" : "block " + text(block) + ": " + failure_;
}

/// A fiber's body. Never returns: its stack has no caller's frame.
void BlockRunner::run_thread() {
  checks_.after_switch(number_of(*current_));
  checks_.acquire(FiberChecks::begin);
  work_->image->run(work_->arguments);
  Fiber& me = *current_;
  BlockState& block = block_of(number_of(me));
  const auto leaves = [&](unsigned other, const Site& site) {
    fail([&] {
      return name_of(number_of(me)) + " ends while " + name_of(other) +
             " waits at the barrier at " + text(site);
    });
  };
  if (block.arrived > 0) leaves(block.first_thread, block.first_site);
  if (in_cluster_ > 0) leaves(cluster_thread_, cluster_site_);
  if (const Meeting* meeting = waiting_for(number_of(me)))
    fail([&] {
      return name_of(number_of(me)) + " ends while " + name_of(meeting->thread) + " waits for it " +
             text(meeting->call);
    });
  if (block.live == 1)
    if (const Site* late = late_arrival(block))  // fail() does not return: no object may be alive
      fail([&] {
        return "a block of the cluster ends while the arrival at " + text(*late) +
               " is on its way to it";
      });
  checks_.release(FiberChecks::end);
  me.ready_at = kNever;
  block.ended = number_of(me);
  idle_yields_ = 0;
  --block.live;
  --live_;
  switch_to(live_ == 0 ? main_ : *next_ready(me), true);
}

/// Runs other fibers until the current thread is ready again.
void BlockRunner::run_others() { switch_to(*next_ready(*current_)); }

/// Hot: most of a barrier's cost is the misprediction after a switch and the cache misses on the
/// next stack. Therefore it has little code, a small frame and the switch last.
void BlockRunner::barrier(Site site) {
  Fiber& me = *current_;
  const unsigned number = number_of(me);
  BlockState& block = block_of(number);
  if (block.arrived == 0) block.first_site = site, block.first_thread = number;
  if (block.live != count_ || !same(site, block.first_site) || waiting_for(number))
    fail_barrier(site);
  me.file = site.file, me.line = site.line;
  const unsigned slot = FiberChecks::slot_of(block.phase, block.rank);
  checks_.release(slot);
  me.ready_at = block.phase + 1;
  idle_yields_ = 0;
  if (++block.arrived == block.live) block.arrived = 0, ++block.phase;
  switch_to(*next_ready(me));
  checks_.acquire(slot);
}

void BlockRunner::fail_barrier(Site site) {
  const unsigned number = number_of(*current_);
  const BlockState& block = block_of(number);
  const auto here = [&] { return name_of(number) + " waits at the barrier at " + text(site); };
  if (block.live != count_)
    fail([&] { return here() + ", but " + name_of(block.ended) + " has ended"; });
  if (const Meeting* meeting = waiting_for(number))
    fail([&] {
      return here() + " while " + name_of(meeting->thread) + " waits for it " + text(meeting->call);
    });
  fail([&] {
    return "divergent barrier: " + name_of(number) + " arrives at " + text(site) + ", " +
           name_of(block.first_thread) + " at " + text(block.first_site);
  });
}

void BlockRunner::yield(Site site) {
  Fiber& me = *current_;
  me.file = site.file, me.line = site.line;
  if (idle_yields_++ % kYieldsBetweenLooks == 0) {
    const double now = thread_seconds();
    if (idle_yields_ == 1) idle_since_ = now;
    if (now - idle_since_ > options_.stall_seconds)
      fail([&] { return "deadlock: threads only wait: " + where_all_wait(); });
    std::this_thread::yield();  // lets OS threads with other blocks run
  }
  Fiber* next = next_ready(me);
  if (next != &me) switch_to(*next);
}

/// Ends the block and abandons its fibers; their stacks are reused.
void BlockRunner::end_block() {
  checks_.release(FiberChecks::end);
  switch_to(main_, true);
  __builtin_unreachable();
}

void BlockRunner::fail_deadlock() {
  fail([&] { return "deadlock: " + where_all_wait(); });
}

void BlockRunner::fault(Site site, const char* what) {
  fail([&] { return name_of(number_of(*current_)) + " at " + text(site) + ": " + what; });
}

/// "threads 0-31 at simt.cu:200 (barrier), 32-63 ended".
std::string BlockRunner::where_all_wait() const {
  const auto state = [this](unsigned i) -> std::string {
    const Fiber& fiber = fibers_[i];
    if (fiber.ready_at == kNever) return "ended";
    if (!fiber.file) return "not begun";
    const std::string here = "at " + text(Site{fiber.file, fiber.line});
    if (fiber.ready_at == kForLanes) return here + " (" + fiber.operation + ")";
    if (fiber.ready_at == kForCluster) return here + " (cluster_barrier)";
    return here + (fiber.ready_at > block_of(fiber).phase ? " (barrier)" : "");
  };
  const unsigned threads = count_ * static_cast<unsigned>(blocks_.size());
  std::string all;
  for (unsigned i = 0, end; i < threads; i = end) {
    const std::string here = state(i);
    for (end = i + 1; end < threads && state(end) == here;) ++end;
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

/// Completes this thread's copies, oldest first, except those of the last `pending` groups.
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

}  // namespace tilewise::cpu
