#include "templates/plan/multiply_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "templates/plan/pack_plan.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;

// Instructions that come with one of a kind: its address, its test for the edge, its loop.
constexpr double kPerResult = 55;
constexpr double kPerExchange = 18;
// Bytes that pass through shared memory or L1 at a time, whatever part of them a warp wants.
constexpr double kPassBytes = 128;
constexpr double kWarp = 32;

double threads_of(const LaunchStep& step) {
  return static_cast<double>(volume(step.grid)) * static_cast<double>(volume(step.block));
}

/// Sums are read by fours in each of `rows` rows: a round is what is under way at a time.
void state_reduce_work(LaunchStep& step, const Problem& problem, double elements, int splits,
                       int rows) {
  constexpr double at_once = 4;
  step.work.compulsory_bytes = step.work.global_bytes =
      elements * (double(splits) * bytes_of(problem.accumulator) + bytes_of(problem.c));
  step.work.instructions = elements * (splits * 2 + kPerGlobalAccess);
  step.schedule.rounds = std::max(1.0, splits / at_once / rows);
}

void state_multiply_work(LaunchStep& step, const Problem& problem, const MultiplyShape& shape) {
  const ThreadWork& thread = shape.thread;
  const double results = double(problem.m) * double(problem.n) * double(problem.batch);
  const double sum_bytes = bytes_of(problem.accumulator);
  const double tiles = double(ceil_div(problem.m, shape.tile_m)) *
                       double(ceil_div(problem.n, shape.tile_n)) * double(problem.batch);
  const double tiles_k = double(ceil_div(problem.k, shape.tile_k));
  Schedule& schedule = step.schedule;
  schedule.rounds = std::ceil(tiles_k / shape.splits);
  schedule.passes = thread.shared_loads > 0 ? thread.waits * thread.steps / thread.unrolled : 0;
  schedule.ahead = thread.ahead;
  schedule.multiply_add_rate = thread.multiply_add_rate;
  schedule.registers = thread.registers;
  schedule.resident_blocks = thread.resident_blocks;

  Work& work = step.work;
  work.flops = flops_of(problem);
  work.issued_flops = 2 * tiles * shape.tile_m * shape.tile_n * tiles_k * shape.tile_k;
  // Where k is split, sums are written instead of C.
  const double written =
      results * (shape.splits > 1 ? shape.splits * sum_bytes : bytes_of(problem.c));
  work.compulsory_bytes = operand_bytes(problem) - results * bytes_of(problem.c) + written;
  const double span = shape.tile_m * thread.fetched_a + shape.tile_n * thread.fetched_b;
  work.global_bytes = tiles * span * double(problem.k) * bytes_of(problem.a) + written;
  const double thread_tiles =
      tiles * tiles_k * shape.threads;  // of all blocks, whatever the splits
  const double passes = thread.steps * thread.shared_loads * thread.load_passes +
                        (thread.shared_stores + thread.global_loads) * thread.copy_passes;
  work.shared_bytes = thread_tiles / kWarp * passes * kPassBytes;
  work.instructions =
      thread_tiles * (thread.steps * thread.shared_loads +
                      kPerGlobalAccess * (thread.global_loads + thread.shared_stores) +
                      thread.pass_instructions * thread.steps / thread.unrolled) +
      threads_of(step) * (kPerResult * thread.result_stores + kPerExchange * thread.exchanged);
}

/// What templates/types.cuh and multiply_args.cuh want to know.
void add_types(KernelSpec& kernel, const Problem& problem) {
  kernel.defines.emplace("ELEMENT", static_cast<int>(problem.a));
  kernel.defines.emplace("RESULT", static_cast<int>(problem.c));
  kernel.defines.emplace("SUM", static_cast<int>(problem.accumulator));
  kernel.defines.emplace("BATCHED", problem.batch > 1);
}

LaunchStep reduce_step(const Problem& problem, std::int64_t partial, int splits) {
  LaunchStep step;
  step.role = StepRole::reduce;
  const int rows = splits >= 32 ? 8 : (splits >= 8 ? 4 : 1);
  step.kernel = {"reduce.cu", "reduce", {{"ROWS", rows}}};
  add_types(step.kernel, problem);
  // The field order of ReduceArgs in steps/reduce.cu.
  step.arguments = {{Kind::workspace, partial},
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
  step.grid.x =
      static_cast<std::uint32_t>(ceil_div(problem.m * problem.n, 256 / rows) * problem.batch);
  step.block.x = 256;
  if (rows > 1) step.shared_bytes = static_cast<std::uint32_t>(256 * bytes_of(problem.accumulator));
  state_reduce_work(step, problem, double(problem.m) * double(problem.n) * double(problem.batch),
                    splits, rows);
  return step;
}

LaunchStep tail_step(const Problem& problem, const MultiplyShape& shape, const Tail& tail,
                     std::int64_t partial, std::int64_t raster) {
  LaunchStep step;
  step.role = StepRole::reduce;
  step.kernel = {"tail.cu", "tail", {{"TILE_M", shape.tile_m}, {"TILE_N", shape.tile_n}}};
  // The field order of TailArgs in steps/tail.cu.
  step.arguments = {{Kind::workspace, partial},
                    {Kind::c},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::ldc},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::integer64, tail.depth},
                    {Kind::integer32, raster},
                    {Kind::integer32, tail.whole_tiles},
                    {Kind::integer32, tail.share},
                    {Kind::alpha},
                    {Kind::beta}};
  const std::int64_t tile = std::int64_t{shape.tile_m} * shape.tile_n;
  step.grid.x = static_cast<std::uint32_t>(tail.rest_tiles * ceil_div(tile, 1024));
  step.block.x = 256;
  const int parts = static_cast<int>(ceil_div(tail.depth, tail.share) + 1);
  state_reduce_work(step, problem, double(tail.rest_tiles) * double(tile), parts, 1);
  return step;
}

/// Maps of the tiles of A and B as the multiply step reads them.
void add_tensor_maps(Plan& plan, LaunchStep& multiply, const Problem& problem,
                     const MultiplyShape& shape) {
  const auto add = [&](const Argument& base, const Argument& stride, std::int64_t span, int tile,
                       bool along_k, int strands) {
    TensorMapRecipe recipe;
    recipe.base = base;
    recipe.stride = stride;
    recipe.type = problem.a;
    recipe.dims = {along_k ? problem.k : span, along_k ? span : problem.k};
    recipe.box = {along_k ? shape.tile_k : tile, along_k ? tile : shape.tile_k};
    const int element = bytes_of(problem.a);
    if (strands > 1) {
      recipe.box[0] += 16 / element;
      recipe.box[1] /= strands;
      recipe.strands = strands;
    } else if (along_k || shape.map_panels) {
      recipe.box[0] = std::min(recipe.box[0], 128 / element);
      recipe.swizzle_bytes = recipe.box[0] * element;
    }
    recipe.l2_promotion_bytes = 128;
    for (; recipe.strand < strands; ++recipe.strand) {
      multiply.arguments.push_back(
          {Kind::tensor_map, static_cast<std::int64_t>(plan.tensor_maps.size())});
      plan.tensor_maps.push_back(recipe);
    }
  };
  // The fields of MultiplyArgs: a, b, c, alpha_device, beta_device, lda, ldb.
  if (shape.map_a)
    add(multiply.arguments[0], multiply.arguments[5], problem.m, shape.tile_m,
        !reads_a_transposed(problem, shape.pack_a), shape.strands_a);
  if (shape.map_b)
    add(multiply.arguments[1], multiply.arguments[6], problem.n, shape.tile_n,
        reads_b_transposed(problem, shape.pack_b), shape.strands_b);
}

}  // namespace

Tail tail_of(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n, std::int64_t tile_k,
             std::int64_t slots) {
  const std::int64_t tiles = ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n);
  Tail tail;
  tail.whole_tiles = tiles / slots * slots;
  tail.rest_tiles = tiles - tail.whole_tiles;
  tail.depth = std::max<std::int64_t>(1, ceil_div(problem.k, tile_k));
  tail.share = std::max<std::int64_t>(1, ceil_div(tail.rest_tiles * tail.depth, slots));
  return tail;
}

bool reads_a_transposed(const Problem& problem, Pack pack) {
  return a_transposed(problem.layout) != (pack == Pack::transpose);
}
bool reads_b_transposed(const Problem& problem, Pack pack) {
  return b_transposed(problem.layout) != (pack == Pack::transpose);
}
int reads_a_alignment(const Problem& problem, Pack pack) {
  return pack == Pack::none ? problem.alignment.a : 16;
}
int reads_b_alignment(const Problem& problem, Pack pack) {
  return pack == Pack::none ? problem.alignment.b : 16;
}

KernelSpec kernel_of(std::string source, std::string entry, const Configuration& configuration,
                     std::initializer_list<std::string_view> only_the_plans) {
  KernelSpec kernel{std::move(source), std::move(entry), {}};
  for (const auto& [name, value] : configuration.values())
    if (std::find(only_the_plans.begin(), only_the_plans.end(), name) == only_the_plans.end())
      kernel.defines.emplace(name, value);
  return kernel;
}

void bake_sizes(KernelSpec& kernel, const Problem& problem, int parts, std::int64_t raster) {
  kernel.defines.emplace("BAKED_M", problem.m);
  kernel.defines.emplace("BAKED_N", problem.n);
  kernel.defines.emplace("BAKED_K", problem.k);
  kernel.defines.emplace("BAKED_SPLITS", parts);
  kernel.defines.emplace("BAKED_RASTER", raster);
}

std::int64_t raster_of(const Problem& problem, std::int64_t tile_m, std::int64_t raster) {
  return std::clamp<std::int64_t>(raster, 1,
                                  std::max<std::int64_t>(1, ceil_div(problem.m, tile_m)));
}

bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits) {
  constexpr double limit = std::numeric_limits<std::int32_t>::max();
  return double(ceil_div(problem.m, tile_m)) * double(ceil_div(problem.n, tile_n)) *
                 double(splits) * double(problem.batch) <=
             limit &&
         double(problem.k) / double(tile_k) < limit;
}

Plan multiply_plan(const Problem& problem, MultiplyShape shape) {
  Plan plan;
  if (problem.batch > 1 && (shape.map_a || shape.map_b || shape.tail_slots > 0))
    throw Error(ErrorKind::unsupported, "tensor maps and tails are for a batch of 1, not of " +
                                            std::to_string(problem.batch));
  if (problem.m == 0 || problem.n == 0) return plan;
  LaunchStep multiply;
  Argument c{Kind::c};
  Packs packs = plan_packs(problem, shape.pack_a, shape.pack_b, shape.k_multiple);
  plan.workspace_bytes = packs.workspace_bytes;
  if (packs.step) plan.steps.push_back(std::move(*packs.step));
  const std::int64_t partial = plan.workspace_bytes;
  const int sum_bytes = bytes_of(problem.accumulator);
  if (shape.splits > 1) {
    plan.workspace_bytes += problem.batch * shape.splits * problem.m * problem.n * sum_bytes;
    c = {Kind::workspace, partial};
  }

  const std::int64_t tiles_m = ceil_div(problem.m, shape.tile_m);
  const std::int64_t tiles_n = ceil_div(problem.n, shape.tile_n);
  multiply.role = StepRole::multiply;
  multiply.kernel = std::move(shape.kernel);
  multiply.kernel.defines.emplace("A_TRANSPOSED", reads_a_transposed(problem, shape.pack_a));
  multiply.kernel.defines.emplace("B_TRANSPOSED", reads_b_transposed(problem, shape.pack_b));
  add_types(multiply.kernel, problem);
  multiply.grid.x = static_cast<std::uint32_t>(tiles_m * tiles_n * shape.splits * problem.batch);
  multiply.block.x = static_cast<std::uint32_t>(shape.threads);
  multiply.shared_bytes = shape.shared_bytes;
  // The field order of MultiplyArgs in multiply_args.cuh.
  const std::int64_t raster = raster_of(problem, shape.tile_m, shape.raster);
  multiply.arguments = {packs.a.pointer,
                        packs.b.pointer,
                        c,
                        {Kind::alpha_device},
                        {Kind::beta_device},
                        packs.a.ld,
                        packs.b.ld,
                        {Kind::ldc},
                        packs.a.stride,
                        packs.b.stride,
                        {Kind::stride_c},
                        {Kind::integer64, problem.m},
                        {Kind::integer64, problem.n},
                        {Kind::k},
                        {Kind::integer32, raster},
                        {Kind::integer32, shape.splits},
                        {Kind::alpha},
                        {Kind::beta}};
  Tail tail;
  if (shape.tail_slots > 0) {
    tail = tail_of(problem, shape.tile_m, shape.tile_n, shape.tile_k, shape.tail_slots);
    plan.workspace_bytes += tail.blocks() * 2 * shape.tile_m * shape.tile_n * sum_bytes;
    multiply.grid.x = static_cast<std::uint32_t>(tail.whole_tiles + tail.blocks());
    // The next fields of SimtArgs in simt_flow.cuh.
    for (const Argument& more :
         {Argument{Kind::workspace, partial}, Argument{Kind::integer64, tail.depth},
          Argument{Kind::integer32, tail.whole_tiles}, Argument{Kind::integer32, tail.share}})
      multiply.arguments.push_back(more);
  }
  add_tensor_maps(plan, multiply, problem, shape);
  state_multiply_work(multiply, problem, shape);
  if (shape.tail_slots > 0)  // on average: blocks of the tail do less than a tile
    multiply.schedule.rounds *= double(tiles_m * tiles_n) / multiply.grid.x;
  plan.steps.push_back(std::move(multiply));
  if (shape.tail_slots > 0) plan.steps.push_back(tail_step(problem, shape, tail, partial, raster));
  if (shape.splits > 1) plan.steps.push_back(reduce_step(problem, partial, shape.splits));
  for (std::size_t i = 1; i < plan.steps.size(); ++i)
    plan.steps[i].programmatic = shape.programmatic;
  for (const LaunchStep& step : plan.steps) plan.work += step.work;
  return plan;
}

void spread_blocks(Plan& plan, const DeviceInfo& device) {
  if (device.target.host || device.multiprocessors <= 0) return;
  for (std::size_t i = 1; i < plan.steps.size(); ++i) {
    LaunchStep& step = plan.steps[i];
    if (step.role != StepRole::multiply || !step.programmatic) continue;
    const std::int64_t share =
        ceil_div(static_cast<std::int64_t>(volume(step.grid)), device.multiprocessors);
    // One more would not fit; requests are counted in units of 128 bytes.
    const std::int64_t bytes = round_up(
        device.shared_per_multiprocessor / (share + 1) - device.shared_reserved_per_block + 128,
        128);
    if (bytes > step.shared_bytes && bytes <= device.shared_per_block &&
        (bytes + device.shared_reserved_per_block) * share <= device.shared_per_multiprocessor)
      step.shared_bytes = static_cast<std::uint32_t>(bytes);
  }
}

}  // namespace tilewise
