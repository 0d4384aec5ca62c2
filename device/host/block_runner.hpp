#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/host/checks.hpp"
#include "device/host/host.hpp"
#include "device/host/image_api.hpp"
#include "device/host/shared_memory.hpp"

namespace tilewise::host {

using tilewise_host::Block;
using tilewise_host::Exports;
using tilewise_host::Index;
using tilewise_host::Runtime;
using tilewise_host::Site;
using tilewise_host::Thread;

inline constexpr unsigned kMostThreads = 1024;

/// The functions that kernels call; they act on the block that runs on the calling OS thread.
const Runtime& kernel_runtime();

/// What one launch asks of every block.
struct BlockWork {
  const Exports* image = nullptr;
  const void* arguments = nullptr;
  Index threads{1, 1, 1}, grid{1, 1, 1};
  unsigned shared_bytes = 0;
};

/// Runs blocks, one after another, on the OS thread that calls. The threads of a block are fibers;
/// a fiber runs until it has to wait, then the next one does. Made once for each worker.
class BlockRunner {
 public:
  explicit BlockRunner(const HostOptions& options);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /// Empty when the block ran to its end, else what was wrong with it.
  std::string run(const BlockWork& work, const Index& block);

 private:
  friend struct KernelCalls;
  /// A thread's record is one cache line: a barrier goes through all of them.
  struct alignas(64) Fiber {
    Thread thread;
    void* context = nullptr;
    Fiber* next = nullptr;       ///< in the thread order, round and round
    std::uint32_t ready_at = 0;  ///< the phase from which on it may run
    int line = 0;                ///< where it waits
    const char* file = nullptr;
  };
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes, valid;
    int group;
  };
  struct Copies {  // of one thread
    std::vector<Copy> pending;
    std::size_t first = 0;  ///< of those that have not landed
    int groups = 0;         ///< closed so far
  };

  void prepare(const BlockWork& work, const Index& block);
  void order_threads(unsigned count);
  void run_thread();
  void switch_to(Fiber& to, bool for_good = false);
  Fiber* next_ready(Fiber& from);
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void fail_divergent(const Fiber& me, Site site);
  std::string name_of(unsigned thread) const;
  std::string where_all_wait() const;
  unsigned number_of(const Fiber& fiber) const;

  void barrier(Site site);
  void yield(Site site);
  void copy(Copy copy);
  void copies_commit();
  void copies_wait(int pending);

  HostOptions options_;
  Stacks stacks_;
  FiberChecks checks_;
  std::unique_ptr<Fiber[]> fibers_;
  std::vector<Copies> copies_;
  std::vector<unsigned> order_;
  Fiber main_;
  Fiber* current_ = nullptr;
  const BlockWork* work_ = nullptr;
  Block block_{};
  unsigned count_ = 0, live_ = 0, arrived_ = 0, ended_ = 0;  ///< ended_: a thread that has
  std::uint32_t phase_ = 1;
  Site first_site_{};  ///< of the barrier being waited at
  unsigned first_thread_ = 0;
  std::uint64_t idle_yields_ = 0;  ///< since any thread did anything else
  std::chrono::steady_clock::time_point idle_since_;
  std::string failure_;
  SharedMemory shared_;
};

}  // namespace tilewise::host
