#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "matmul/packed_contents.hpp"
#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// What a kernel must be loaded for: the most that any step of a plan launches it with.
struct KernelNeed {
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster_blocks = 1;
};
/// Each distinct kernel of a plan.
std::map<KernelSpec, KernelNeed> kernel_needs(const Plan& plan);

/// What every CUDA version accepts for a kernel's parameters together.
inline constexpr std::size_t kMaxArgumentBytes = 4096;

/// One launch with everything filled in.
struct BoundLaunch {
  const LoadedKernel* kernel = nullptr;
  LaunchShape shape;
  alignas(128) std::array<std::byte, kMaxArgumentBytes> arguments;
};

/// A plan whose images are loaded on a device; bound to a call it can be launched. The tuner and
/// the entry point launch through this same class, so what is tuned is what is served. Immutable
/// after construction; launch() is thread-safe.
class Executable {
 public:
  /// `images` holds one image per step, in order (steps with the same kernel may repeat one).
  /// Throws Error(device) when the driver refuses an image.
  Executable(Device& device, const Problem& problem, Plan plan, std::span<const Image> images);
  /// With kernels loaded before: one for each of kernel_needs(plan), for at least what it needs.
  Executable(Device& device, const Problem& problem, Plan plan,
             const std::map<KernelSpec, std::shared_ptr<LoadedKernel>>& kernels);

  /// Enqueues the plan's steps on the call's stream. The call must already be checked (see
  /// check_call): no argument is looked at here but copied. Host alpha = 0 or k = 0 skips packs and
  /// tells the kernels k = 0, so A and B are not touched. An operand that the call has packed the
  /// way this plan does is read where it is, and its pack skipped, or left out of a step that packs
  /// both. Workspace is taken stream-ordered.
  void launch(const Call& call) const;

  /// How this plan packs A (StepRole::pack_a) or B; null when it does not.
  const Packing* packing(StepRole role) const;
  /// Enqueues the pack of that operand alone, into `memory` of packing(role)->bytes. Like launch(),
  /// looks at no argument.
  void pack(StepRole role, const Call& call, void* memory) const;

  /// What launch() would give to Device::launch, with `workspace` for its workspace (of
  /// plan().workspace_bytes): to measure what the launches cost by themselves. Valid as long as the
  /// executable and the call's pointers.
  std::vector<BoundLaunch> bind(const Call& call, void* workspace) const;

  const Plan& plan() const { return plan_; }
  const Problem& problem() const { return problem_; }
  /// What the driver says each step uses.
  std::vector<ResourceUsage> usage() const;

 private:
  struct Patch {  // a field that a call fills in
    Argument::Kind kind;
    std::uint32_t offset;
    std::int64_t value;
  };
  struct Step {
    std::shared_ptr<LoadedKernel> kernel;
    LaunchShape shape;
    StepRole role;
    std::array<std::uint32_t, 2> pack_blocks = {};  // that pack A, and B
    std::vector<std::byte> arguments;               // constants filled in
    std::vector<Patch> patches;
  };
  struct PackedPart {  // of the workspace
    Packing packing;
    std::int64_t offset = 0;
  };
  /// Where one launch finds what plans only give offsets of.
  struct Memory {
    bool zero = false;  ///< A and B are not to be touched
    std::byte* workspace = nullptr;
    std::array<std::byte*, 2> packed = {};     ///< A and B where they are not in the workspace
    std::array<bool, 2> packs = {true, true};  ///< whether this launch packs A, and B
  };
  Step make_step(const LaunchStep& step, std::shared_ptr<LoadedKernel> kernel) const;
  void find_packed_parts(const LaunchStep& step);
  const std::optional<PackedPart>& part(StepRole role) const;
  Memory memory_for(const Call& call) const;
  std::int64_t workspace_bytes(const Memory& memory) const;
  void* address(std::int64_t offset, const Memory& memory) const;
  std::optional<LaunchShape> shape_of(const Step& step, const Memory& memory) const;
  template <class Launch>
  void for_each_launch(const Memory& memory, Launch launch) const;
  void fill(const Step& step, const Call& call, const Memory& memory, std::byte* arguments) const;
  void fill_field(const Patch& patch, const Call& call, const Memory& memory,
                  std::byte* field) const;
  const void* base_address(const Argument& base, const Call& call, const Memory& memory) const;

  Device* device_;
  Problem problem_;
  Plan plan_;
  std::vector<Step> steps_;
  std::array<std::optional<PackedPart>, 2> parts_;  // of A and B
};

/// Whether C has no elements, so that nothing is done.
bool is_empty(const Problem& problem);

/// Whether A and B are read at all: not when a size or the host's alpha is 0. alpha counts as the
/// accumulator's type holds it.
bool reads_operands(const Problem& problem, const Call& call);

/// Throws Error(invalid_argument) for types that do not go together, listing those that do, and for
/// a negative size.
void check_problem(const Problem& problem);

/// Of a problem without a call. Throws Error(invalid_argument) for an alignment that is no power of
/// two from one element to 16 bytes.
void check_alignment(const Problem& problem);

/// Refuses what cannot be right: null pointers that would be touched, negative sizes or strides,
/// leading dimensions shorter than a row, pointers not aligned to their element, extents past the
/// address space, matrices of C that overlap one another, and C overlapping A or B. Overlap is
/// judged by address ranges from first to last element, so a C that lies between the rows of A is
/// refused too. A packed operand must be of the call's own A or B. Throws Error(invalid_argument)
/// with the value seen and what is allowed. Cheap enough for every call.
void check_call(const Problem& problem, const Call& call);

/// The same for one operand alone, to be packed.
void check_operand(const Problem& problem, const Call& call, StepRole role);

/// The alignment a call's pointers, leading dimensions and strides have.
Alignment alignment_of(const Problem& problem, const Call& call);

}  // namespace tilewise
