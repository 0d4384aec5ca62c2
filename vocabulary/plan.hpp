#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilewise/dtype.hpp"

namespace tilewise {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  auto operator<=>(const Dim3&) const = default;
};
inline std::uint64_t volume(const Dim3& d) { return std::uint64_t{d.x} * d.y * d.z; }

/// Names one compiled kernel: a source of templates/, its entry, and the constants it is built
/// with. Independent of sizes, so one image serves every size of a configuration.
struct KernelSpec {
  std::string source;  ///< "simt.cu"
  std::string entry;   ///< "simt"
  std::map<std::string, std::int64_t> defines;
  auto operator<=>(const KernelSpec&) const = default;
};
/// The constant that the compiler is told too: the most registers a thread may have (0: not told).
inline constexpr std::string_view kMaxRegisters = "MAX_REGISTERS";
/// Canonical text "simt.cu:simt A_TRANSPOSED=0 TILE_K=8 ...": the image's key, with the target.
std::string to_string(const KernelSpec& kernel);

/// Steps are marked by operand, so that packed weights can be kept between calls and a pack can be
/// skipped when alpha or k is 0.
enum class StepRole : std::uint8_t { pack_a, pack_b, pack_both, multiply, reduce };
std::string_view to_string(StepRole role);

/// One field of the single struct a kernel takes by value. Fields are laid out in order with their
/// natural alignment, as a C compiler would: pointers and integer64 8 bytes, integer32 and blocks_a
/// 4, alpha and beta the size of the accumulator type, tensor_map 128 bytes aligned to 64.
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
    blocks_a,  ///< blocks of a pack_both step that pack A: value, or 0 when A is left out (4 bytes)
    integer64,
    integer32,  ///< value
    alpha,
    beta,  ///< host values in the accumulator's type
    alpha_device,
    beta_device,  ///< pointer, or null when the host value counts
    tensor_map,   ///< value = index into Plan::tensor_maps
  };
  Kind kind;
  std::int64_t value = 0;
  auto operator<=>(const Argument&) const = default;
};
std::string_view to_string(Argument::Kind kind);

/// The work a step or a whole plan does, by count: what the cost model, `explain` and the ladder
/// speak of. Counts add up over steps.
struct Work {
  double flops = 0;             ///< useful 2mnk
  double issued_flops = 0;      ///< with the padding of edge tiles
  double global_bytes = 0;      ///< requested from global memory by all blocks (L2 may serve some)
  double compulsory_bytes = 0;  ///< what a step reads and writes, each byte once
  double shared_bytes = 0;      ///< through shared memory and L1, in both directions
  double instructions = 0;      ///< issued by all threads beside the multiply-adds, estimated
  auto operator<=>(const Work&) const = default;
  Work& operator+=(const Work& other);
};

/// How a block goes about its part of a step's work, for the cost model. The defaults are those of
/// a kernel that loads, computes and stores once.
struct Schedule {
  double rounds = 1;  ///< times round the main loop, each with loads from global memory
  double passes = 1;  ///< times a round that threads wait for what they read of shared memory
  double ahead = 0;   ///< rounds that loads are begun before they are used; 0: waited for at once
  /// Share of the multiply-add rate that their order allows: banks of registers are read in turn.
  double multiply_add_rate = 1;
  int registers = 32;       ///< a thread's, estimated
  int resident_blocks = 1;  ///< that the kernel is compiled to fit on a multiprocessor
  auto operator<=>(const Schedule&) const = default;
};

/// What a pack step makes of an operand. Equal ones make the same bytes of the same operand,
/// whatever plans they are of. A caller may keep them (PackedOperand).
struct Packing {
  StepRole role = StepRole::pack_b;      ///< whose: pack_a or pack_b
  bool transposed = false;               ///< rows are the operand's columns
  bool rounded = false;                  ///< f32 is rounded to tf32
  std::int64_t rows = 0, columns = 0;    ///< of the operand as stored
  std::int64_t packed_rows = 0, ld = 0;  ///< as packed; padding, which is zeros, counts
  std::int64_t bytes = 0;                ///< of all products together
  auto operator<=>(const Packing&) const = default;
};

/// One launch. `cluster` volume 1 means no cluster. `programmatic`: may start before the step
/// before it has finished (programmatic dependent launch); the kernel waits by itself.
struct LaunchStep {
  StepRole role = StepRole::multiply;
  KernelSpec kernel;
  Dim3 grid, block, cluster;
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory; above 48 KB the loader opts in
  bool programmatic = false;
  /// Of a pack step, A's first: each fills the workspace from where the step's workspace argument
  /// of the same number says. Other steps name such a part by its beginning.
  std::vector<Packing> packs;
  std::vector<Argument> arguments;
  Work work;
  Schedule schedule;
  auto operator<=>(const LaunchStep&) const = default;
};

/// How to encode a tensor map (TMA descriptor) when pointers and leading dimensions are known.
/// dims and box in elements, innermost first; rank 2 or 3. The stride of dim 1 is the leading
/// dimension that `stride` names, times the element size.
///
/// Where rows need not be multiples of 16 bytes apart, `row classes` maps (rank 2) take turns: this
/// one has row `row class` of the matrix and every row classes-th from there on, and columns begin
/// with the aligned 16 bytes that hold the first element of row `row class`. dims are the whole
/// matrix'.
struct TensorMapRecipe {
  Argument base;    ///< kind a, b, c or workspace (value = byte offset)
  Argument stride;  ///< kind lda, ldb, ldc or integer64 (elements)
  DType type = DType::f32;
  std::vector<std::int64_t> dims;
  std::vector<std::int32_t> box;
  std::int64_t batch_stride = 0;  ///< elements; stride of dim 2 when rank is 3
  int swizzle_bytes = 0;          ///< 0, 32, 64, 128
  int l2_promotion_bytes = 0;     ///< 0, 64, 128, 256
  int row_classes = 1, row_class = 0;
  auto operator<=>(const TensorMapRecipe&) const = default;
};

/// What is launched for a candidate. A pure function of problem, configuration and device facts.
struct Plan {
  std::vector<LaunchStep> steps;
  std::int64_t workspace_bytes = 0;
  std::vector<TensorMapRecipe> tensor_maps;
  Work work;  ///< of all steps
  auto operator<=>(const Plan&) const = default;
};

/// Size and field offsets of a step's argument struct. `accumulator` decides alpha's size.
struct ArgumentLayout {
  std::vector<std::uint32_t> offsets;
  std::uint32_t bytes = 0;
};
ArgumentLayout layout_of(const std::vector<Argument>& arguments, DType accumulator);

}  // namespace tilewise
