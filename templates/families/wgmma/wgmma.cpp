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
         has(device.features, Feature::wgmma) && problem.batch == 1 && size(problem.m, 0) &&
         size(problem.n, 0) && size(problem.k, 1);
}

// wgmma's multiply-adds per clock of a multiprocessor, as a multiple of f32's on the ordinary
// units.
constexpr double kRate = 16;
// Issue slots of a warp: of a step of 16 k, of a stage's waits, of a store.
constexpr double kStepSlots = 2;
constexpr double kStageSlots = 20;
constexpr double kStore = 1.7;
constexpr double kShiftedStore = 5.5;

ThreadWork thread_work(const Wgmma& s, const Problem& problem) {
  ThreadWork thread;
  const double steps = s.tile_k / 16.0;
  // The instruction reads both operands from shared memory.
  thread.shared_loads = 1;
  thread.load_passes = s.row_blocks() * (64 + s.width()) * 32.0 / 4 / 128;
  thread.fetched_a = 1.0 / s.cluster_n;
  thread.fetched_b = 1.0 / s.cluster_m;
  const int stored_together = s.epilogue == 2 ? 16 / s.result : s.vector_c;
  thread.result_stores = double(s.row_blocks()) * s.width() / 2 / stored_together *
                         (s.epilogue == 1 && s.shift_c(problem) ? kShiftedStore : kStore);
  thread.exchanged = s.epilogue ? double(s.row_blocks()) * s.width() / 2 : 0;
  thread.steps = steps;
  thread.pass_instructions = kStepSlots + kStageSlots / steps;
  thread.ahead = s.stages - 1.5;
  thread.multiply_add_rate = kRate;
  thread.registers = s.register_layout().at_launch();
  thread.resident_blocks = s.blocks;
  return thread;
}

TileMap tiles_by_tma(TileMap::Of of, const wgmma::TileLayout& tile) {
  return {of, tile.width() / 2, tile.box_rows(), tile.width()};
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Wgmma s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("wgmma.cu", "wgmma", c, {"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"});
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
  shape.group_m = static_cast<int>(group_m_of(problem, rows, s.group_m));
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  shape.maps = {tiles_by_tma(TileMap::Of::a, s.a), tiles_by_tma(TileMap::Of::b, s.b)};
  if (s.epilogue == 2)
    shape.maps.push_back(
        {TileMap::Of::c, s.stored().columns, wgmma::StoredLayout::kRows, s.stored().width()});
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, problem);
  MultiplyPlan made(problem, std::move(shape));
  const std::int64_t items = ceil_div(problem.m, rows) * ceil_div(problem.n, columns) * s.split;
  const std::int64_t resident =
      std::max<std::int64_t>(1, std::int64_t{device.multiprocessors} * s.blocks / s.cluster());
  made.set_blocks(std::min(items, resident) * s.cluster());
  return made.finish();
}

/// Both operands packed: valid for any alignment.
Configuration default_configuration(const Problem&, const DeviceInfo&) {
  return {{"TILE_M", 128},  {"TILE_N", 128},      {"TILE_K", 64},   {"CONSUMERS", 2},
          {"PING_PONG", 0}, {"CLUSTER_M", 1},     {"CLUSTER_N", 1}, {"STAGES", 4},
          {"SWAP_AB", 0},   {"PACK_A", 1},        {"PACK_B", 1},    {"EPILOGUE", 0},
          {"VECTOR_C", 1},  {"BLOCKS_PER_SM", 1}, {"SPLIT_K", 1},   {"GROUP_M", 8}};
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
  t.default_rank = [](const Problem&) { return 20; };
  return t;
}

}  // namespace tilewise
