#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// How a pack step changes an operand on its way into the workspace.
enum class Pack : int { none = 0, pad = 1, transpose = 2 };

/// Instructions that come with an access to global memory: its address, its test for the edge.
inline constexpr double kPerGlobalAccess = 5.5;

/// What one thread of the multiply step does, for the cost model: numbers of instructions. The
/// defaults are those of a kernel that keeps nothing in shared memory and waits for each load.
struct ThreadWork {
  double shared_loads = 0;   ///< from shared memory, a step of k
  double global_loads = 0;   ///< from global memory (or copies into shared memory), a tile of k
  double shared_stores = 0;  ///< into shared memory, a tile of k
  double result_stores = 1;  ///< of C
  double exchanged = 0;      ///< sums that it gives to other threads at the end
  /// Passes of a warp through shared memory or L1: of a load from shared memory; of a load from
  /// global memory or a store into shared memory. A pass moves 128 bytes, or less.
  double load_passes = 1, copy_passes = 1;
  /// Bytes that L2 hands out for one that is asked for, of A and of B.
  double fetched_a = 1, fetched_b = 1;
  double steps = 1;                 ///< of k that it does for a tile
  double unrolled = 1;              ///< steps of k between two branches: a pass
  double waits = 1;                 ///< for shared memory, a pass
  double pass_instructions = 10;    ///< slots that a pass costs beside what it loads and multiplies
  double ahead = 0;                 ///< tiles that loads are begun before they are used
  double multiply_add_rate = 0.72;  ///< Schedule's; this is what a serpentine order reaches
  int registers = 32;               ///< estimated
  int resident_blocks = 1;          ///< Schedule's
};

/// What the multiply step of a template looks like; the rest of the plan follows from it.
struct MultiplyShape {
  /// Without what follows from problem and packs: A_TRANSPOSED, B_TRANSPOSED, types, BATCHED.
  KernelSpec kernel;
  int tile_m = 1, tile_n = 1, tile_k = 1;
  int threads = 1;
  std::uint32_t shared_bytes = 0;
  int splits = 1;  ///< parts of k; more than 1 adds a reduce step
  int raster = 1;  ///< tile rows walked together
  /// Blocks that run at a time, when the tiles of the last, incomplete wave of them are to be
  /// shared out evenly (simt.cu, TAIL); 0: every tile is one block's.
  int tail_slots = 0;
  Pack pack_a = Pack::none, pack_b = Pack::none;
  /// A packed operand's k is padded with zeros up to a multiple of this, so that a kernel may read
  /// whole vectors along it.
  std::int64_t k_multiple = 1;
  bool programmatic = false;  ///< steps wait for one another by themselves (dialect.cuh)
  /// The kernel takes a map of A's (B's) tiles as its last argument or two. Where k is contiguous
  /// as the kernel reads the operand, a box is a panel of the tile, 128 bytes of k at most,
  /// swizzled as wide as it is.
  bool map_a = false, map_b = false;
  bool map_panels = false;  ///< boxes are such panels also where m or n is contiguous
  /// Over 1: rows of the operand are of any length, and so many maps take turns. A box is as wide
  /// as the tile and 16 bytes more, not swizzled.
  int strands_a = 1, strands_b = 1;
  ThreadWork thread;
};

/// Whether the operand as the multiply kernel reads it is stored transposed (after its pack).
bool reads_a_transposed(const Problem& problem, Pack pack);
bool reads_b_transposed(const Problem& problem, Pack pack);

/// Alignment in bytes of the operand as the multiply kernel reads it: a packed one is on 128 bytes.
int reads_a_alignment(const Problem& problem, Pack pack);
int reads_b_alignment(const Problem& problem, Pack pack);

/// A kernel whose constants are all of a configuration's parameters but those that only the plan
/// reads.
KernelSpec kernel_of(std::string source, std::string entry, const Configuration& configuration,
                     std::initializer_list<std::string_view> only_the_plans = {});

/// Makes the sizes constants of the kernel (BAKE), so that its image serves them alone.
void bake_sizes(KernelSpec& kernel, const Problem& problem, int parts, std::int64_t raster);

/// Tile rows walked together: a raster beyond the rows there are would overflow the kernels' 32-bit
/// tile arithmetic for nothing.
std::int64_t raster_of(const Problem& problem, std::int64_t tile_m, std::int64_t raster);

/// Whether tiles x splits x batch fits the grid's x, and k the kernels' tile counter.
bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits);

/// How the tiles of C are shared out when a wave has `slots` blocks: tiles of full waves are one
/// block's each, those that are left over are cut into equal shares of tiles of k.
struct Tail {
  std::int64_t whole_tiles = 0, rest_tiles = 0;
  std::int64_t depth = 1;  ///< tiles of k
  std::int64_t share = 1;  ///< tiles of k for a block of the tail
  std::int64_t blocks() const { return (rest_tiles * depth + share - 1) / share; }
};
Tail tail_of(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n, std::int64_t tile_k,
             std::int64_t slots);

/// Pack (one step for both operands: pack_plan.hpp), multiply and reduce, in order, of all products
/// of the batch at once. No steps when m or n is 0. The multiply step's arguments are MultiplyArgs'
/// (multiply_args.cuh). Tails and tensor maps are for a batch of 1: Error(unsupported).
Plan multiply_plan(const Problem& problem, MultiplyShape shape);

/// Blocks of a step that starts while a pack still runs go where there is room, several to the
/// first multiprocessors that are free while others stay idle. Where they are few, each asks for so
/// much shared memory that no multiprocessor takes more than its share. (Inferred from the times
/// of a search's records on an H200: docs/cost-model.md; not seen in a trace.)
void spread_blocks(Plan& plan, const DeviceInfo& device);

}  // namespace tilewise
