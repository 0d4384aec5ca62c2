#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "templates/families/families.hpp"
#include "templates/families/narrow/numbers.hpp"
#include "templates/families/wgmma/numbers.hpp"
#include "templates/space/common_constraints.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

using wgmma::StoredLayout;
using wgmma::Wgmma;

bool supports(const Problem& problem, const DeviceInfo& device) {
  const bool tf32 = problem.math == MathMode::tf32 || problem.math == MathMode::f32x3;
  const bool type = problem.a.type == DType::f32 ? tf32 : bytes_of(problem.a.type) < 4;
  // The rows of an operand in two parts are numbered through.
  const std::int64_t parts = problem.math == MathMode::f32x3 ? 2 : 1;
  // Weights come as they are stored, by TMA.
  const bool operands =
      has_one_operand_type(problem) ||
      (has_narrow_b(problem) && problem.b.transposed && problem.b.alignment == 16 &&
       !problem.pointers && problem.grouping != Grouping::depth);
  return operands && type && has(device.features, Feature::wgmma) &&
         std::max({problem.batch, parts * problem.m, parts * problem.n, problem.k}) <= kMostByTma;
}

// Issue slots of a warp: of a step of k, of a stage's waits.
constexpr double kStepSlots = 2;
constexpr double kStageSlots = 20;
// Of a store of C by each EPILOGUE, and of a sum that passes through shared memory, relative to
// those of other families. The best of a few sets tried on 4,400 records of 28 searches in bf16 on
// an H200, which had no candidate that stores rows: kRowStore is a guess.
constexpr double kStore = 1.7, kStagedStore = 2.5, kTmaStore = 0.5, kRowStore = 0.7, kShifted = 3.2;
constexpr double kStagedSum = 1.5, kLaidDownSum = 0.3;

/// tiles: of the busiest block.
ThreadWork thread_work(const Wgmma& s, const Problem& problem, std::int64_t tiles) {
  ThreadWork thread;
  const double steps = s.steps();
  // Of the block's threads those that multiply a tile, or with PING_PONG one of the tiles under
  // way.
  const double share = s.readers() * 128.0 / s.threads();
  const double sums = share * s.sums();
  // The instruction reads both operands from shared memory.
  thread.shared_loads = 1;
  thread.load_passes = s.products() * share * s.row_blocks() * s.across() * (64 + s.width()) *
                       double(wgmma::kStepBytes) / 4 / 128;
  thread.fetched_a = double(s.parts_of_element) / s.cluster_n;
  thread.fetched_b = double(s.parts_of_element) / s.cluster_m;
  constexpr double kStores[] = {kStore, kStagedStore, kTmaStore, kRowStore};
  const double stores[] = {sums / s.vector_c, sums / s.vector_c, sums * s.result / 16,
                           sums * s.result / 4};
  thread.result_stores = stores[s.epilogue] * kStores[s.epilogue];
  if (s.epilogue == 1 && s.shift_c(problem)) thread.result_stores *= kShifted;
  thread.exchanged = s.epilogue == 0 ? 0 : sums * (s.epilogue == 1 ? kStagedSum : kLaidDownSum);
  thread.steps = steps;
  // Additions, a tile of k.
  const double promoted = s.adds_parts() ? sums * s.tile_k / double(problem.order->part)
                          : s.promote    ? sums
                                         : 0;
  thread.pass_instructions = share * (kStepSlots + kStageSlots / steps) + promoted / steps;
  if (s.narrow)  // of eight elements a step
    thread.pass_instructions += share * s.row_blocks() * narrow::slots_of_eight(problem);
  thread.ahead = s.stages - 1.5;
  thread.multiply_add_rate = wgmma::kRate * 2 / s.element / s.products();
  thread.registers = s.register_layout().at_launch();
  thread.resident_blocks = s.blocks;
  // A warpgroup issues the products of a tile of k before those of the last one are complete: half
  // of their time is hidden, as where two warpgroups share them.
  thread.working = std::max(2, s.readers()) * 128.0 / s.threads();
  if (s.ping_pong)
    thread.overlapped =
        static_cast<double>(std::clamp<std::int64_t>(tiles - 1, 0, s.consumers - 1));
  return thread;
}

/// rounded: TMA rounds f32 to tf32.
TileMap boxes_by_tma(TileMap::Of of, const wgmma::TileLayout& tile, int rows, DType type,
                     bool rounded) {
  return {of, tile.width() * 8 / bits_of(type), rows, tile.width(), 1, rounded};
}

/// The matrix of the epilogue whose elements come to where results will be laid down: the first one
/// that is read and has C's type.
std::optional<std::size_t> staged_operand(const Problem& problem) {
  if (!problem.epilogue) return std::nullopt;
  const std::vector<EpilogueSlot>& operands = problem.epilogue->operands;
  const auto found = std::find_if(operands.begin(), operands.end(), [&](const EpilogueSlot& slot) {
    return slot.use == EpilogueUse::read && slot.over == EpilogueOver::elements &&
           type_of(slot, problem.c.type) == problem.c.type;
  });
  if (found == operands.end()) return std::nullopt;
  return static_cast<std::size_t>(found - operands.begin());
}

/// Whether tiles of grouped products come from two places of their list in turn: where reading A
/// and B takes over a quarter of the time of multiplying them. Not tried with PING_PONG and
/// without.
bool interleaves(const Wgmma& s, const Problem& problem) {
  // A Hopper GPU multiplies and adds 250 times in 16 bits while it reads two bytes.
  const double balance = 4 * 500.0 / s.element;
  const double read =
      double(problem.k) * (double(matrices_a(problem)) * double(problem.m) +
                           double(expected_matrices_b(problem)) * double(problem.n));
  return !s.ping_pong && flops_of(problem) < balance * read * s.element;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Wgmma s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("wgmma.cu", "wgmma", c, {"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"});
  // Configurations of earlier versions lack these.
  shape.kernel.defines.emplace("STREAM_K", 0);
  shape.kernel.defines.emplace("PROMOTE", 0);
  shape.kernel.defines.emplace("ELEMENT_PARTS", s.parts_of_element);
  shape.kernel.defines.emplace("WGMMA_N", s.width());
  shape.kernel.defines.emplace(kNoSpills, 1);
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.kernel.defines.emplace("SHIFT_C", s.shift_c(problem));
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.clusters_m = s.cluster_m;
  shape.clusters_n = s.cluster_n;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes(s.shift_c(problem));
  shape.cluster.x = static_cast<std::uint32_t>(s.cluster());
  shape.splits = s.split;
  if (s.adds_parts()) shape.part_tiles = problem.order->part / s.tile_k;
  shape.group_m = s.group_m;  // counts rows of clusters
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  shape.packs_split = s.parts_of_element == 2;
  const bool tf32 = problem.math == MathMode::tf32;
  const int edge_rows_a = s.edge_rows_a(problem), edge_rows_b = s.edge_rows_b(problem);
  const auto add_boxes = [&](int rows_a, int rows_b) {
    shape.maps.push_back(
        boxes_by_tma(TileMap::Of::a, s.a, rows_a, problem.a.type, tf32 && s.pack_a == Pack::none));
    shape.maps.push_back(
        boxes_by_tma(TileMap::Of::b, s.b, rows_b, problem.b.type, tf32 && s.pack_b == Pack::none));
  };
  add_boxes(s.a.share_rows(), s.b.share_rows());
  add_boxes(edge_rows_a, edge_rows_b);
  const std::optional<std::size_t> staged =
      s.epilogue >= 2 ? staged_operand(problem) : std::nullopt;
  if (staged) shape.kernel.defines.emplace("STAGED_OPERAND", static_cast<int>(*staged));
  if (s.epilogue == 2) {
    const StoredLayout stored = s.stored();
    const auto add_maps = [&](TileMap::Of of, std::size_t slot) {
      for (const int of_box : {stored.columns, stored.rest})
        if (of_box > 0)
          shape.maps.push_back({of, of_box, stored.rows, stored.swizzle(of_box), 1, false, slot});
    };
    add_maps(TileMap::Of::c, 0);
    if (staged) add_maps(TileMap::Of::operand, *staged);
  }
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  const std::int64_t items = s.items(problem);
  shape.thread = thread_work(s, problem, ceil_div(items, s.resident(device)));
  MultiplyPlan made(problem, std::move(shape));
  if (is_batched(problem)) made.add_argument({Argument::Kind::integer32, problem.batch});
  if (is_grouped(problem) && !s.by_depth)
    made.add_argument({Argument::Kind::integer32, std::int64_t{interleaves(s, problem)}});
  if (s.stream_k) {
    const StreamK stream_k = s.stream_k_of(problem, device);
    const std::int64_t clusters =
        std::max(stream_k.blocks(), std::min(stream_k.whole_tiles, s.resident(device)));
    // The last one is a part of a tile.
    made.set_blocks(clusters * s.cluster(), ceil_div(stream_k.whole_tiles, clusters) + 1);
    add_stream_k(made, problem, stream_k, s.group_m);
  } else {
    made.set_persistent(std::min(items, s.resident(device)) * s.cluster(), items * s.cluster());
  }
  made.add_argument({Argument::Kind::integer32, std::int64_t{s.skips(problem)}});
  made.add_argument({Argument::Kind::integer32, std::int64_t{edge_rows_a}});
  made.add_argument({Argument::Kind::integer32, std::int64_t{edge_rows_b}});
  return made.finish();
}

struct DefaultTile {
  int m, n, consumers;
  bool swap;
};
constexpr DefaultTile kDefaultTiles[] = {
    {256, 128, 2, false}, {128, 256, 2, false}, {128, 128, 2, false}, {128, 64, 2, false},
    {64, 128, 1, false},  {64, 64, 1, false},   {32, 64, 1, true},    {16, 64, 1, true}};
// Of a B whose elements the warpgroups widen.
constexpr DefaultTile kNarrowTiles[] = {
    {128, 128, 2, true}, {64, 128, 2, true}, {32, 128, 2, true}, {16, 128, 2, true}};

std::int64_t tiles_of(const DefaultTile& tile, const Problem& problem) {
  return static_cast<std::int64_t>(expected_row_tiles(problem, tile.m)) *
         ceil_div(problem.n, tile.n);
}

/// Cycles for all steps of k of a multiprocessor's tiles: of the instruction, or of the copies
/// from L2 (64 bytes a cycle).
double default_cycles(const DefaultTile& tile, const Problem& problem, const DeviceInfo& device) {
  const double multiply = tile.m / 64.0 * tile.n / 2, copies = (tile.m + tile.n) / 2.0;
  return double(ceil_div(tiles_of(tile, problem), device.multiprocessors)) *
         std::max(multiply, copies);
}

/// Whether a block adds the parts of the problem's order itself: where the tiles occupy most
/// multiprocessors.
bool adds_parts(const DefaultTile& tile, const Problem& problem, const DeviceInfo& device) {
  return problem.order && problem.order->part > 0 && problem.order->part < problem.k &&
         problem.order->rows == 1 && problem.order->part % (128 / bytes_of(problem.a.type)) == 0 &&
         !Wgmma::must_promote(problem) && 2 * tiles_of(tile, problem) > device.multiprocessors;
}

/// Parts of k, at least 512 deep, of as few tiles as leave multiprocessors without work.
int default_split(const DefaultTile& tile, const Problem& problem, const DeviceInfo& device) {
  const std::int64_t tiles = tiles_of(tile, problem);
  if (problem.order)
    return problem.order->part == 0 || adds_parts(tile, problem, device)
               ? 1
               : static_cast<int>(ceil_div(problem.k, problem.order->part));
  if (is_grouped(problem)) return 1;
  int split = 1;
  while (split < 64 && 2 * split * tiles <= device.multiprocessors &&
         problem.k / (2 * split) >= 512)
    split *= 2;
  return split;
}

Configuration default_of_tile(const DefaultTile& tile, const Problem& problem,
                              const DeviceInfo& device) {
  const int split = default_split(tile, problem, device);
  const EpilogueSlot* scales = scales_of(problem);
  // Of scaled sums, the chain of the problem's order: that of another template may be longer than a
  // tile.
  std::int64_t chain = problem.order ? problem.order->promoted : 0;
  if (scales && chain == 0) chain = scales->steps;
  const int tile_k = scales ? static_cast<int>(std::min<std::int64_t>(chain, 128))
                            : 128 / bytes_of(problem.a.type);
  const bool rows = split == 1 && !tile.swap;  // stored by TMA, or as rows at any alignment
  const int written = split > 1 ? bytes_of(problem.accumulator) : bytes_of(problem.c.type);
  Configuration c{{"TILE_M", tile.m},
                  {"TILE_N", tile.n},
                  {"TILE_K", tile_k},
                  {"CONSUMERS", tile.consumers},
                  {"PING_PONG", 0},
                  {"CLUSTER_M", 1},
                  {"CLUSTER_N", 1},
                  {"STAGES", 8},
                  {"SWAP_AB", tile.swap},
                  {"PACK_A", static_cast<int>(wgmma::needed_pack_a(problem))},
                  {"PACK_B", static_cast<int>(wgmma::needed_pack_b(problem))},
                  {"EPILOGUE", rows ? 3 : 1},
                  {"VECTOR_C", rows ? 1 : std::min(8, 16 / written)},
                  {"BLOCKS_PER_SM", 1},
                  {"SPLIT_K", split},
                  {"STREAM_K", 0},
                  {"PROMOTE", adds_parts(tile, problem, device) ? wgmma::kPromotesParts
                                                                : Wgmma::must_promote(problem)},
                  {"GROUP_M", 8}};
  if (rows && Wgmma(problem, c).rows_by_tma(problem)) c.set("EPILOGUE", 2);
  for (int stages = 8;
       Wgmma(problem, c).shared_bytes() > static_cast<std::uint32_t>(device.shared_per_block);)
    c.set("STAGES", --stages);
  return c;
}

/// None with stream-K, or where a block is to add parts that its tiles of k do not make up.
std::optional<SumOrder> order_of(const Problem& problem, const Configuration& c,
                                 const DeviceInfo&) {
  using Arithmetic = SumOrder::Arithmetic;
  const Wgmma s(problem, c);
  if (s.stream_k) return std::nullopt;
  SumOrder order = chain_of(problem);
  if (order.arithmetic != Arithmetic::exact) {
    order.arithmetic = s.element == 1            ? Arithmetic::fp8_by_wgmma
                       : s.parts_of_element == 1 ? Arithmetic::tensor
                       : s.swap                  ? Arithmetic::f32x3_swapped
                                                 : Arithmetic::f32x3_by_wgmma;
    order.together = wgmma::kStepBytes / s.element;
    order.promoted = s.promote && !s.adds_parts() ? s.tile_k : 0;
  }
  if (s.adds_parts()) {
    if (!problem.order || problem.order->part % s.tile_k != 0 || problem.order->part >= problem.k ||
        s.split > 1)
      return std::nullopt;
    order.part = problem.order->part;
    return order;
  }
  return in_parts(order, problem, s.tile_k, s.split);
}

/// The tile with the fewest cycles whose sums fit the registers, of those in the problem's order
/// where there are any.
Configuration default_configuration(const Problem& problem, const DeviceInfo& device) {
  Configuration best;
  double cycles = std::numeric_limits<double>::infinity();
  bool best_in_order = false;
  const auto tiles = has_narrow_b(problem) ? std::span<const DefaultTile>(kNarrowTiles)
                                           : std::span<const DefaultTile>(kDefaultTiles);
  for (const DefaultTile& tile : tiles) {
    const double of_tile = default_cycles(tile, problem, device);
    Configuration made = default_of_tile(tile, problem, device);
    const bool in_order =
        problem.order != nullptr && order_of(problem, made, device) == *problem.order;
    if (in_order == best_in_order ? !(of_tile < cycles) : best_in_order) continue;
    if (!Wgmma(problem, made).registers_fit()) continue;
    best = std::move(made);
    cycles = of_tile;
    best_in_order = in_order;
  }
  return best;
}

}  // namespace

KernelTemplate wgmma_template() {
  KernelTemplate t;
  t.name = "wgmma";
  t.summary = "Hopper's tensor cores, fed by TMA, warp-specialised";
  t.parameters = wgmma::parameters();
  t.constraints = wgmma::constraints();
  t.revision = 6;
  t.sum_order = order_of;
  t.sum_order_reads = {"TILE_K", "SPLIT_K", "STREAM_K", "PROMOTE", "SWAP_AB"};
  t.supports = supports;
  t.grouped = true;
  t.scales = true;
  t.plan = plan;
  t.pipeline_use = [](const Problem& problem, const Configuration& c) {
    const Wgmma s(problem, c);
    const double steps = tile_steps(problem, s.tile_m, s.tile_n, s.tile_k);
    // Blocks are persistent: some hundreds share the tiles of the whole product.
    constexpr double kBlocks = 300;
    return PipelineUse{steps * (s.readers() * 4), steps / kBlocks, s.stages};
  };
  t.tensor_cores = true;
  t.tile_levels = [](const Problem& problem, const Configuration& c) {
    const Wgmma s(problem, c);
    TileLevel group{"warpgroup", s.tile_m, s.tile_n, "four warps multiply it together"};
    if (s.ping_pong)
      group.note = "warpgroups take tiles in turn";
    else
      (s.swap ? group.n : group.m) /= s.consumers;
    return std::vector<TileLevel>{{"block", s.tile_m, s.tile_n}, group};
  };
  t.of_size = {"SPLIT_K"};
  t.default_configuration = default_configuration;
  // Behind `narrow` where there are few rows.
  t.default_rank = [](const Problem& problem) {
    return has_narrow_b(problem) && most_rows(problem) <= 16 ? 15 : 5;
  };
  return t;
}

}  // namespace tilewise
