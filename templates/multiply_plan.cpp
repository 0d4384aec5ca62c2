#include "templates/multiply_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewise {
namespace {

using Kind = Argument::Kind;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// An operand in the workspace: where it is, how long its rows are.
struct Packed {
  std::int64_t offset = 0, ld = 0, bytes = 0;
};

struct Stored {
  std::int64_t rows, columns;
};

/// Rows are padded to 32 elements: 128 bytes for f32, so every row starts a line.
Packed packed_operand(Stored from, Pack pack, int element_bytes, std::int64_t offset) {
  const bool turn = pack == Pack::transpose;
  const std::int64_t rows = turn ? from.columns : from.rows;
  const std::int64_t columns = turn ? from.rows : from.columns;
  Packed packed;
  packed.offset = offset;
  packed.ld = std::max<std::int64_t>(32, round_up(columns, 32));
  packed.bytes = round_up(rows * packed.ld * element_bytes, 256);
  return packed;
}

// Instructions that come with one of a kind: its address, its test for the edge, its loop.
constexpr double kPerGlobalAccess = 5.5;
constexpr double kPerResult = 55;
constexpr double kPerExchange = 18;
// Bytes that pass through shared memory or L1 at a time, whatever part of them a warp wants.
constexpr double kPassBytes = 128;
constexpr double kWarp = 32;

double threads_of(const LaunchStep& step) {
  return static_cast<double>(volume(step.grid)) * static_cast<double>(volume(step.block));
}

/// Each element is read and written once, by way of shared memory.
void state_pack_work(LaunchStep& step, double elements, double element_bytes) {
  step.work.compulsory_bytes = step.work.global_bytes = 2 * elements * element_bytes;
  step.work.shared_bytes = step.work.global_bytes;
  step.work.instructions = 2 * elements * kPerGlobalAccess;
}

/// Sums are read by fours in each of `rows` rows: a round is what is under way at a time.
void state_reduce_work(LaunchStep& step, double elements, double element_bytes, int splits,
                       int rows) {
  constexpr double at_once = 4;
  step.work.compulsory_bytes = step.work.global_bytes = (splits + 1) * elements * element_bytes;
  step.work.instructions = elements * (splits * 2 + kPerGlobalAccess);
  step.schedule.rounds = std::max(1.0, splits / at_once / rows);
}

void state_multiply_work(LaunchStep& step, const Problem& problem, const MultiplyShape& shape) {
  const ThreadWork& thread = shape.thread;
  const double m = double(problem.m), n = double(problem.n), k = double(problem.k);
  const double element = bytes_of(problem.a);
  const double tiles =
      double(ceil_div(problem.m, shape.tile_m)) * double(ceil_div(problem.n, shape.tile_n));
  const double tiles_k = double(ceil_div(problem.k, shape.tile_k));
  Schedule& schedule = step.schedule;
  schedule.rounds = std::ceil(tiles_k / shape.splits);
  schedule.passes = thread.shared_loads > 0 ? thread.steps / thread.unrolled : 0;
  schedule.ahead = thread.ahead;
  schedule.multiply_add_rate = thread.multiply_add_rate;
  schedule.registers = thread.registers;
  schedule.resident_blocks = thread.resident_blocks;

  Work& work = step.work;
  work.flops = flops_of(problem);
  work.issued_flops = 2 * tiles * shape.tile_m * shape.tile_n * tiles_k * shape.tile_k;
  work.compulsory_bytes = operand_bytes(problem) + (shape.splits - 1) * m * n * element;
  work.global_bytes =
      tiles * (shape.tile_m + shape.tile_n) * k * element + shape.splits * m * n * element;
  const double thread_tiles =
      tiles * tiles_k * shape.threads;  // of all blocks, whatever the splits
  const double in_shared = thread.steps * thread.shared_loads + thread.shared_stores;
  work.shared_bytes = thread_tiles / kWarp * (in_shared + thread.global_loads) * kPassBytes;
  work.instructions =
      thread_tiles * (thread.steps * thread.shared_loads +
                      kPerGlobalAccess * (thread.global_loads + thread.shared_stores) +
                      thread.pass_instructions * thread.steps / thread.unrolled) +
      threads_of(step) * (kPerResult * thread.result_stores + kPerExchange * thread.exchanged);
}

LaunchStep pack_step(StepRole role, Stored from, Pack pack, const Packed& to, int element_bytes) {
  LaunchStep step;
  step.role = role;
  step.kernel = {"pack.cu", "pack", {{"TRANSPOSE", pack == Pack::transpose ? 1 : 0}}};
  const std::int64_t rows = pack == Pack::transpose ? from.columns : from.rows;
  // The field order of PackArgs in steps/pack.cu.
  step.arguments = {{role == StepRole::pack_a ? Kind::a : Kind::b},
                    {Kind::workspace, to.offset},
                    {role == StepRole::pack_a ? Kind::lda : Kind::ldb},
                    {Kind::integer64, to.ld},
                    {Kind::integer64, from.rows},
                    {Kind::integer64, from.columns}};
  step.grid.x = static_cast<std::uint32_t>(
      std::max<std::int64_t>(1, ceil_div(rows, 64) * ceil_div(to.ld, 64)));
  step.block.x = 256;
  step.shared_bytes = pack == Pack::transpose ? 64 * 65 * 4 : 0;
  state_pack_work(step, double(from.rows) * double(from.columns), element_bytes);
  return step;
}

LaunchStep reduce_step(const Problem& problem, std::int64_t partial, int splits) {
  LaunchStep step;
  step.role = StepRole::reduce;
  const int rows = splits >= 32 ? 8 : (splits >= 8 ? 4 : 1);
  step.kernel = {"reduce.cu", "reduce", {{"ROWS", rows}}};
  // The field order of ReduceArgs in steps/reduce.cu.
  step.arguments = {{Kind::workspace, partial},
                    {Kind::c},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::ldc},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::integer32, splits},
                    {Kind::alpha},
                    {Kind::beta}};
  step.grid.x = static_cast<std::uint32_t>(ceil_div(problem.m * problem.n, 256 / rows));
  step.block.x = 256;
  step.shared_bytes = rows > 1 ? 256 * 4 : 0;
  state_reduce_work(step, double(problem.m) * double(problem.n), bytes_of(problem.a), splits, rows);
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
  state_reduce_work(step, double(tail.rest_tiles) * double(tile), bytes_of(problem.a), parts, 1);
  return step;
}

/// Maps of the tiles of A and B as the multiply step reads them, k outermost.
void add_tensor_maps(Plan& plan, LaunchStep& multiply, const Problem& problem,
                     const MultiplyShape& shape) {
  const auto add = [&](const Argument& base, const Argument& stride, std::int64_t span, int tile) {
    TensorMapRecipe recipe;
    recipe.base = base;
    recipe.stride = stride;
    recipe.type = problem.a;
    recipe.dims = {span, problem.k};
    recipe.box = {tile, shape.tile_k};
    recipe.l2_promotion_bytes = 128;
    multiply.arguments.push_back(
        {Kind::tensor_map, static_cast<std::int64_t>(plan.tensor_maps.size())});
    plan.tensor_maps.push_back(std::move(recipe));
  };
  // The fields of MultiplyArgs: a, b, ..., lda, ldb.
  if (shape.map_a) add(multiply.arguments[0], multiply.arguments[5], problem.m, shape.tile_m);
  if (shape.map_b) add(multiply.arguments[1], multiply.arguments[6], problem.n, shape.tile_n);
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

bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits) {
  constexpr double limit = std::numeric_limits<std::int32_t>::max();
  return double(ceil_div(problem.m, tile_m)) * double(ceil_div(problem.n, tile_n)) *
                 double(splits) <=
             limit &&
         double(problem.k) / double(tile_k) < limit;
}

Plan multiply_plan(const Problem& problem, MultiplyShape shape) {
  Plan plan;
  if (problem.m == 0 || problem.n == 0) return plan;
  const int element = bytes_of(problem.a);
  LaunchStep multiply;
  Argument a{Kind::a}, b{Kind::b}, c{Kind::c}, lda{Kind::lda}, ldb{Kind::ldb};

  if (shape.pack_a != Pack::none) {
    const Stored from{rows_a(problem), min_lda(problem)};
    const Packed to = packed_operand(from, shape.pack_a, element, plan.workspace_bytes);
    plan.workspace_bytes += to.bytes;
    plan.steps.push_back(pack_step(StepRole::pack_a, from, shape.pack_a, to, element));
    a = {Kind::workspace, to.offset};
    lda = {Kind::integer64, to.ld};
  }
  if (shape.pack_b != Pack::none) {
    const Stored from{rows_b(problem), min_ldb(problem)};
    const Packed to = packed_operand(from, shape.pack_b, element, plan.workspace_bytes);
    plan.workspace_bytes += to.bytes;
    plan.steps.push_back(pack_step(StepRole::pack_b, from, shape.pack_b, to, element));
    b = {Kind::workspace, to.offset};
    ldb = {Kind::integer64, to.ld};
  }
  const std::int64_t partial = plan.workspace_bytes;
  if (shape.splits > 1) {
    plan.workspace_bytes += shape.splits * problem.m * problem.n * element;
    c = {Kind::workspace, partial};
  }

  const std::int64_t tiles_m = ceil_div(problem.m, shape.tile_m);
  const std::int64_t tiles_n = ceil_div(problem.n, shape.tile_n);
  multiply.role = StepRole::multiply;
  multiply.kernel = std::move(shape.kernel);
  multiply.kernel.defines.emplace_back("A_TRANSPOSED", reads_a_transposed(problem, shape.pack_a));
  multiply.kernel.defines.emplace_back("B_TRANSPOSED", reads_b_transposed(problem, shape.pack_b));
  std::sort(multiply.kernel.defines.begin(), multiply.kernel.defines.end());
  multiply.grid.x = static_cast<std::uint32_t>(tiles_m * tiles_n * shape.splits);
  multiply.block.x = static_cast<std::uint32_t>(shape.threads);
  multiply.shared_bytes = shape.shared_bytes;
  // The field order of MultiplyArgs in multiply_args.cuh. A raster beyond the rows there are would
  // overflow the kernel's 32-bit tile arithmetic for nothing.
  const std::int64_t raster = std::clamp<std::int64_t>(shape.raster, 1, tiles_m);
  multiply.arguments = {a,
                        b,
                        c,
                        {Kind::alpha_device},
                        {Kind::beta_device},
                        lda,
                        ldb,
                        {Kind::ldc},
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
    plan.workspace_bytes += tail.blocks() * 2 * shape.tile_m * shape.tile_n * element;
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
