#include <algorithm>

#include "templates/families/families.hpp"
#include "templates/families/wgmma/numbers.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

using wgmma::Wgmma;

bool supports(const Problem& problem, const DeviceInfo& device) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  const auto size = [](std::int64_t x, std::int64_t least) { return x >= least && x < limit; };
  return product_kind(problem) && (problem.a == DType::f16 || problem.a == DType::bf16) &&
         has(device.features, Feature::wgmma) && size(problem.batch, 1) && size(problem.m, 0) &&
         size(problem.n, 0) && size(problem.k, 0);
}

// wgmma's multiply-adds per clock of a multiprocessor, as a multiple of f32's on the ordinary
// units.
constexpr double kRate = 16;
// Issue slots of a warp: of a step of 16 k, of a stage's waits.
constexpr double kStepSlots = 2;
constexpr double kStageSlots = 20;
// Of a store of C by each EPILOGUE, and of a sum that passes through shared memory, relative to
// those of other families. The best of a few sets tried on 4,400 records of 28 searches in bf16 on
// an H200, which had no candidate that stores rows: kRowStore is a guess.
constexpr double kStore = 1.7, kStagedStore = 2.5, kTmaStore = 0.5, kRowStore = 0.7, kShifted = 3.2;
constexpr double kStagedSum = 1.5, kLaidDownSum = 0.3;

ThreadWork thread_work(const Wgmma& s, const Problem& problem) {
  ThreadWork thread;
  const double steps = s.tile_k / 16.0;
  // Of the block's threads those that multiply a tile.
  const double share = s.readers() * 128.0 / s.threads();
  const double sums = share * s.row_blocks() * s.width() / 2;
  // The instruction reads both operands from shared memory.
  thread.shared_loads = 1;
  thread.load_passes = share * s.row_blocks() * (64 + s.width()) * 32.0 / 4 / 128;
  thread.fetched_a = 1.0 / s.cluster_n;
  thread.fetched_b = 1.0 / s.cluster_m;
  constexpr double kStores[] = {kStore, kStagedStore, kTmaStore, kRowStore};
  const double stores[] = {sums / s.vector_c, sums / s.vector_c, sums * s.result / 16,
                           sums * s.result / 4};
  thread.result_stores = stores[s.epilogue] * kStores[s.epilogue];
  if (s.epilogue == 1 && s.shift_c(problem)) thread.result_stores *= kShifted;
  thread.exchanged = s.epilogue == 0 ? 0 : sums * (s.epilogue == 1 ? kStagedSum : kLaidDownSum);
  thread.steps = steps;
  thread.pass_instructions = share * (kStepSlots + kStageSlots / steps);
  thread.ahead = s.stages - 1.5;
  thread.multiply_add_rate = kRate;
  thread.registers = s.register_layout().at_launch();
  thread.resident_blocks = s.blocks;
  thread.working = share;
  return thread;
}

TileMap tiles_by_tma(TileMap::Of of, const wgmma::TileLayout& tile) {
  return {of, tile.width() / 2, tile.box_rows(), tile.width()};
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Wgmma s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("wgmma.cu", "wgmma", c, {"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"});
  shape.kernel.defines.emplace("STREAM_K", 0);  // configurations of earlier versions lack it
  shape.kernel.defines.emplace(kNoSpills, 1);
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.kernel.defines.emplace("SHIFT_C", s.shift_c(problem));
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes(s.shift_c(problem));
  shape.cluster.x = static_cast<std::uint32_t>(s.cluster());
  shape.splits = s.split;
  // GROUP_M counts rows of clusters.
  const std::int64_t rows = std::int64_t{s.tile_m} * s.cluster_m;
  const std::int64_t columns = std::int64_t{s.tile_n} * s.cluster_n;
  const int group_m = static_cast<int>(group_m_of(problem, rows, s.group_m));
  shape.group_m = group_m;
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  shape.maps = {tiles_by_tma(TileMap::Of::a, s.a), tiles_by_tma(TileMap::Of::b, s.b)};
  if (s.epilogue == 2)
    shape.maps.push_back({TileMap::Of::c, s.stored().columns, s.stored().rows, s.stored().width()});
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, problem);
  MultiplyPlan made(problem, std::move(shape));
  if (problem.batch > 1) made.add_argument({Argument::Kind::integer32, problem.batch});
  const std::int64_t items =
      ceil_div(problem.m, rows) * ceil_div(problem.n, columns) * s.split * problem.batch;
  if (s.stream_k) {
    const StreamK stream_k = s.stream_k_of(problem, device);
    made.set_blocks(
        std::max(stream_k.blocks(), std::min(stream_k.whole_tiles, s.resident(device))) *
        s.cluster());
    add_stream_k(made, problem, stream_k, group_m);
  } else {
    made.set_persistent(std::min(items, s.resident(device)) * s.cluster(), items * s.cluster());
  }
  return made.finish();
}

struct DefaultTile {
  int m, n, consumers;
  bool swap;
};
constexpr DefaultTile kDefaultTiles[] = {
    {256, 128, 2, false}, {128, 256, 2, false}, {128, 128, 2, false}, {128, 64, 2, false},
    {64, 128, 1, false},  {64, 64, 1, false},   {32, 64, 1, true},    {16, 64, 1, true}};

std::int64_t tiles_of(const DefaultTile& tile, const Problem& problem) {
  return ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * problem.batch;
}

/// Cycles for all steps of 16 k of a multiprocessor's tiles: of the instruction, or of the copies
/// from L2 (64 bytes a cycle).
double default_cycles(const DefaultTile& tile, const Problem& problem, const DeviceInfo& device) {
  const double multiply = tile.m / 64.0 * tile.n / 2, copies = (tile.m + tile.n) / 2.0;
  return double(ceil_div(tiles_of(tile, problem), device.multiprocessors)) *
         std::max(multiply, copies);
}

/// Parts of k, at least 512 deep, of as few tiles as leave multiprocessors without work.
int default_split(const DefaultTile& tile, const Problem& problem, const DeviceInfo& device) {
  const std::int64_t tiles = tiles_of(tile, problem);
  int split = 1;
  while (split < 64 && 2 * split * tiles <= device.multiprocessors &&
         problem.k / (2 * split) >= 512)
    split *= 2;
  return split;
}

/// The tile with the least work for a multiprocessor. Unaligned operands are packed.
Configuration default_configuration(const Problem& problem, const DeviceInfo& device) {
  const DefaultTile* tile = kDefaultTiles;
  for (const DefaultTile& other : kDefaultTiles)
    if (default_cycles(other, problem, device) < default_cycles(*tile, problem, device))
      tile = &other;
  const int split = default_split(*tile, problem, device);
  const bool rows = split == 1 && !tile->swap;  // stored by TMA, or as rows at any alignment
  Configuration c{{"TILE_M", tile->m},
                  {"TILE_N", tile->n},
                  {"TILE_K", 64},
                  {"CONSUMERS", tile->consumers},
                  {"PING_PONG", 0},
                  {"CLUSTER_M", 1},
                  {"CLUSTER_N", 1},
                  {"STAGES", 8},
                  {"SWAP_AB", tile->swap},
                  {"PACK_A", problem.alignment.a < 16},
                  {"PACK_B", problem.alignment.b < 16},
                  {"EPILOGUE", rows ? 3 : 1},
                  {"VECTOR_C", rows ? 1 : (split > 1 ? 4 : 16 / bytes_of(problem.c))},
                  {"BLOCKS_PER_SM", 1},
                  {"SPLIT_K", split},
                  {"STREAM_K", 0},
                  {"GROUP_M", 8}};
  if (rows && Wgmma(problem, c).rows_by_tma(problem)) c.set("EPILOGUE", 2);
  for (int stages = 8;
       Wgmma(problem, c).shared_bytes() > static_cast<std::uint32_t>(device.shared_per_block);)
    c.set("STAGES", --stages);
  return c;
}

}  // namespace

KernelTemplate wgmma_template() {
  KernelTemplate t;
  t.name = "wgmma";
  t.summary = "16-bit tensor cores of Hopper, fed by TMA, warp-specialised";
  t.parameters = wgmma::parameters();
  t.constraints = wgmma::constraints();
  t.supports = supports;
  t.plan = plan;
  t.default_configuration = default_configuration;
  t.default_rank = [](const Problem&) { return 5; };
  return t;
}

}  // namespace tilewise
