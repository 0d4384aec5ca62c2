#pragma once
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/checks.hpp"
#include "device/cpu/cpu.hpp"
#include "device/cpu/image_api.hpp"
#include "device/cpu/shared_memory.hpp"

namespace tilewise::cpu {

using tilewise_host::AsyncProduct;
using tilewise_host::Block;
using tilewise_host::Exports;
using tilewise_host::Index;
using tilewise_host::MbarrierState;
using tilewise_host::Runtime;
using tilewise_host::Site;
using tilewise_host::Thread;
using tilewise_host::TileLoad;
using tilewise_host::TileStore;
using tilewise_host::WarpCall;

inline constexpr unsigned kMostThreads = 1024;         // per block
inline constexpr unsigned kMostClusterThreads = 2048;  // per cluster with more than one block
inline constexpr unsigned kMostClusterBlocks = 8;
inline constexpr unsigned kWarp = 32, kWarpgroup = 128;

/// The functions that kernels call; they act on the block that runs on the calling OS thread.
const Runtime& kernel_runtime();

/// The processor time of the OS thread; it stops while the thread or the machine is suspended.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline bool same(const Site& x, const Site& y) {
  return x.line == y.line && (x.file == y.file || std::strcmp(x.file, y.file) == 0);
}
std::string text(const Index& index);    ///< "(5,0,0)"
std::string text(const Site& site);      ///< "tiled.cu:47"
std::string text(const WarpCall& call);  ///< "with shuffle at warp.cu:12 (lanes 0x0000ffff)"

/// The work of one launch, for each of its blocks.
struct BlockWork {
  const Exports* image = nullptr;
  const void* arguments = nullptr;
  Index threads{1, 1, 1}, grid{1, 1, 1};
  unsigned cluster = 1;  ///< blocks per cluster, neighbours along x
  unsigned shared_bytes = 0;
};

/// Runs clusters (of one block each without clusters), one after another, on the calling OS thread.
/// Each thread of a cluster's blocks is a fiber that runs until it waits; then the next fiber runs.
/// One BlockRunner per worker.
class BlockRunner {
 public:
  explicit BlockRunner(const CpuOptions& options);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /// Runs a cluster. Returns the mistake, or an empty text when it completed. `block`: its first
  /// block.
  std::string run(const BlockWork& work, const Index& block);

 private:
  friend struct KernelCalls;
  /// A thread's record, one cache line: a barrier accesses all of them.
  struct alignas(64) Fiber {
    Thread thread;
    void* context = nullptr;
    Fiber* next = nullptr;       ///< in thread order, circular
    std::uint32_t ready_at = 0;  ///< the first phase in which it may run
    int line = 0;                ///< where it waits
    const char* file = nullptr;
    const char* operation = nullptr;  ///< the warp operation in which it waits, if any
  };
  static_assert(sizeof(Fiber) == 64);
  static constexpr std::uint32_t kNever = UINT32_MAX;       ///< ready_at of a thread that has ended
  static constexpr std::uint32_t kForLanes = kNever - 1;    ///< of a thread that waits in a Meeting
  static constexpr std::uint32_t kForCluster = kNever - 2;  ///< waits in a cluster_barrier()
  /// The registers of a warpgroup's threads.
  struct Warpgroup {
    int registers[kWarpgroup / kWarp] = {};  ///< per warp; 0: as at the launch
    unsigned warps = 0;                      ///< warps that have executed setmaxnreg, one bit each
    Site site{};
  };
  /// A block of the cluster, and its barrier().
  struct BlockState : Block {
    std::vector<Warpgroup> warpgroups;
    unsigned live = 0, arrived = 0, ended = 0;  ///< ended: a thread has ended
    std::uint32_t phase = 1;
    Site first_site{};  ///< of the barrier in progress
    unsigned first_thread = 0;
    SharedMemory memory;
  };
  /// A warp operation that not all of its lanes have reached yet.
  struct Meeting {
    WarpCall call;  ///< of the first lane
    unsigned thread = 0, arrived = 0;
    unsigned slot = 0;  ///< see FiberChecks
    void* brought[kWarp] = {};
  };
  struct Warp {
    std::vector<Meeting> open;
    unsigned met = 0;  ///< completed meetings that order memory
  };
  struct Mbarrier {
    const void* at;
    Site site;  ///< where it was initialised
    unsigned maker;
    bool ready;  ///< copies may count at it
  };
  struct Arrival {
    const void* barrier;
    Site site;
  };
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes, valid;
    int group;
  };
  /// The asynchronous products of one thread.
  struct Products {
    struct Pending {
      AsyncProduct product;
      int group;
    };
    /// Sums in flight. The thread's own are NaN, or -1 in i32.
    struct Sums {
      void* at;
      std::vector<std::byte> values;
    };
    std::vector<Pending> pending;
    std::vector<Sums> sums;
    int groups = 0;       ///< closed so far
    int released = 0;     ///< the warp's released groups, in its first thread only
    bool fenced = false;  ///< since sums were last ready
  };
  struct Stores {  // per thread
    struct Pending {
      TileStore store;
      int group;
    };
    std::vector<Pending> pending;  ///< oldest first
    int groups = 0;                ///< closed so far
  };
  struct Copies {  // per thread
    std::vector<Copy> pending;
    std::size_t first = 0;  ///< first of the pending copies
    int groups = 0;         ///< closed so far
  };

  void prepare(const BlockWork& work, const Index& block);
  void prepare_block(unsigned rank, const Index& block);
  void order_threads(unsigned count);
  TILEWISE_UNCOUNTED void run_thread();
  void switch_to(Fiber& to, bool for_good = false);
  Fiber* next_ready(Fiber& from);
  void run_others();
  /// Ends the block with the mistake `words()`. The fiber is abandoned, so the destructors in its
  /// frames do not run.
  template <class Words>
  [[noreturn]] void fail(Words words) {
    failure_ = words();
    end_block();
  }
  [[noreturn]] void end_block();
  [[noreturn, gnu::noinline]] void fail_barrier(Site site);
  [[noreturn, gnu::noinline]] void fail_deadlock();
  std::string name_of(unsigned thread) const;
  std::string where_all_wait() const;
  unsigned number_of(const Fiber& fiber) const {
    return &fiber == &main_ ? kMostClusterThreads : static_cast<unsigned>(&fiber - fibers_.get());
  }
  BlockState& block_of(unsigned thread) { return blocks_[thread / count_]; }
  static const BlockState& block_of(const Fiber& fiber) {
    return static_cast<const BlockState&>(*fiber.thread.block);
  }

  void barrier(Site site);
  void yield(Site site);
  void warp(const WarpCall& call);
  Meeting& meeting_of(const WarpCall& call, unsigned thread);
  void check_lanes(const WarpCall& call, unsigned thread);
  /// The meeting that waits for a thread; null without one.
  const Meeting* waiting_for(unsigned thread) const {
    for (const Meeting& meeting : warps_[thread / kWarp].open)
      if ((meeting.call.lanes >> thread % kWarp & 1U) != 0) return &meeting;
    return nullptr;
  }
  [[noreturn]] void fault(Site site, const char* what);
  void copy(Copy copy);
  void copies_commit();
  void copies_wait(int pending);
  void cluster_barrier(Site site);
  char* shared_of(unsigned block, Site site);
  void product_start(const AsyncProduct& product);
  void products_commit();
  void products_wait(int pending);
  /// A warp's products are issued and waited for together.
  void* products_place(unsigned thread, int group) {
    return checks_.place_of(thread / kWarp * kWarp, AsyncGroup::products, group);
  }
  std::string unfinished_product() const;
  bool set_registers(int registers, bool raises, unsigned blocks, Site site);
  std::string partial_warpgroup() const;
  void store_start(const TileStore& store);
  bool store_next(int pending, TileStore& store);
  std::string unfinished_store() const;
  void mbarriers_ready();
  void load_start(const TileLoad& load);
  bool load_next(const void* barrier, TileLoad& load);
  std::string unfinished_load() const;
  void arrival_start(const void* barrier, Site site);
  bool arrival_next(const void* barrier, Site& site);
  /// Non-empty for an arrival in flight to a block that has ended.
  const Site* late_arrival(const BlockState& block) const;
  std::string overwritten_barrier() const;

  CpuOptions options_;
  Stacks stacks_;
  FiberChecks checks_;
  std::unique_ptr<Fiber[]> fibers_;
  std::vector<Copies> copies_;
  std::vector<Products> products_;
  std::vector<Stores> stores_;
  std::vector<Warp> warps_;
  std::vector<TileLoad> loads_;    ///< in flight, oldest first
  std::vector<Arrival> arrivals_;  ///< in flight, oldest first
  std::vector<Mbarrier> barriers_;
  std::vector<unsigned> order_;
  Fiber main_;
  Fiber* current_ = nullptr;
  const BlockWork* work_ = nullptr;
  std::vector<BlockState> blocks_;
  unsigned count_ = 0;       ///< threads per block
  unsigned live_ = 0;        ///< threads of the cluster
  unsigned in_cluster_ = 0;  ///< threads that wait in the cluster_barrier()
  bool clustered_ = false;   ///< a cluster_barrier() has been passed
  Site cluster_site_{};      ///< of its first thread
  unsigned cluster_thread_ = 0;
  std::uint64_t idle_yields_ = 0;  ///< since the last operation other than a yield
  double idle_since_ = 0;          ///< in the OS thread's processor time
  std::string failure_;
};

}  // namespace tilewise::cpu
