// What a kernel compiled for the CPU and the program that runs it say to one another. Compiled into
// both, so it stands on nothing: no include, C++17.
#pragma once

namespace tilewise_host {

/// Raised when anything here changes: images of another revision are not loaded.
constexpr unsigned kImageRevision = 4;

/// The section of an image's file that says, before anything of the file runs, whether it may.
#define TILEWISE_MARK_SECTION ".tilewise"
#define TILEWISE_MARK "tw-mark"
struct ImageMark {
  char mark[8];       ///< TILEWISE_MARK
  unsigned revision;  ///< kImageRevision of the program that compiled it
  char cpu[52];       ///< what it was compiled for: "x86-64 avx2 fma"; zeros after it
};

struct Index {
  unsigned x, y, z;
};

/// What the threads of a block have in common.
struct Block {
  Index index, threads, grid;
  void* shared;
  unsigned shared_bytes;
};

/// One thread as its kernel sees it.
struct Thread {
  Index index;
  unsigned lane;  ///< within its warp
  const Block* block;
};

/// Where in a kernel something was asked for.
struct Site {
  const char* file;
  int line;
};

/// An operation that the lanes of a warp do together. When all of `lanes` have come, the last does
/// apply(all): all[i] is what lane i brought as `mine`, and where it finds what it gets.
struct WarpCall {
  Site site;
  const char* name;    ///< "shuffle": lanes that meet must do the same at the same place
  unsigned lanes;      ///< a bit for each
  bool orders_memory;  ///< what was written before is seen after
  void* mine;
  void (*apply)(void* const* all, const WarpCall& call);
};

/// What the 128 bytes of an encoded tensor map hold on the CPU.
constexpr unsigned kTensorMapMark = 0x7457a901;
struct TensorMapData {
  unsigned mark;
  int rank, element_bytes, swizzle_bytes;
  const void* base;
  long long dims[3];        ///< elements, innermost first
  long long stride, batch;  ///< bytes between rows, between matrices
  long long unread;         ///< of a row's first elements, which are before the operand's row
  int box[3];
};
static_assert(sizeof(TensorMapData) <= 128, "a tensor map has 128 bytes");

/// A tile on its way: it counts for `barrier` when it has landed.
struct TileLoad {
  void* to;
  TensorMapData map;
  int x, y;
  void* barrier;
  Site site;
};

/// What the 8 bytes of an mbarrier hold.
struct MbarrierState {
  static constexpr int kMost = 1024;  ///< arrivals
  unsigned short arrivals, missing;   ///< that a phase wants, and that have not come
  int bytes_and_parity;  ///< 2 x the bytes that are still to come (may be below 0 for a while)
  int bytes() const { return bytes_and_parity >> 1; }
  int parity() const { return bytes_and_parity & 1; }
  /// No bytes are to come, and arrivals are: a barrier that nobody waits at any more. Hardly
  /// anything else that may be written there looks like this.
  bool at_rest() const {
    return bytes() == 0 && arrivals >= 1 && arrivals <= kMost && missing >= 1 &&
           missing <= arrivals;
  }
};

/// What a kernel calls.
struct Runtime {
  const Thread* (*thread)();
  void (*barrier)(Site site);
  void (*yield)(Site site);
  void (*warp)(const WarpCall& call);
  /// Ends the block: the calling thread does at `site` what no GPU allows.
  void (*fault)(Site site, const char* what);
  /// `bytes` are to be copied to `to`, of which `valid` come from `from` and the rest are zeros.
  void (*copy)(void* to, const void* from, unsigned bytes, unsigned valid);
  void (*copies_commit)();
  void (*copies_wait)(int pending);
  /// 8 bytes of shared memory are an mbarrier until the block ends.
  void (*mbarrier_made)(const void* barrier, Site site);
  void (*load_start)(const TileLoad& load);
  /// The next tile that counts for a barrier is taken off the list; false when there is none.
  bool (*load_next)(const void* barrier, TileLoad* load);
  /// For a thread sanitizer: what was done before the release has happened for who acquires later.
  void (*edge)(void* at, bool release);
};

/// What an image exports under the name tilewise_image.
struct Exports {
  unsigned revision;
  unsigned argument_bytes;
  const char* cpu;          ///< what it was compiled for: "x86-64 avx2 fma"
  const Runtime** runtime;  ///< to be filled in before run()
  void (*run)(const void* arguments);
};

}  // namespace tilewise_host
