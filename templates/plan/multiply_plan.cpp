#include "templates/plan/multiply_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "templates/plan/divisor.hpp"
#include "templates/plan/pack_plan.hpp"
#include "templates/plan/steps_layout.hpp"
#include "templates/plan/sum_order.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;

// Instructions for one result and for one exchanged sum: address, test for the edge, loop.
constexpr double kPerResult = 55;
constexpr double kPerExchange = 18;
// Bytes of one pass through shared memory or L1, however few of them a warp uses.
constexpr double kPassBytes = 128;
constexpr double kWarpThreads = 32;

/// Instructions of one operator: estimates that agree with the times of kernels with it and without
/// (bench/results/h100_epilogue_kernels.txt).
double instructions_of(const EpilogueNode& node, const EpilogueForm& form) {
  using Op = EpilogueOp;
  switch (node.op) {
    case Op::sum_of_products:
    case Op::number:
      return 0;
    case Op::operand: {
      const EpilogueOver over = form.operands[node.slot].over;
      if (is_of_blocks(over)) return 0;
      return over == EpilogueOver::elements ? 14 : (over == EpilogueOver::all ? 0 : 3);
    }
    case Op::minimum:
    case Op::maximum:
    case Op::relu:
      return 2;
    case Op::divide:
    case Op::square_root:
    case Op::reciprocal_root:
    case Op::exponential:
    case Op::logarithm:
      return 10;
    case Op::sigmoid:
    case Op::silu:
      return 20;
    case Op::gelu:
    case Op::error_function:
      return 24;
    case Op::hyperbolic_tangent:
    case Op::gelu_tanh:
      return 36;
    default:
      return 1;
  }
}

/// Of the epilogue, for one result.
double epilogue_instructions(const Problem& problem) {
  constexpr double per_written = 10;
  if (!problem.epilogue) return 0;
  const EpilogueForm& form = *problem.epilogue;
  double sum = 0;
  for (const EpilogueNode& node : form.nodes) sum += instructions_of(node, form);
  for (const EpilogueSlot& slot : form.operands)
    if (slot.use != EpilogueUse::read) sum += per_written;
  return sum;
}

double threads_of(const LaunchStep& step) {
  return static_cast<double>(volume(step.grid)) * static_cast<double>(volume(step.block));
}

void state_multiply_work(LaunchStep& step, const Problem& problem, const MultiplyShape& shape) {
  const ThreadWork& thread = shape.thread;
  const double results = double(problem.m) * double(problem.n) * double(matrices_c(problem));
  const double sum_bytes = bytes_of(problem.accumulator);
  const double tiles =
      expected_row_tiles(problem, shape.tile_m) * double(ceil_div(problem.n, shape.tile_n));
  const double tiles_k = expected_depth_tiles(problem, shape.tile_k);
  Schedule& schedule = step.schedule;
  schedule.rounds = std::ceil(tiles_k / shape.splits);
  schedule.passes = thread.shared_loads > 0 ? thread.waits * thread.steps / thread.unrolled : 0;
  schedule.ahead = thread.ahead;
  schedule.multiply_add_rate = thread.multiply_add_rate;
  schedule.registers = thread.registers;
  schedule.resident_blocks = thread.resident_blocks;
  schedule.working = thread.working;
  schedule.overlapped = thread.overlapped;
  schedule.tile_bytes = double(shape.tile_m) * shape.tile_n *
                        bytes_of(shape.splits > 1 ? problem.accumulator : problem.c.type);
  const double of_result = shape.splits > 1 ? 0 : epilogue_instructions(problem);
  schedule.tile_slots = of_result * shape.tile_m * shape.tile_n;

  Work& work = step.work;
  work.flops = flops_of(problem);
  work.issued_flops = 2 * tiles * shape.tile_m * shape.tile_n * tiles_k * shape.tile_k;
  // Where k is split, partial sums are written instead of C.
  const double written =
      results * (shape.splits > 1 ? shape.splits * sum_bytes : bytes_of(problem.c.type));
  const double of_epilogue = epilogue_bytes(problem);
  const double epilogue_here = shape.splits > 1 ? 0 : of_epilogue;
  work.compulsory_bytes = expected_bytes(problem) - of_epilogue -
                          results * bytes_of(problem.c.type) + written + epilogue_here;
  const double slice_bits = shape.tile_m * thread.fetched_a * bits_of(problem.a.type) +
                            shape.tile_n * thread.fetched_b * bits_of(problem.b.type);
  work.global_bytes = tiles * slice_bits / 8 * mean_depth(problem) + written + epilogue_here;
  const double thread_tiles =
      tiles * tiles_k * shape.threads;  // of all blocks, whatever the splits
  const double passes = thread.steps * thread.shared_loads * thread.load_passes +
                        (thread.shared_stores + thread.global_loads) * thread.copy_passes;
  work.shared_bytes = thread_tiles / kWarpThreads * passes * kPassBytes;
  work.instructions =
      thread_tiles * (thread.steps * thread.shared_loads +
                      kPerGlobalAccess * (thread.global_loads + thread.shared_stores) +
                      thread.pass_instructions * thread.steps / thread.unrolled) +
      threads_of(step) * (kPerResult * thread.result_stores + kPerExchange * thread.exchanged) +
      of_result * results;
}

/// Adds the tensor maps of shape.maps, of A and B as the multiply step reads them, of C, and of
/// matrices of the epilogue.
void add_tensor_maps(Plan& plan, LaunchStep& multiply, const Problem& problem,
                     const MultiplyShape& shape) {
  const auto size = [&](std::int64_t inner, std::int64_t outer, bool swapped) {
    return swapped ? std::vector<std::int64_t>{outer, inner}
                   : std::vector<std::int64_t>{inner, outer};
  };
  for (const TileMap& tiles : shape.maps) {
    TensorMapRecipe recipe;
    const bool of_epilogue = tiles.of == TileMap::Of::operand;
    const auto slot = static_cast<std::int64_t>(tiles.slot);
    // The order of MultiplyArgs: a, b, c, alpha_device, beta_device, lda, ldb, ldc, and strides.
    const auto place = static_cast<std::size_t>(tiles.of);
    recipe.base = of_epilogue ? Argument{Kind::operand, slot} : multiply.arguments[place];
    recipe.stride = of_epilogue ? Argument{Kind::operand_ld, slot} : multiply.arguments[5 + place];
    recipe.type = tiles.of == TileMap::Of::a   ? problem.a.type
                  : tiles.of == TileMap::Of::b ? problem.b.type
                                               : problem.c.type;
    if (tiles.of == TileMap::Of::a)
      recipe.dims = size(problem.k, problem.m, reads_a_transposed(problem, shape.pack_a));
    else if (tiles.of == TileMap::Of::b)
      recipe.dims = size(problem.n, problem.k, reads_b_transposed(problem, shape.pack_b));
    else
      recipe.dims = size(problem.n, problem.m, false);
    // The rows of the small parts follow those of the large ones.
    if (shape.packs_split && (tiles.of == TileMap::Of::a || tiles.of == TileMap::Of::b))
      recipe.dims[1] *= 2;
    recipe.box = {tiles.columns, tiles.rows};
    if (is_batched(problem)) {
      const std::int64_t matrices = tiles.of == TileMap::Of::a   ? matrices_a(problem)
                                    : tiles.of == TileMap::Of::b ? matrices_b(problem)
                                                                 : matrices_c(problem);
      const bool one = is_grouped(problem) && matrices == 1;
      recipe.batch_stride = !of_epilogue ? multiply.arguments[8 + place]
                            : one        ? Argument{Kind::integer64, 0}
                                         : Argument{Kind::operand_stride, slot};
      recipe.dims.push_back(one ? 1 : problem.batch);
      recipe.box.push_back(1);
    }
    recipe.swizzle_bytes = tiles.swizzle_bytes;
    if (tiles.row_classes > 1) {
      recipe.box[0] += 16 / bytes_of(recipe.type);
      recipe.box[1] /= tiles.row_classes;
      recipe.row_classes = tiles.row_classes;
    }
    recipe.l2_promotion_bytes = 128;
    recipe.rounded = tiles.rounded;
    for (; recipe.row_class < tiles.row_classes; ++recipe.row_class) {
      const auto same = std::find(plan.tensor_maps.begin(), plan.tensor_maps.end(), recipe);
      multiply.arguments.push_back({Kind::tensor_map, same - plan.tensor_maps.begin()});
      if (same == plan.tensor_maps.end()) plan.tensor_maps.push_back(recipe);
    }
  }
}

}  // namespace

std::string shared_depth_note(int slice_k) {
  return slice_k > 1 ? std::to_string(slice_k) + " warps share its k" : "";
}

double tile_steps(const Problem& problem, int tile_m, int tile_n, int tile_k) {
  return expected_row_tiles(problem, tile_m) * double(ceil_div(problem.n, tile_n)) *
         expected_depth_tiles(problem, tile_k);
}

void state_reduce_work(LaunchStep& step, const Problem& problem, double elements, int parts,
                       int rows) {
  constexpr double at_once = 4;  // sums that a thread reads in a round
  const double results = double(problem.m) * double(problem.n) * double(problem.batch);
  step.work.compulsory_bytes = step.work.global_bytes =
      elements * (double(parts) * bytes_of(problem.accumulator) + bytes_of(problem.c.type) +
                  epilogue_bytes(problem) / results);
  step.work.instructions = elements * (parts * 2 + kPerGlobalAccess);
  step.schedule.rounds = std::max(1.0, parts / at_once / rows);
}

void add_types(KernelSpec& kernel, const Problem& problem) {
  kernel.defines.emplace("ELEMENT", static_cast<int>(problem.a.type));
  if (problem.b.type != problem.a.type)
    kernel.defines.emplace("ELEMENT_B", static_cast<int>(problem.b.type));
  kernel.defines.emplace("RESULT", static_cast<int>(problem.c.type));
  kernel.defines.emplace("SUM", static_cast<int>(problem.accumulator));
  kernel.defines.emplace("BATCHED", is_batched(problem));
}

bool reads_a_transposed(const Problem& problem, Pack pack) {
  return problem.a.transposed != (pack == Pack::transpose);
}
bool reads_b_transposed(const Problem& problem, Pack pack) {
  return problem.b.transposed != (pack == Pack::transpose);
}
int reads_a_alignment(const Problem& problem, Pack pack) {
  // A product's first row may be any column of A.
  if (problem.grouping == Grouping::rows && reads_a_transposed(problem, pack))
    return bytes_of(problem.a.type);
  // Its first step of k may be any.
  if (problem.grouping == Grouping::depth && !reads_a_transposed(problem, pack))
    return bytes_of(problem.a.type);
  return pack == Pack::none ? problem.a.alignment : 16;
}
int reads_b_alignment(const Problem& problem, Pack pack) {
  if (problem.grouping == Grouping::depth && reads_b_transposed(problem, pack))
    return bytes_of(problem.b.type);
  return pack == Pack::none ? problem.b.alignment : 16;
}

int stored_alignment(const Problem& problem, int splits) {
  if (splits <= 1) return problem.c.alignment;
  return common_alignment({static_cast<std::uint64_t>(problem.n) *
                           static_cast<std::uint64_t>(bytes_of(problem.accumulator))});
}

KernelSpec kernel_of(std::string source, std::string entry, const Configuration& configuration,
                     std::initializer_list<std::string_view> only_the_plans) {
  KernelSpec kernel{std::move(source), std::move(entry), {}};
  for (const auto& [name, value] : configuration.values())
    if (std::find(only_the_plans.begin(), only_the_plans.end(), name) == only_the_plans.end())
      kernel.defines.emplace_hint(kernel.defines.end(), name, value);  // names are sorted
  return kernel;
}

void specialize_size(KernelSpec& kernel, const Problem& problem, int parts, std::int64_t group_m) {
  kernel.defines.emplace("SIZE_M", problem.m);
  kernel.defines.emplace("SIZE_N", problem.n);
  kernel.defines.emplace("SIZE_K", problem.k);
  kernel.defines.emplace("SPLITS", parts);
  kernel.defines.emplace("TILE_ROWS_TOGETHER", group_m);
}

std::int64_t group_m_of(std::int64_t m, std::int64_t tile_m, std::int64_t group_m) {
  const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div(m, tile_m));
  const std::int64_t wanted = std::clamp<std::int64_t>(group_m, 1, tiles);
  for (std::int64_t rows = wanted; rows <= 2 * wanted; ++rows)
    if (tiles % rows == 0 || 2 * (tiles % rows) > rows) return rows;
  return wanted;
}

bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits) {
  constexpr double limit = std::numeric_limits<std::int32_t>::max();
  // As floating-point numbers, since sizes of 2^40 pass 2^63 together.
  const double rows = problem.grouping == Grouping::rows
                          ? double(row_tiles(problem, tile_m))
                          : double(ceil_div(problem.m, tile_m)) * double(problem.batch);
  return rows * double(ceil_div(problem.n, tile_n)) * double(splits) <= limit &&
         double(problem.k) / double(tile_k) < limit;
}

MultiplyPlan::MultiplyPlan(const Problem& problem, MultiplyShape shape)
    : problem_(problem), shape_(std::move(shape)) {
  for (const TileMap& map : shape_.maps)
    if (is_batched(problem_) && map.row_classes > 1)
      throw Error(ErrorKind::unsupported,
                  "tensor maps of row classes are for one product, not for " + to_string(problem_));
  if (problem_.m == 0 || problem_.n == 0) return;
  Packs packs = plan_packs(problem_, shape_.pack_a, shape_.pack_b, shape_.packs_split);
  plan_.workspace_bytes = packs.workspace_bytes;
  if (packs.step) plan_.steps.push_back(std::move(*packs.step));
  Argument c{Kind::c};
  if (shape_.splits > 1) {
    partial_ = add_workspace(problem_.batch * shape_.splits * problem_.m * problem_.n *
                             bytes_of(problem_.accumulator));
    c = {Kind::workspace, partial_};
  }

  blocks_ =
      row_tiles(problem_, shape_.tile_m) * ceil_div(problem_.n, shape_.tile_n) * shape_.splits;
  multiply_.role = StepRole::multiply;
  multiply_.kernel = std::move(shape_.kernel);
  multiply_.kernel.defines.emplace("A_TRANSPOSED", reads_a_transposed(problem_, shape_.pack_a));
  multiply_.kernel.defines.emplace("B_TRANSPOSED", reads_b_transposed(problem_, shape_.pack_b));
  add_types(multiply_.kernel, problem_);
  if (problem_.pointers) {
    // Operands that a pack has copied lie in the workspace, and so do partial sums.
    if (shape_.pack_a == Pack::none) multiply_.kernel.defines.emplace("POINTERS_A", 1);
    if (shape_.pack_b == Pack::none) multiply_.kernel.defines.emplace("POINTERS_B", 1);
    if (shape_.splits == 1) multiply_.kernel.defines.emplace("POINTERS_C", 1);
  }
  if (problem_.grouping == Grouping::depth)
    multiply_.kernel.defines.emplace("GROUPED_DEPTH", 1);
  else if (is_grouped(problem_))
    multiply_.kernel.defines.emplace("GROUPED", problem_.grouping == Grouping::rows ? 1 : 2);
  // Those of all products follow one another.
  const auto stride_of = [&](std::int64_t matrices, Argument stride) {
    return is_grouped(problem_) && matrices == 1 ? Argument{Kind::integer64, 0} : std::move(stride);
  };
  set_blocks(blocks_);
  multiply_.block.x = static_cast<std::uint32_t>(shape_.threads);
  multiply_.cluster = shape_.cluster;
  multiply_.shared_bytes = shape_.shared_bytes;
  // The fields of MultiplyArgs in parts/arguments.cuh.
  multiply_.arguments = {
      packs.a.pointer,
      packs.b.pointer,
      c,
      {Kind::alpha_device},
      {Kind::beta_device},
      packs.a.ld,
      packs.b.ld,
      {Kind::ldc},
      stride_of(matrices_a(problem_), packs.a.stride),
      stride_of(matrices_b(problem_), packs.b.stride),
      stride_of(matrices_c(problem_), {Kind::stride_c}),
      {Kind::integer64, problem_.m},
      {Kind::integer64, problem_.n},
      {Kind::k},
      {Kind::integer64, shape_.part_tiles > 0
                            ? shape_.part_tiles
                            : ceil_div(ceil_div(problem_.k, shape_.tile_k), shape_.splits)},
      {Kind::integer32, shape_.splits}};
  add_tile_order();
  if (is_grouped(problem_))
    multiply_.arguments.insert(multiply_.arguments.end(),
                               {{Kind::group_rows}, {Kind::integer64, problem_.batch}});
  multiply_.arguments.insert(multiply_.arguments.end(), {{Kind::alpha}, {Kind::beta}});
  if (problem_.epilogue)
    for (const EpilogueSlot& operand : problem_.epilogue->operands)
      summed_.push_back(operand.use == EpilogueUse::summed
                            ? add_workspace(problem_.batch * problem_.m * problem_.n *
                                            bytes_of(epilogue_arithmetic(problem_.c.type)))
                            : 0);
  // Scales belong to the products, not to what becomes of their sums.
  if (shape_.splits == 1 || has_scales(problem_)) add_epilogue(multiply_);
}

/// The fields of TileOrder in parts/arguments.cuh, from tiles_m on.
void MultiplyPlan::add_tile_order() {
  const std::int64_t tile_m = shape_.tile_m * std::int64_t{shape_.clusters_m};
  const std::int64_t tile_n = shape_.tile_n * std::int64_t{shape_.clusters_n};
  const std::int64_t tiles_m = ceil_div(problem_.m, tile_m), tiles_n = ceil_div(problem_.n, tile_n);
  const std::int64_t group_m = group_m_of(problem_.m, tile_m, shape_.group_m);
  const std::int64_t last_group_m = tiles_m - (tiles_m - 1) / group_m * group_m;
  for (const std::int64_t value : {tiles_m, tiles_n, group_m})
    add_argument({Kind::integer32, value});
  // Grouped products find theirs by the number of a tile row.
  const bool by_rows = is_grouped(problem_) && problem_.grouping != Grouping::depth;
  const std::int64_t tiles = by_rows ? tiles_n : tiles_m * tiles_n;
  for (const std::int64_t number :
       {tiles * shape_.splits, tiles, group_m * tiles_n, group_m, last_group_m}) {
    const Divisor divisor = divisor_of(number);
    add_argument({Kind::integer32, std::int64_t{divisor.multiplier}});
    add_argument({Kind::integer32, std::int64_t{divisor.shift}});
  }
}

LaunchStep MultiplyPlan::reduce_step() const {
  const Problem& problem = problem_;
  const int splits = shape_.splits;
  LaunchStep step;
  step.role = StepRole::reduce;
  const int rows = reduce_rows(problem, splits);
  const ReduceLayout layout{rows};
  step.kernel = {"reduce.cu", "reduce", {{"ROWS", rows}}};
  add_types(step.kernel, problem);
  if (problem.pointers) step.kernel.defines.emplace("POINTERS_C", 1);
  // The field order of ReduceArgs in reduce.cu.
  step.arguments = {{Kind::workspace, partial_},
                    {Kind::c},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::ldc},
                    {Kind::stride_c},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::integer32, splits},
                    {Kind::alpha},
                    {Kind::beta}};
  add_epilogue(step);
  step.grid.x = static_cast<std::uint32_t>(ceil_div(problem.m * problem.n, layout.elements()) *
                                           problem.batch);
  step.block.x = ReduceLayout::kThreads;
  if (rows > 1)
    step.shared_bytes =
        static_cast<std::uint32_t>(ReduceLayout::kThreads * bytes_of(problem.accumulator));
  const double results = double(problem.m) * double(problem.n) * double(problem.batch);
  state_reduce_work(step, problem, results, splits, rows);
  step.work.instructions += results * epilogue_instructions(problem);
  return step;
}

void MultiplyPlan::add_epilogue(LaunchStep& step) const {
  if (!problem_.epilogue) return;
  const std::vector<EpilogueSlot>& operands = problem_.epilogue->operands;
  step.kernel.defines.emplace("POINTWISE", 1);
  step.kernel.epilogue = to_string(*problem_.epilogue);
  std::vector<Argument>& to = step.arguments;
  to.insert(to.end(), {{Kind::integer64, problem_.m}, {Kind::integer64, problem_.n}});
  for (std::size_t slot = 0; slot < std::max<std::size_t>(1, operands.size()); ++slot) {
    const auto number = static_cast<std::int64_t>(slot);
    if (slot < operands.size() && operands[slot].use == EpilogueUse::summed)
      to.insert(to.end(), {{Kind::workspace, summed_.at(slot)},
                           {Kind::integer64, problem_.n},
                           {Kind::integer64, problem_.m * problem_.n},
                           {Kind::integer64, 0}});
    else
      to.insert(to.end(), {{Kind::operand, number},
                           {Kind::operand_ld, number},
                           {Kind::operand_stride, number},
                           {Kind::operand_value, number}});
  }
}

/// Adds the steps of the epilogue's sums over rows: of parts of the rows, then of these sums.
void MultiplyPlan::add_column_sums() {
  using Block = ColumnSumsLayout;
  const DType number = epilogue_arithmetic(problem_.c.type);
  for (std::size_t slot = 0; slot < summed_.size(); ++slot) {
    const EpilogueSlot& operand = problem_.epilogue->operands[slot];
    if (operand.use != EpilogueUse::summed) continue;
    std::int64_t from = summed_[slot];
    for (std::int64_t rows = problem_.m, parts = 0; parts != 1; rows = parts) {
      parts = ceil_div(rows, std::int64_t{Block::kDepth});
      LaunchStep step;
      step.role = StepRole::reduce;
      step.kernel = {"column_sums.cu", "column_sums", {}};
      add_types(step.kernel, problem_);
      const DType to = parts == 1 ? type_of(operand, problem_.c.type) : number;
      step.kernel.defines.emplace("TO", static_cast<int>(to));
      // The fields of ColumnSumsArgs in column_sums.cu.
      step.arguments = {{Kind::workspace, from}};
      const auto of_call = static_cast<std::int64_t>(slot);
      if (parts == 1) {
        step.arguments.insert(step.arguments.end(),
                              {{Kind::operand, of_call}, {Kind::operand_stride, of_call}});
      } else {
        from = add_workspace(problem_.batch * parts * problem_.n * bytes_of(number));
        step.arguments.insert(step.arguments.end(),
                              {{Kind::workspace, from}, {Kind::integer64, parts * problem_.n}});
      }
      step.arguments.insert(
          step.arguments.end(),
          {{Kind::integer64, rows}, {Kind::integer64, problem_.n}, {Kind::integer32, parts}});
      step.grid.x = static_cast<std::uint32_t>(ceil_div(problem_.n, std::int64_t{Block::kAcross}) *
                                               parts * problem_.batch);
      step.block.x = Block::kThreads;
      step.shared_bytes = static_cast<std::uint32_t>(Block::kThreads * bytes_of(number));
      const double read = double(rows) * double(problem_.n) * double(problem_.batch);
      step.work.compulsory_bytes = step.work.global_bytes = read * bytes_of(number);
      step.work.instructions = read * kPerGlobalAccess;
      step.schedule.rounds = double(std::min<std::int64_t>(rows, Block::kDepth)) / Block::kDown;
      after_.push_back(std::move(step));
    }
  }
}

std::int64_t MultiplyPlan::add_workspace(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 256;  // kernels read vectors
  const std::int64_t place = round_up(plan_.workspace_bytes, kAlignment);
  plan_.workspace_bytes = place + bytes;
  return place;
}

void MultiplyPlan::add_argument(Argument argument) {
  multiply_.arguments.push_back(std::move(argument));
}

void MultiplyPlan::set_blocks(std::int64_t blocks, std::int64_t tiles) {
  multiply_.grid.x = static_cast<std::uint32_t>(blocks);
  tiles_ = tiles;
}

void MultiplyPlan::set_persistent(std::int64_t blocks, std::int64_t items) {
  set_blocks(blocks);
  if (blocks == 0) return;  // C has no elements
  tiles_ = ceil_div(items, blocks);
  imbalance_ = double(tiles_) * double(blocks) / double(blocks_);
}

void MultiplyPlan::add_step(LaunchStep step) { after_.push_back(std::move(step)); }

Plan MultiplyPlan::finish() {
  if (problem_.m == 0 || problem_.n == 0) return {};
  add_tensor_maps(plan_, multiply_, problem_, shape_);
  state_multiply_work(multiply_, problem_, shape_);
  if (multiply_.grid.x != blocks_)  // on average
    multiply_.schedule.rounds *= double(blocks_) / multiply_.grid.x;
  multiply_.schedule.imbalance = imbalance_;
  multiply_.schedule.tiles = double(tiles_);
  plan_.steps.push_back(std::move(multiply_));
  if (shape_.splits > 1) after_.push_back(reduce_step());
  add_column_sums();
  for (LaunchStep& step : after_) plan_.steps.push_back(std::move(step));
  for (std::size_t i = 1; i < plan_.steps.size(); ++i)
    plan_.steps[i].programmatic = shape_.programmatic;
  for (const LaunchStep& step : plan_.steps) plan_.work += step.work;
  return std::move(plan_);
}

Plan multiply_plan(const Problem& problem, MultiplyShape shape) {
  return MultiplyPlan(problem, std::move(shape)).finish();
}

void spread_blocks(Plan& plan, const DeviceInfo& device) {
  if (device.target.host || device.multiprocessors <= 0) return;
  for (std::size_t i = 1; i < plan.steps.size(); ++i) {
    LaunchStep& step = plan.steps[i];
    if (step.role != StepRole::multiply || !step.programmatic) continue;
    const std::int64_t share =
        ceil_div(static_cast<std::int64_t>(volume(step.grid)), device.multiprocessors);
    // The smallest size at which share + 1 blocks do not fit. Sizes are multiples of 128 bytes.
    const std::int64_t bytes = round_up(
        device.shared_per_multiprocessor / (share + 1) - device.shared_reserved_per_block + 128,
        128);
    if (bytes > step.shared_bytes && bytes <= device.shared_per_block &&
        (bytes + device.shared_reserved_per_block) * share <= device.shared_per_multiprocessor)
      step.shared_bytes = static_cast<std::uint32_t>(bytes);
  }
}

}  // namespace tilewise
