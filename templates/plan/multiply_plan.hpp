#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {

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

/// Tiles of a matrix that TMA copies: the kernel takes a tensor map of them as an argument.
struct TileMap {
  enum class Of : std::uint8_t { a, b, c };
  Of of = Of::a;
  /// Elements of a box, along contiguous memory first: k and m (n) where k is contiguous as the
  /// multiply kernel reads the operand, else m (n) and k; of C n and m.
  std::int32_t columns = 1, rows = 1;
  int swizzle_bytes = 0;  ///< 0, 32, 64, 128
  /// Over 1: rows are of any length, and so many maps take turns (TensorMapRecipe::row classes). A
  /// box is 16 bytes wider than the tile, and has one in so many of its rows.
  int row_classes = 1;
};

/// What the multiply step of a template looks like; the rest of the plan follows from it.
struct MultiplyShape {
  /// Without what follows from problem and packs: A_TRANSPOSED, B_TRANSPOSED, types, BATCHED.
  KernelSpec kernel;
  int tile_m = 1, tile_n = 1, tile_k = 1;
  int threads = 1;
  std::uint32_t shared_bytes = 0;
  Dim3 cluster;
  int splits = 1;   ///< parts of k; more than 1 adds a reduce step
  int group_m = 1;  ///< tile rows walked together
  Pack pack_a = Pack::none, pack_b = Pack::none;
  /// A packed operand's k is padded with zeros up to a multiple of this, so that a kernel may read
  /// whole vectors along it.
  std::int64_t k_multiple = 1;
  bool programmatic = false;  ///< steps wait for one another by themselves (dialect.cuh)
  std::vector<TileMap> maps;  ///< the kernel's last arguments, in this order
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

/// Makes the sizes constants of the kernel (SPECIALIZE_SIZE), so that its image serves them alone.
void specialize_size(KernelSpec& kernel, const Problem& problem, int parts, std::int64_t group_m);

/// Tile rows walked together: a GROUP_M beyond the rows there are would overflow the kernels'
/// 32-bit tile arithmetic for nothing.
std::int64_t group_m_of(const Problem& problem, std::int64_t tile_m, std::int64_t group_m);

/// Whether tiles x splits x batch fits the grid's x, and k the kernels' tile counter.
bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits);

/// Pack (one step for both operands: pack_plan.hpp), multiply and reduce, in order, of all products
/// of the batch at once. The multiply step's arguments are MultiplyArgs' (parts/arguments.cuh),
/// then what a family adds, then the maps. Nothing to do (no steps) when m or n is 0.
class MultiplyPlan {
 public:
  /// Throws Error(unsupported) for tensor maps of a batch.
  MultiplyPlan(const Problem& problem, MultiplyShape shape);

  /// Device memory of the family's own; returns its first byte's place in the workspace.
  std::int64_t add_workspace(std::int64_t bytes);
  /// An argument after MultiplyArgs'.
  void add_argument(Argument argument);
  /// Blocks of the multiply step, where they are not one for each tile, split and product.
  void set_blocks(std::int64_t blocks);
  /// A step after the multiply step.
  void add_step(LaunchStep step);
  Plan finish();

 private:
  const Problem problem_;
  const MultiplyShape shape_;
  Plan plan_;  // packs, then what follows the multiply step
  LaunchStep multiply_;
  std::int64_t blocks_ = 0;   // one for each tile, split and product
  std::int64_t partial_ = 0;  // where partial sums are in the workspace
  std::vector<LaunchStep> after_;
};
Plan multiply_plan(const Problem& problem, MultiplyShape shape);

/// ELEMENT, RESULT, SUM (DType's numbers) and BATCHED: what templates/words/types.cuh and
/// templates/parts/arguments.cuh take.
void add_types(KernelSpec& kernel, const Problem& problem);

/// States what a step does that adds up `parts` partial sums of each of `elements` elements of C,
/// `rows` threads for an element.
void state_reduce_work(LaunchStep& step, const Problem& problem, double elements, int parts,
                       int rows);

/// Blocks of a step that starts while a pack still runs go where there is room, several to the
/// first multiprocessors that are free while others stay idle. Where they are few, each asks for so
/// much shared memory that no multiprocessor takes more than its share. (Inferred from the times
/// of a search's records on an H200: docs/cost-model.md; not seen in a trace.)
void spread_blocks(Plan& plan, const DeviceInfo& device);

}  // namespace tilewise
