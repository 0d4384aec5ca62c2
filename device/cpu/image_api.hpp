// The interface between a kernel compiled for the CPU and the program that runs it. Compiled into
// both: no include, C++17.
#pragma once

namespace tilewise_host {

/// Raised with every change below: images of another revision are not loaded.
constexpr unsigned kImageRevision = 11;

/// The section of an image's file with an ImageMark, read before any code of the file runs.
#define TILEWISE_MARK_SECTION ".tilewise"
#define TILEWISE_MARK "tw-mark"
struct ImageMark {
  char mark[8];       ///< TILEWISE_MARK
  unsigned revision;  ///< kImageRevision of the program that compiled it
  char cpu[52];       ///< the processor it needs, padded with zeros: "x86-64 avx2 fma"
};

struct Index {
  unsigned x, y, z;
};

/// The shared state of a block's threads.
struct Block {
  Index index, threads, grid;
  void* shared;
  unsigned shared_bytes;
  unsigned rank, cluster;  ///< number in its cluster, and the cluster's blocks
};

/// One thread, as seen by its kernel.
struct Thread {
  Index index;
  unsigned lane;  ///< within its warp
  const Block* block;
};

/// A place in a kernel's source.
struct Site {
  const char* file;
  int line;
};

/// A warp operation. The last of `lanes` to arrive runs apply(all), where all[i] is the `mine` of
/// lane i: its input and the place for its result.
struct WarpCall {
  Site site;
  const char* name;    ///< "shuffle"; the lanes of an operation agree on name and site
  unsigned lanes;      ///< one bit per lane
  bool orders_memory;  ///< earlier writes are visible after it
  void* mine;
  void (*apply)(void* const* all, const WarpCall& call);
};

/// The contents of an encoded tensor map (128 bytes) on the CPU.
constexpr unsigned kTensorMapMark = 0x7457a901;
struct TensorMapData {
  unsigned mark;
  int rank, element_bytes, swizzle_bytes;
  bool rounded;  ///< f32 becomes tf32
  const void* base;
  long long dims[3];        ///< elements, innermost first
  long long stride, batch;  ///< bytes between rows, between matrices
  long long unread;         ///< columns before the operand's row, from the rounding of its base
  int box[3];
};
static_assert(sizeof(TensorMapData) <= 128, "a tensor map has 128 bytes");

/// A tile copy in flight; its bytes count for `barrier` on completion.
struct TileLoad {
  void* to;
  TensorMapData map;
  int x, y, z;
  void* barrier;
  Site site;
};

/// A tile copy to global memory in flight.
struct TileStore {
  const void* from;
  TensorMapData map;
  int x, y, z;
  Site site;
};

/// The contents of an mbarrier (8 bytes).
struct MbarrierState {
  static constexpr int kMost = 1024;  ///< most arrivals of a phase
  unsigned short arrivals, missing;   ///< expected in a phase; still missing in this one
  int bytes_and_parity;  ///< 2 x the pending bytes (below 0 before expect_tx) + the parity
  int bytes() const { return bytes_and_parity >> 1; }
  int parity() const { return bytes_and_parity & 1; }
  /// No bytes pending, arrivals missing: the state of an unused barrier. Other data written there
  /// hardly ever look like it.
  bool at_rest() const {
    return bytes() == 0 && arrivals >= 1 && arrivals <= kMost && missing >= 1 &&
           missing <= arrivals;
  }
};

/// A product of a warpgroup, as one thread issues it: adds the thread's share to its `count` sums.
struct AsyncProduct {
  void (*add)(const AsyncProduct& product, void* sums);
  void* sums;      ///< of 4 bytes: f32 or i32
  unsigned bytes;  ///< of all sums
  const char *left, *right;
  unsigned long long left_bits, right_bits;  ///< PTX's matrix descriptors, without addresses
  Site site;
};

/// The functions of kernels.
struct Runtime {
  const Thread* (*thread)();
  void (*barrier)(Site site);
  void (*yield)(Site site);
  void (*warp)(const WarpCall& call);
  /// Ends the block: the thread does at `site` what no GPU allows.
  void (*fault)(Site site, const char* what);
  /// Copies `bytes` to `to`: `valid` bytes of `from`, then zeros.
  void (*copy)(void* to, const void* from, unsigned bytes, unsigned valid);
  void (*copies_commit)();
  void (*copies_wait)(int pending);
  /// Registers 8 bytes of shared memory as an mbarrier until the block ends.
  void (*mbarrier_made)(const void* barrier, Site site);
  /// From here on copies may count at the mbarriers that the thread has made.
  void (*mbarriers_ready)();
  void (*load_start)(const TileLoad& load);
  /// Takes the next copy for a barrier off the list; false when there is none.
  bool (*load_next)(const void* barrier, TileLoad* load);
  /// An arrival at an mbarrier of any block of the cluster: in flight until a thread tests that
  /// mbarrier. A fault when the block ends before.
  void (*arrival_start)(const void* barrier, Site site);
  /// Takes the next arrival for a barrier off the list; false when there is none.
  bool (*arrival_next)(const void* barrier, Site* site);
  /// A happens-before edge for a thread sanitizer, from a release to a later acquire at `at`. The
  /// byte behind it is the async proxy's place of the same edge.
  void (*edge)(void* at, bool release);
  /// Waits for all threads of the cluster.
  void (*cluster_barrier)(Site site);
  /// The shared memory of a block of the cluster; a fault when there is none, when it has ended,
  /// and before the first cluster_barrier().
  char* (*shared_of)(unsigned block, Site site);
  /// Asynchronous products. From its start on the sums hold NaN; they are computed when the thread
  /// waits for the product's group.
  void (*product_fence)();
  void (*product_start)(const AsyncProduct& product);
  void (*products_commit)();
  void (*products_wait)(int pending);
  /// Raises or lowers the registers of each thread of a warp, by one of its lanes. `blocks`: of a
  /// multiprocessor, which have equal shares of registers. False where the block has too few left
  /// to raise now.
  bool (*set_registers)(int registers, bool raises, unsigned blocks, Site site);
  /// Within async_proxy(): accesses before it have ended when the thread has waited for the group.
  void (*store_start)(const TileStore& store);
  void (*stores_commit)();
  /// Takes the thread's oldest store off the list, except those of the last `pending` groups; false
  /// when there is none.
  bool (*store_next)(int pending, TileStore* store);
  /// Orders the thread's accesses before those of the async proxy, for a thread sanitizer.
  void (*fence_proxy_async)();
  /// Between these two calls the thread sanitizer sees accesses and releases as those of TMA or
  /// wgmma, which the thread issues here.
  void (*async_proxy)(bool begins);
};

/// An image's export, under the name tilewise_image.
struct Exports {
  unsigned revision;
  unsigned argument_bytes;
  const char* cpu;          ///< the processor it needs: "x86-64 avx2 fma"
  const Runtime** runtime;  ///< to be set before run()
  void (*run)(const void* arguments);
};

}  // namespace tilewise_host
