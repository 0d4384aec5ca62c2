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
#include "matmul/emulated_counts.hpp"
#include "matmul/packed_contents.hpp"
#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// The largest resources that a plan's launches of one kernel need.
struct KernelNeed {
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster_blocks = 1;
};
/// The needs of each distinct kernel of a plan.
std::map<KernelSpec, KernelNeed> kernel_needs(const Plan& plan);

/// The limit of a kernel's parameters in bytes, in every CUDA version.
inline constexpr std::size_t kMaxArgumentBytes = 4096;

/// One launch with all arguments.
struct BoundLaunch {
  const LoadedKernel* kernel = nullptr;
  LaunchShape shape;
  alignas(128) std::array<std::byte, kMaxArgumentBytes> arguments;
};

/// A plan whose images are loaded on a device; a call supplies the pointers. The tuner and the
/// library launch through this class. Immutable after construction; launch() is thread-safe.
class Executable {
 public:
  /// `images`: one per step, in order; steps with the same kernel may repeat one. `counts`: where
  /// the device counts the products of an emulated plan, or null. Throws Error(device) if the
  /// driver refuses an image.
  Executable(Device& device, const Problem& problem, Plan plan, std::span<const Image> images,
             EmulatedCounts* counts = nullptr);
  /// Takes loaded kernels: one for each of kernel_needs(plan), loaded for at least that need.
  Executable(Device& device, const Problem& problem, Plan plan,
             const std::map<KernelSpec, std::shared_ptr<LoadedKernel>>& kernels,
             EmulatedCounts* counts = nullptr);

  /// Enqueues the plan's steps on the call's stream. The call must have passed check_call(): its
  /// values are copied unchecked. If the host's alpha or k is 0, pack steps are skipped and k = 0
  /// is passed, so A and B are not read. An operand packed with this plan's Packing is read in
  /// place: its pack step is skipped, or its blocks are left out of a step that packs both. The
  /// workspace is the device's (Device::take_workspace()).
  void launch(const Call& call) const;
  /// The same with the caller's workspace of plan().workspace_bytes bytes.
  void launch(const Call& call, void* workspace) const;

  /// This plan's packing of A (StepRole::pack_a) or B (StepRole::pack_b); null if the plan has
  /// none.
  const Packing* packing(StepRole role) const;
  /// Enqueues the pack of that operand alone into `memory`, of packing(role)->bytes bytes. Checks
  /// nothing, like launch().
  void pack(StepRole role, const Call& call, void* memory) const;

  /// The launches with the arguments that launch() passes to Device::launch, to measure the
  /// launches alone. `workspace` has plan().workspace_bytes bytes. Valid as long as the executable
  /// and the call's pointers.
  std::vector<BoundLaunch> bind(const Call& call, void* workspace) const;

  const Plan& plan() const { return plan_; }
  const Problem& problem() const { return problem_; }
  /// Each step's resources, as reported by the driver.
  std::vector<ResourceUsage> usage() const;

 private:
  struct Patch {  // a field that the call fills in
    Argument::Kind kind;
    std::uint32_t offset;
    std::int64_t value;
  };
  struct Step {
    std::shared_ptr<LoadedKernel> kernel;
    LaunchShape shape;
    StepRole role;
    std::array<std::uint32_t, 2> pack_blocks = {};  // numbers of blocks that pack A and B
    std::vector<std::byte> arguments;               // argument struct with its constants
    std::vector<Patch> patches;
  };
  struct PackedPart {  // a part of the workspace
    Packing packing;
    std::int64_t offset = 0;
  };
  /// The addresses of one launch.
  struct Memory {
    bool zero = false;  ///< true: A and B are not read
    std::byte* workspace = nullptr;
    std::array<std::byte*, 2> packed = {};     ///< A and B if the caller has packed them
    std::array<bool, 2> packs = {true, true};  ///< whether this launch packs A and B
  };
  Step make_step(const LaunchStep& step, std::shared_ptr<LoadedKernel> kernel,
                 EmulatedCounts* counts) const;
  void find_packed_parts(const LaunchStep& step);
  const std::optional<PackedPart>& part(StepRole role) const;
  Memory memory_for(const Call& call) const;
  void launch_all(const Call& call, const Memory& memory) const;
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
  std::uint64_t map_owner_;  // of its tensor maps (map_cache.hpp)
  std::vector<Step> steps_;
  std::array<std::optional<PackedPart>, 2> parts_;  // of A and B
};

}  // namespace tilewise
