#include "matmul/executable.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "matmul/check_call.hpp"
#include "matmul/map_cache.hpp"
#include "templates/parts/layout.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

bool is_pack(StepRole role) {
  return role == StepRole::pack_a || role == StepRole::pack_b || role == StepRole::pack_both;
}

/// Writes a host scalar in the accumulator's type.
void store_scalar(std::byte* to, double value, DType accumulator) {
  switch (accumulator) {
    case DType::f64:
      return store(to, value);
    case DType::i32:
      return store(to, static_cast<std::int32_t>(value));
    default:
      return store(to, static_cast<float>(value));
  }
}

constexpr std::uintptr_t kWorkspaceAlignment = 256;  // of the parts of a plan's workspace

/// Takes a workspace and gives it back even if a launch throws.
class Workspace {
 public:
  Workspace(Device& device, std::int64_t bytes, Stream stream) : device_(device), stream_(stream) {
    if (bytes > 0) memory_ = device.take_workspace(bytes, stream);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    try {
      release();
    } catch (...) {  // runs only while another exception propagates, which is more useful
    }
  }
  void release() {
    if (const WorkspaceMemory memory = std::exchange(memory_, {}); memory.data)
      device_.give_back_workspace(memory, stream_);
  }
  void* data() const { return memory_.data; }

 private:
  Device& device_;
  Stream stream_;
  WorkspaceMemory memory_;
};

/// The shape without programmatic launch, for the first step. The kernel before it belongs to the
/// caller, so the step must not start before that kernel has ended.
LaunchShape not_programmatic(LaunchShape shape) {
  shape.programmatic = false;
  return shape;
}

std::size_t operand_of(StepRole pack) { return pack == StepRole::pack_a ? 0 : 1; }

/// How many blocks of a step pack A and B.
std::array<std::uint32_t, 2> pack_blocks_of(const LaunchStep& step) {
  if (step.role == StepRole::pack_a) return {step.grid.x, 0};
  if (step.role == StepRole::pack_b) return {0, step.grid.x};
  if (step.role != StepRole::pack_both) return {};
  const auto blocks =
      std::find_if(step.arguments.begin(), step.arguments.end(),
                   [](const Argument& x) { return x.kind == Argument::Kind::blocks_a; });
  if (blocks == step.arguments.end() || blocks->value < 1 || blocks->value >= step.grid.x)
    throw Error(ErrorKind::invalid_argument,
                to_string(step.kernel) + ": a step that packs both operands needs an argument " +
                    "blocks_a of at least 1 and less than its " + std::to_string(step.grid.x) +
                    " blocks");
  const auto a = static_cast<std::uint32_t>(blocks->value);
  return {a, step.grid.x - a};
}

/// The call's operand of the epilogue that an argument names. An epilogue without operands has one
/// without data.
EpilogueOperand epilogue_operand(const Argument& argument, const Call& call) {
  const auto slot = static_cast<std::size_t>(argument.value);
  return slot < call.operands.size() ? call.operands[slot] : EpilogueOperand{};
}

std::int64_t stride_elements(const Argument& stride, const Call& call) {
  switch (stride.kind) {
    case Argument::Kind::lda:
      return call.lda;
    case Argument::Kind::ldb:
      return call.ldb;
    case Argument::Kind::ldc:
      return call.ldc;
    case Argument::Kind::stride_a:
      return call.stride_a;
    case Argument::Kind::stride_b:
      return call.stride_b;
    case Argument::Kind::stride_c:
      return call.stride_c;
    case Argument::Kind::operand_ld:
      return epilogue_operand(stride, call).ld;
    case Argument::Kind::operand_stride:
      return epilogue_operand(stride, call).stride;
    default:
      return stride.value;
  }
}

/// Refuses a recipe whose base or stride is of the wrong kind.
void check_recipe(const TensorMapRecipe& recipe) {
  using Kind = Argument::Kind;
  const Kind base = recipe.base.kind, stride = recipe.stride.kind;
  if (base != Kind::a && base != Kind::b && base != Kind::c && base != Kind::workspace &&
      base != Kind::operand)
    throw Error(ErrorKind::invalid_argument,
                "tensor map: the base must be a, b, c, workspace or operand, not " +
                    std::string(to_string(base)));
  if (stride != Kind::lda && stride != Kind::ldb && stride != Kind::ldc &&
      stride != Kind::operand_ld && stride != Kind::integer64)
    throw Error(ErrorKind::invalid_argument,
                "tensor map: the stride must be lda, ldb, ldc, operand_ld or integer64, not " +
                    std::string(to_string(stride)));
  const Kind batch = recipe.batch_stride.kind;
  if (batch != Kind::stride_a && batch != Kind::stride_b && batch != Kind::stride_c &&
      batch != Kind::operand_stride && batch != Kind::integer64)
    throw Error(ErrorKind::invalid_argument,
                "tensor map: the batch stride must be stride_a, stride_b, stride_c, "
                "operand_stride or integer64, not " +
                    std::string(to_string(batch)));
}

/// Loads each distinct kernel once.
std::map<KernelSpec, std::shared_ptr<LoadedKernel>> load_kernels(Device& device, const Plan& plan,
                                                                 std::span<const Image> images) {
  if (images.size() != plan.steps.size())
    throw Error(ErrorKind::invalid_argument,
                "executable: the plan has " + std::to_string(plan.steps.size()) + " steps but " +
                    std::to_string(images.size()) + " images came with it");
  const std::map<KernelSpec, KernelNeed> needs = kernel_needs(plan);
  std::map<KernelSpec, std::shared_ptr<LoadedKernel>> kernels;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const KernelSpec& spec = plan.steps[i].kernel;
    if (images[i].kernel != spec)
      throw Error(ErrorKind::invalid_argument, "executable: step " + std::to_string(i) +
                                                   " needs the image of " + to_string(spec) +
                                                   ", not of " + to_string(images[i].kernel));
    const KernelNeed& need = needs.at(spec);
    if (!kernels.count(spec))
      kernels[spec] = device.load(images[i], need.shared_bytes, need.cluster_blocks);
  }
  return kernels;
}

}  // namespace

std::map<KernelSpec, KernelNeed> kernel_needs(const Plan& plan) {
  std::map<KernelSpec, KernelNeed> needs;
  for (const LaunchStep& step : plan.steps) {
    KernelNeed& need = needs[step.kernel];
    need.shared_bytes = std::max(need.shared_bytes, step.shared_bytes);
    need.cluster_blocks =
        std::max(need.cluster_blocks, static_cast<std::uint32_t>(volume(step.cluster)));
  }
  return needs;
}

Executable::Executable(Device& device, const Problem& problem, Plan plan,
                       std::span<const Image> images, EmulatedCounts* counts)
    : Executable(device, problem, plan, load_kernels(device, plan, images), counts) {}

Executable::Executable(Device& device, const Problem& problem, Plan plan,
                       const std::map<KernelSpec, std::shared_ptr<LoadedKernel>>& kernels,
                       EmulatedCounts* counts)
    : device_(&device),
      problem_(problem),
      plan_(std::move(plan)),
      map_owner_(plan_.tensor_maps.empty() ? 0 : next_map_owner()) {
  std::for_each(plan_.tensor_maps.begin(), plan_.tensor_maps.end(), check_recipe);
  for (const LaunchStep& step : plan_.steps)
    steps_.push_back(make_step(step, kernels.at(step.kernel), counts));
  for (const LaunchStep& step : plan_.steps) find_packed_parts(step);
}

/// Finds the parts of the workspace that a PackedOperand can replace; skips empty parts (k = 0).
void Executable::find_packed_parts(const LaunchStep& step) {
  std::size_t next = 0;
  for (const Argument& argument : step.arguments) {
    if (argument.kind != Argument::Kind::workspace || next == step.packs.size()) continue;
    const Packing& packing = step.packs[next++];
    if (packing.bytes <= 0) continue;
    parts_[operand_of(packing.role)] = {packing, argument.value};
  }
}

const std::optional<Executable::PackedPart>& Executable::part(StepRole role) const {
  return parts_[operand_of(role)];
}

const Packing* Executable::packing(StepRole role) const {
  return part(role) ? &part(role)->packing : nullptr;
}

void Executable::pack(StepRole role, const Call& call, void* memory) const {
  Memory where;
  where.packed[operand_of(role)] = static_cast<std::byte*>(memory);
  where.packs[1 - operand_of(role)] = false;
  for (const Step& step : steps_) {
    const std::optional<LaunchShape> shape = shape_of(step, where);
    if (!is_pack(step.role) || !shape) continue;
    alignas(128) std::byte arguments[kMaxArgumentBytes];
    fill(step, call, where, arguments);
    device_->launch(*step.kernel, not_programmatic(*shape), arguments, call.stream);
  }
}

/// Fills in the constants of a step's argument struct and lists the fields that a call fills in.
Executable::Step Executable::make_step(const LaunchStep& step, std::shared_ptr<LoadedKernel> kernel,
                                       EmulatedCounts* counts) const {
  const ArgumentLayout layout = layout_of(step.arguments, problem_.accumulator);
  if (layout.bytes > kMaxArgumentBytes)
    throw Error(ErrorKind::unsupported,
                to_string(step.kernel) + ": its arguments take " + std::to_string(layout.bytes) +
                    " bytes; a kernel takes " + std::to_string(kMaxArgumentBytes) + " at most");
  Step made{std::move(kernel),
            {step.grid, step.block, step.cluster, step.shared_bytes, step.programmatic},
            step.role,
            pack_blocks_of(step),
            std::vector<std::byte>(layout.bytes),
            {}};
  for (std::size_t i = 0; i < step.arguments.size(); ++i) {
    const auto& [kind, value] = step.arguments[i];
    std::byte* field = made.arguments.data() + layout.offsets[i];
    if (kind == Argument::Kind::integer64) {
      store(field, value);
    } else if (kind == Argument::Kind::integer32) {
      store(field, static_cast<std::int32_t>(value));
    } else if (kind == Argument::Kind::counts) {
      store(field, counts);
    } else {
      if (kind == Argument::Kind::tensor_map &&
          (value < 0 || value >= static_cast<std::int64_t>(plan_.tensor_maps.size())))
        throw Error(ErrorKind::invalid_argument,
                    to_string(step.kernel) + ": tensor map " + std::to_string(value) + " of " +
                        std::to_string(plan_.tensor_maps.size()) + " is not there");
      made.patches.push_back({kind, layout.offsets[i], value});
    }
  }
  return made;
}

/// Finds the addresses of one launch. Ignores an operand packed for another plan or device: this
/// plan's own pack step reads the original.
Executable::Memory Executable::memory_for(const Call& call) const {
  Memory memory;
  memory.zero = !reads_operands(problem_, call);
  if (memory.zero) {
    memory.packs = {};
    return memory;
  }
  for (const PackedOperand* operand : {call.packed_a, call.packed_b}) {
    const PackedOperand::Contents* contents = operand ? operand->contents() : nullptr;
    if (!contents || !contents->packing || contents->device.get() != device_) continue;
    const std::optional<PackedPart>& own = part(contents->role);
    if (!own || own->packing != *contents->packing) continue;
    memory.packed[operand_of(contents->role)] = static_cast<std::byte*>(contents->memory.data());
    memory.packs[operand_of(contents->role)] = false;
  }
  return memory;
}

std::int64_t Executable::workspace_bytes(const Memory& memory) const {
  std::int64_t bytes = plan_.workspace_bytes;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (memory.packed[i]) bytes -= parts_[i]->packing.bytes;
  return bytes;
}

/// The address at an offset of the workspace. Parts that the caller has packed are not in the
/// workspace, so later parts move up.
void* Executable::address(std::int64_t offset, const Memory& memory) const {
  std::int64_t left_out = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!memory.packed[i]) continue;
    const std::int64_t inside = offset - parts_[i]->offset, bytes = parts_[i]->packing.bytes;
    if (inside >= 0 && inside < bytes) return memory.packed[i] + inside;
    if (inside >= bytes) left_out += bytes;
  }
  return memory.workspace + (offset - left_out);
}

/// The launch of a step. A pack step gets only the blocks of operands that are packed now; none if
/// there are none.
std::optional<LaunchShape> Executable::shape_of(const Step& step, const Memory& memory) const {
  LaunchShape shape = step.shape;
  if (!is_pack(step.role)) return shape;
  shape.grid.x = 0;
  for (std::size_t i = 0; i < memory.packs.size(); ++i)
    if (memory.packs[i]) shape.grid.x += step.pack_blocks[i];
  if (shape.grid.x == 0) return {};
  return shape;
}

/// Calls `launch` with each step that is launched and its shape, in order.
template <class Launch>
void Executable::for_each_launch(const Memory& memory, Launch launch) const {
  bool first = true;
  for (const Step& step : steps_) {
    const std::optional<LaunchShape> shape = shape_of(step, memory);
    if (!shape) continue;
    launch(step, first ? not_programmatic(*shape) : *shape);
    first = false;
  }
}

void Executable::launch(const Call& call) const {
  if (is_empty(problem_)) return;
  Memory memory = memory_for(call);
  const std::int64_t bytes = workspace_bytes(memory);
  const bool given = call.workspace && bytes <= call.workspace_bytes &&
                     reinterpret_cast<std::uintptr_t>(call.workspace) % kWorkspaceAlignment == 0;
  Workspace workspace(*device_, given ? 0 : bytes, call.stream);
  memory.workspace = static_cast<std::byte*>(given ? call.workspace : workspace.data());
  launch_all(call, memory);
  workspace.release();
}

void Executable::launch(const Call& call, void* workspace) const {
  if (is_empty(problem_)) return;
  Memory memory = memory_for(call);
  memory.workspace = static_cast<std::byte*>(workspace);
  launch_all(call, memory);
}

void Executable::launch_all(const Call& call, const Memory& memory) const {
  for_each_launch(memory, [&](const Step& step, const LaunchShape& shape) {
    alignas(128) std::byte arguments[kMaxArgumentBytes];
    fill(step, call, memory, arguments);
    device_->launch(*step.kernel, shape, arguments, call.stream);
  });
}

std::vector<BoundLaunch> Executable::bind(const Call& call, void* workspace) const {
  std::vector<BoundLaunch> launches;
  if (is_empty(problem_)) return launches;
  Memory memory = memory_for(call);
  memory.workspace = static_cast<std::byte*>(workspace);
  for_each_launch(memory, [&](const Step& step, const LaunchShape& shape) {
    BoundLaunch& bound = launches.emplace_back();
    bound.kernel = step.kernel.get();
    bound.shape = shape;
    fill(step, call, memory, bound.arguments.data());
  });
  return launches;
}

/// Writes a step's whole argument struct. If A and B are not read, k is 0 and their tensor maps
/// stay zero, as those of matrices without elements do.
void Executable::fill(const Step& step, const Call& call, const Memory& memory,
                      std::byte* arguments) const {
  std::copy(step.arguments.begin(), step.arguments.end(), arguments);
  for (const Patch& patch : step.patches) fill_field(patch, call, memory, arguments + patch.offset);
}

const void* Executable::base_address(const Argument& base, const Call& call,
                                     const Memory& memory) const {
  switch (base.kind) {
    case Argument::Kind::a:
      return call.a;
    case Argument::Kind::b:
      return call.b;
    case Argument::Kind::c:
      return call.c;
    case Argument::Kind::operand:
      return epilogue_operand(base, call).data;
    default:
      return address(base.value, memory);
  }
}

void Executable::fill_field(const Patch& patch, const Call& call, const Memory& memory,
                            std::byte* field) const {
  using Kind = Argument::Kind;
  switch (patch.kind) {
    case Kind::a:
      return store(field, call.a);
    case Kind::b:
      return store(field, call.b);
    case Kind::c:
      return store(field, call.c);
    case Kind::workspace:
      return store(field, address(patch.value, memory));
    case Kind::lda:
      return store(field, call.lda);
    case Kind::ldb:
      return store(field, call.ldb);
    case Kind::ldc:
      return store(field, call.ldc);
    case Kind::stride_a:
      return store(field, call.stride_a);
    case Kind::stride_b:
      return store(field, call.stride_b);
    case Kind::stride_c:
      return store(field, call.stride_c);
    case Kind::k:
      return store(field, memory.zero ? std::int64_t{0} : problem_.k);
    case Kind::blocks_a:
      return store(field, static_cast<std::int32_t>(memory.packs[0] ? patch.value : 0));
    case Kind::alpha:
      return store_scalar(field, call.alpha, problem_.accumulator);
    case Kind::beta:
      return store_scalar(field, call.beta, problem_.accumulator);
    case Kind::alpha_device:
      return store(field, call.alpha_device);
    case Kind::beta_device:
      return store(field, call.beta_device);
    case Kind::tensor_map: {
      const TensorMapRecipe& recipe = plan_.tensor_maps[static_cast<std::size_t>(patch.value)];
      const bool of_epilogue = recipe.base.kind == Kind::operand;
      if (memory.zero && (recipe.base.kind == Kind::a || recipe.base.kind == Kind::b)) return;
      if (std::count(recipe.dims.begin(), recipe.dims.end(), 0) > 0) return;
      const void* base = base_address(recipe.base, call, memory);
      const std::int64_t row = stride_elements(recipe.stride, call),
                         batch = stride_elements(recipe.batch_stride, call);
      // Otherwise the kernel does not use the map, by the same test.
      if (of_epilogue && !layout::is_for_tma(reinterpret_cast<std::uintptr_t>(base), row, batch,
                                             bytes_of(recipe.type)))
        return;
      const MapStrides strides{bytes_of(recipe.type, row), bytes_of(recipe.type, batch)};
      return encode_cached(*device_, recipe, map_owner_, patch.value, base, strides, field);
    }
    case Kind::group_rows:
      return store(field, call.group_rows);
    case Kind::operand:
      return store(field, epilogue_operand({patch.kind, patch.value}, call).data);
    case Kind::operand_ld:
      return store(field, epilogue_operand({patch.kind, patch.value}, call).ld);
    case Kind::operand_stride:
      return store(field, epilogue_operand({patch.kind, patch.value}, call).stride);
    case Kind::tolerance:
      // The rest is the rounding of the result.
      return store(field, std::max(std::bit_cast<double>(patch.value), call.accuracy - 0x1p-52));
    case Kind::operand_value:
      return store(field, epilogue_operand({patch.kind, patch.value}, call).value);
    case Kind::integer64:
    case Kind::integer32:
    case Kind::counts:
      return;  // constants, filled in by make_step()
  }
}

std::vector<ResourceUsage> Executable::usage() const {
  std::vector<ResourceUsage> usages;
  for (const Step& step : steps_) usages.push_back(step.kernel->usage());
  return usages;
}

}  // namespace tilewise
