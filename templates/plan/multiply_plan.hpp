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

/// How a pack step copies an operand into the workspace: padded, or padded and transposed.
enum class Pack : int { none = 0, pad = 1, transpose = 2 };

/// Instructions of an access to global memory, its address and its test for the edge included.
inline constexpr double kPerGlobalAccess = 5.5;

/// The work of one thread of the multiply step, for the cost model: numbers of instructions, unless
/// stated. The defaults are those of a kernel without shared memory that waits for each load.
struct ThreadWork {
  double shared_loads = 0;   ///< from shared memory, a step of k
  double global_loads = 0;   ///< from global memory (or copies into shared memory), a tile of k
  double shared_stores = 0;  ///< into shared memory, a tile of k
  double result_stores = 1;  ///< of C
  double exchanged = 0;      ///< sums that it passes to other threads in the epilogue
  /// Passes of a warp through shared memory or L1: of a load from shared memory; of a load from
  /// global memory or a store into shared memory. A pass moves 128 bytes, or less.
  double load_passes = 1, copy_passes = 1;
  /// Bytes that L2 delivers for each byte loaded, of A and of B.
  double fetched_a = 1, fetched_b = 1;
  double steps = 1;                 ///< of k, a tile
  double unrolled = 1;              ///< steps of k between two branches: a pass
  double waits = 1;                 ///< for shared memory, a pass
  double pass_instructions = 10;    ///< issue slots of a pass beside loads and multiply-adds
  double ahead = 0;                 ///< tiles between the issue of loads and their use
  double multiply_add_rate = 0.72;  ///< Schedule's; the default is that of a serpentine order
  int registers = 32;               ///< estimated
  int resident_blocks = 1;          ///< Schedule's
  double working = 1;               ///< Schedule's
  double overlapped = 0;            ///< Schedule's
};

/// "4 warps share its k"; empty for one.
std::string shared_depth_note(int slice_k);

/// Tiles of k of all tiles of C, of a product.
double tile_steps(const Problem& problem, int tile_m, int tile_n, int tile_k);

/// The tiles of a matrix that TMA copies; the kernel's argument is a tensor map, of rank 3 where
/// there is a batch.
struct TileMap {
  enum class Of : std::uint8_t { a, b, c, operand };
  Of of = Of::a;
  /// Elements of a box, along contiguous memory first: k and m (n) where k is contiguous as the
  /// multiply kernel reads the operand, else m (n) and k; of C and of a matrix of the epilogue n
  /// and m.
  std::int32_t columns = 1, rows = 1;
  int swizzle_bytes = 0;  ///< 0, 32, 64, 128
  /// Over 1: rows have any alignment, and each row class has a map (TensorMapRecipe::row_classes).
  /// A box is 16 bytes wider than the tile, and has 1 / row_classes of its rows.
  int row_classes = 1;
  bool rounded = false;  ///< f32 is rounded to tf32 as it is copied
  std::size_t slot = 0;  ///< of an operand of the epilogue that has C's type
};

/// The multiply step of a template; the rest of the plan follows from it.
struct MultiplyShape {
  /// Without the constants that MultiplyPlan adds: A_TRANSPOSED, B_TRANSPOSED, types, BATCHED.
  KernelSpec kernel;
  int tile_m = 1, tile_n = 1, tile_k = 1;
  int clusters_m = 1, clusters_n = 1;  ///< blocks of a cluster, whose tiles the tile order numbers
  int threads = 1;
  std::uint32_t shared_bytes = 0;
  Dim3 cluster;
  int splits = 1;  ///< parts of k; more than 1 adds a reduce step
  std::int64_t part_tiles =
      0;            ///< tiles of k of a part that a block adds itself; 0: `splits` cut k
  int group_m = 1;  ///< GROUP_M of the tile order: tile rows a group
  Pack pack_a = Pack::none, pack_b = Pack::none;
  bool packs_split = false;   ///< packs split f32 into two tf32 (plan_packs())
  bool programmatic = false;  ///< programmatic dependent launch between the plan's steps
  std::vector<TileMap> maps;  ///< the kernel's last arguments, in this order
  ThreadWork thread;
};

/// Whether the operand that the multiply kernel reads, after its pack, is stored transposed.
bool reads_a_transposed(const Problem& problem, Pack pack);
bool reads_b_transposed(const Problem& problem, Pack pack);

/// Alignment in bytes of the operand that the multiply kernel reads, at most 16. A packed operand's
/// rows are aligned to 128 bytes, and count as 16.
int reads_a_alignment(const Problem& problem, Pack pack);
int reads_b_alignment(const Problem& problem, Pack pack);
/// That of the rows that the step writes: of C, or where k is split of partial sums.
int stored_alignment(const Problem& problem, int splits);

/// A kernel whose constants are a configuration's parameters, without those that only the plan
/// reads.
KernelSpec kernel_of(std::string source, std::string entry, const Configuration& configuration,
                     std::initializer_list<std::string_view> only_the_plans = {});

/// Makes the sizes constants of the kernel (SPECIALIZE_SIZE): its image then serves only these.
void specialize_size(KernelSpec& kernel, const Problem& problem, int parts, std::int64_t group_m);

/// Of tiles of `m` rows, those of a group: GROUP_M, or up to twice as many where the last group
/// would have half of it or less, since blocks of a group share what they read of B. At most the
/// number of tile rows: a larger one could overflow the kernels' 32-bit tile arithmetic.
std::int64_t group_m_of(std::int64_t m, std::int64_t tile_m, std::int64_t group_m);

/// Whether tiles x splits x batch fits the grid's x, and k the kernels' tile counter.
bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits);

/// Builds a plan: pack (one step for both operands: pack_plan.hpp), multiply and reduce. Each step
/// serves all products of the batch. The multiply step's arguments are MultiplyArgs
/// (parts/arguments.cuh), then those that a family adds, then the tensor maps. The plan has no
/// steps when m or n is 0.
class MultiplyPlan {
 public:
  /// Throws Error(unsupported) for tensor maps of the row classes of a batch.
  MultiplyPlan(const Problem& problem, MultiplyShape shape);

  /// Adds memory for the family to the workspace. Returns the offset of its first byte, which is a
  /// multiple of 256.
  std::int64_t add_workspace(std::int64_t bytes);
  /// Adds an argument after MultiplyArgs.
  void add_argument(Argument argument);
  /// Sets the blocks of the multiply step; the default is one for each tile, split and product.
  /// `tiles`: of C, that the busiest block stores.
  void set_blocks(std::int64_t blocks, std::int64_t tiles = 1);
  /// Persistent blocks, which take `items` work items in turn.
  void set_persistent(std::int64_t blocks, std::int64_t items);
  /// Makes a step that writes C compute the problem's epilogue, if it has one: the kernel's
  /// epilogue and POINTWISE, and the fields of PointwiseArgs (parts/pointwise.cuh) after the step's
  /// arguments.
  void add_epilogue(LaunchStep& step) const;
  /// Adds a step after the multiply step.
  void add_step(LaunchStep step);
  Plan finish();

 private:
  void add_tile_order();
  LaunchStep reduce_step() const;
  void add_column_sums();

  const Problem problem_;
  MultiplyShape shape_;  // whose kernel is moved into multiply_
  Plan plan_;            // the pack step; finish() adds the others
  LaunchStep multiply_;
  std::int64_t blocks_ = 0;  // one for each tile, split and product
  double imbalance_ = 1;
  std::int64_t tiles_ = 1;
  std::int64_t partial_ = 0;          // offset of the partial sums in the workspace
  std::vector<std::int64_t> summed_;  // offsets of matrices that the epilogue sums, by slot
  std::vector<LaunchStep> after_;
};
Plan multiply_plan(const Problem& problem, MultiplyShape shape);

/// Adds the constants ELEMENT, RESULT, SUM (DType's numbers) and BATCHED of
/// templates/words/types.cuh and templates/parts/arguments.cuh.
void add_types(KernelSpec& kernel, const Problem& problem);

/// Sets the work of a step that adds `parts` partial sums of each of `elements` elements of C, with
/// `rows` threads an element.
void state_reduce_work(LaunchStep& step, const Problem& problem, double elements, int parts,
                       int rows);

/// Raises the multiply step's shared memory so that no multiprocessor holds more than its share of
/// the blocks. Without it, the blocks of a step that starts while a pack runs crowd on the first
/// multiprocessors that are free, and others stay idle. (Inferred from the times of a search's
/// records on an H200: docs/cost-model.md; not seen in a trace.)
void spread_blocks(Plan& plan, const DeviceInfo& device);

}  // namespace tilewise
