#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/dtype.hpp"

namespace tilewise {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  auto operator<=>(const Dim3&) const = default;
};
inline std::uint64_t volume(const Dim3& d) { return std::uint64_t{d.x} * d.y * d.z; }

/// Identifies one compiled kernel: a source of templates/, its entry, its constants, and the
/// epilogue that it computes.
/// Independent of sizes unless the template is size-specialised, so one image serves every size.
struct KernelSpec {
  std::string source;  ///< "simt.cu"
  std::string entry;   ///< "simt"
  std::map<std::string, std::int64_t> defines;
  std::string epilogue = {};  ///< its normal form; empty: none
  auto operator<=>(const KernelSpec&) const = default;
};
/// The constant that is also a compiler option: the most registers per thread (0: no limit).
inline constexpr std::string_view kMaxRegisters = "MAX_REGISTERS";
/// The constant that, if 1, makes the compiler refuse a kernel that spills registers.
inline constexpr std::string_view kNoSpills = "NO_SPILLS";
/// Canonical text "simt.cu:simt A_TRANSPOSED=0 TILE_K=8 ...", after which an epilogue is added:
/// " | (acc+p0[j])". With the target, the key of an image.
std::string to_string(const KernelSpec& kernel);

/// A step's purpose, with its operand. A packed operand can be kept between calls, and pack steps
/// are skipped when alpha or k is 0.
///
/// Of an emulated product: `scale` finds the units of rows and columns, `split` makes integers of
/// their elements, `certify` bounds the error, and `native` is the product that runs where the
/// bound is not met.
enum class StepRole : std::uint8_t {
  pack_a,
  pack_b,
  pack_both,
  multiply,
  reduce,
  scale,
  split,
  certify,
  native
};
std::string_view to_string(StepRole role);

/// One field of the argument struct that a kernel takes by value. Fields are in order with natural
/// alignment, as in C: pointers and integer64 8 bytes, integer32 and blocks_a 4, alpha and beta the
/// size of the accumulator type, tensor_map 128 bytes aligned to 64.
struct Argument {
  enum class Kind : std::uint8_t {
    a,
    b,
    c,          ///< the call's pointers
    workspace,  ///< workspace + value (bytes)
    lda,
    ldb,
    ldc,  ///< the call's leading dimensions (elements, 8 bytes)
    stride_a,
    stride_b,
    stride_c,
    k,         ///< the problem's k, or 0 when alpha is 0 (8 bytes)
    blocks_a,  ///< blocks of a pack_both step that pack A: value, or 0 when A is not packed (4
               ///< bytes)
    integer64,
    integer32,  ///< value
    alpha,
    beta,  ///< host values in the accumulator's type
    alpha_device,
    beta_device,  ///< pointer, or null when the host value applies
    tensor_map,   ///< value = index into Plan::tensor_maps
    group_rows,   ///< the call's pointer
    operand,
    operand_ld,
    operand_stride,
    operand_value,  ///< of the epilogue's operand of slot `value`; operand_value is an f64
    counts,         ///< pointer to the EmulatedCounts of the problem, or null
    tolerance,  ///< the larger of the f64 whose bits `value` has and the call's accuracy less 2^-52
  };
  Kind kind;
  std::int64_t value = 0;
  auto operator<=>(const Argument&) const = default;
};
std::string_view to_string(Argument::Kind kind);

/// Work counts of a step or a plan, for the cost model, `explain` and the ladder. They are summed
/// over steps.
struct Work {
  double flops = 0;             ///< useful 2mnk
  double issued_flops = 0;      ///< with the padding of edge tiles
  double global_bytes = 0;      ///< requested from global memory by all blocks (L2 may serve some)
  double compulsory_bytes = 0;  ///< distinct bytes that a step reads and writes
  double shared_bytes = 0;      ///< through shared memory and L1, both directions
  double instructions = 0;      ///< of all threads, without multiply-adds, estimated
  auto operator<=>(const Work&) const = default;
  Work& operator+=(const Work& other);
};

/// A block's main loop, for the cost model. The defaults describe a kernel that loads, computes and
/// stores once.
struct Schedule {
  double rounds = 1;  ///< iterations of the main loop, each with loads from global memory
  double passes = 1;  ///< waits for shared memory loads per round
  double ahead = 0;   ///< prefetch distance in rounds; 0: waits for loads at once
  /// Share of the multiply-add rate that the instruction order allows (register bank conflicts).
  double multiply_add_rate = 1;
  int registers = 32;       ///< per thread, estimated
  int resident_blocks = 1;  ///< blocks per multiprocessor that the kernel is compiled for
  double imbalance = 1;     ///< rounds of the busiest block over the average
  double working = 1;       ///< share of a block's warps that multiply
  double tiles = 1;         ///< of C, of the busiest block, which stores each before the next one
  double tile_bytes = 0;    ///< of C or of partial sums, that a block stores of a tile
  double tile_slots = 0;    ///< instructions of the caller's epilogue for a tile, of all threads
  double overlapped = 0;    ///< tiles that other warps multiply while one is stored
  auto operator<=>(const Schedule&) const = default;
};

/// The result of a pack step for one operand. Equal Packings of one operand give equal bytes, even
/// in different plans. A caller may keep the bytes (PackedOperand).
struct Packing {
  StepRole role = StepRole::pack_b;  ///< the operand: pack_a or pack_b
  bool transposed = false;           ///< packed rows are the operand's columns
  bool rounded = false;              ///< f32 is rounded to tf32
  /// An f32 value x becomes two matrices, one after the other, each with `packed_rows` rows: large
  /// parts (x rounded to tf32), and small parts (the rest, rounded to tf32).
  bool split = false;
  std::int64_t rows = 0, columns = 0;    ///< of the operand as stored
  std::int64_t packed_rows = 0, ld = 0;  ///< in packed form, with the zero padding
  std::int64_t bytes = 0;                ///< of all batches
  auto operator<=>(const Packing&) const = default;
};

/// One launch. `cluster` volume 1 means no cluster. `programmatic`: the step may start before the
/// previous step has finished (programmatic dependent launch); the kernel itself waits.
struct LaunchStep {
  StepRole role = StepRole::multiply;
  KernelSpec kernel;
  Dim3 grid, block, cluster;
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory; above 48 KB the loader opts in
  bool programmatic = false;
  /// Results of a pack step, A's first. Result i goes to the offset of the step's i-th workspace
  /// argument. Other steps refer to a result by its first byte.
  std::vector<Packing> packs;
  std::vector<Argument> arguments;
  Work work;
  Schedule schedule;
  auto operator<=>(const LaunchStep&) const = default;
};

/// How to encode a tensor map (TMA descriptor) for given pointers and leading dimensions. dims and
/// box are in elements, innermost first; rank 2 or 3. The stride of dim 1 is the leading dimension
/// `stride` times the element size. Elements of less than a byte are copied as bytes, which the
/// kernel counts.
///
/// A row stride that is not a multiple of 16 bytes needs `row_classes` maps (rank 2). This map has
/// the rows row_class, row_class + row_classes, ... of the matrix; its columns start at the 16-byte
/// boundary at or before the first element of row `row_class`. dims are those of the whole matrix.
struct TensorMapRecipe {
  /// Kind a, b, c, workspace (value = byte offset), or operand, whose map stays zero where TMA
  /// cannot read the matrix (layout::is_for_tma()).
  Argument base;
  Argument stride;  ///< kind lda, ldb, ldc, operand_ld or integer64 (elements)
  DType type = DType::f32;
  std::vector<std::int64_t> dims;
  std::vector<std::int32_t> box;
  /// The stride of dim 2, kind stride_a, stride_b, stride_c, operand_stride or integer64
  /// (elements). If it is 0, dim 2 is 1.
  Argument batch_stride{Argument::Kind::integer64, 0};
  int swizzle_bytes = 0;       ///< 0, 32, 64, 128
  int l2_promotion_bytes = 0;  ///< 0, 64, 128, 256
  int row_classes = 1, row_class = 0;
  /// TMA rounds f32 to tf32 as it copies: to nearest, ties to even; NaN becomes 0x7fffe000.
  bool rounded = false;
  auto operator<=>(const TensorMapRecipe&) const = default;
};

/// The launches of a candidate. A pure function of problem, configuration and device.
struct Plan {
  std::vector<LaunchStep> steps;
  std::int64_t workspace_bytes = 0;
  std::vector<TensorMapRecipe> tensor_maps;
  Work work;  ///< of all steps
  auto operator<=>(const Plan&) const = default;
};

/// Size and field offsets of a step's argument struct. `accumulator` determines the size of alpha.
struct ArgumentLayout {
  std::vector<std::uint32_t> offsets;
  std::uint32_t bytes = 0;
};
ArgumentLayout layout_of(const std::vector<Argument>& arguments, DType accumulator);

/// The plan's multiply step; null without one.
const LaunchStep* multiply_step(const Plan& plan);

}  // namespace tilewise
