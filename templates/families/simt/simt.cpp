#include <algorithm>
#include <cmath>

#include "templates/families/families.hpp"
#include "templates/families/simt/numbers.hpp"
#include "templates/plan/stream_k.hpp"

namespace tilewise {
namespace {

using simt::Simt;

/// The share of the peak rate of multiply-adds, as measured on an H200. Less where k is contiguous
/// in shared memory (registers fall into one bank), where FMA_ORDER is by rows (no operand is
/// reused), and where a thread has few sums (little to reorder).
double multiply_add_rate(const Simt& s, int order) {
  constexpr double of_operands_staged_k[] = {0, 0.06, 0.09};
  const double staged_k = of_operands_staged_k[s.a_staged_k() + s.b_staged_k()];
  const double by_rows = order == 0 ? 0.04 : 0;
  const double sums = double(s.thread_m) * s.thread_n;
  return 0.85 - staged_k - by_rows - 0.3 * std::max(0.0, 1 / std::sqrt(sums) - 0.125);
}

ThreadWork thread_work(const Simt& s, int order, const DeviceInfo& device) {
  const double threads = s.threads();
  const auto vectors = [&](int span, int vector) { return span * s.tile_k / vector / threads; };
  const auto loads = [&](int span, int vector, bool tma) {
    return tma ? 0.0 : vectors(span, vector);
  };
  const auto stores = [&](int span, int vector, bool transpose, bool by_registers) {
    // cp.async and TMA store by themselves.
    if (s.prefetch >= 3 && !by_registers) return 0.0;
    return vectors(span, vector) * (transpose ? vector : 1);
  };
  ThreadWork thread;
  thread.shared_loads = s.reads(s.thread_m, s.a_staged_k()) + s.reads(s.thread_n, s.b_staged_k());
  thread.global_loads =
      loads(s.tile_m, s.vector_a, s.a_by_tma()) + loads(s.tile_n, s.vector_b, s.b_by_tma());
  thread.shared_stores = stores(s.tile_m, s.vector_a, s.transpose_a, s.a_staged()) +
                         stores(s.tile_n, s.vector_b, s.transpose_b, s.b_staged());
  thread.result_stores = double(s.thread_m) * s.thread_n / s.vector_c / s.slice_k;
  thread.exchanged = s.slice_k > 1 ? double(s.thread_m) * s.thread_n : 0;
  thread.steps = s.group_depth();
  thread.unrolled = s.unroll;
  // A pass multiplies nothing until its first fragments are read. Measured on an H200.
  thread.pass_instructions = 50;
  // With TMA, a warp that is a tile behind holds up the thread that issues the copies.
  thread.ahead =
      s.by_tma() ? s.stages() - 2 : (s.prefetch >= 3 ? s.stages() - 1 : (s.prefetch > 0 ? 1 : 0));
  thread.multiply_add_rate = multiply_add_rate(s, order);
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

TileMap tiles_by_tma(TileMap::Of of, const simt::TileLayout& tile) {
  if (!tile.swizzled()) return {of, tile.span, tile.depth};
  return {of, tile.panel(), tile.span, 4 * tile.panel()};
}

Plan make_plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Simt s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("simt.cu", "simt", c, {"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"});
  const int parts = s.parts(problem, device);
  if (s.specialize_size)
    specialize_size(shape.kernel, problem, parts, group_m_of(problem.m, s.tile_m, s.group_m));
  shape.kernel.defines.emplace("SPLIT", parts > 1);
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = parts;
  shape.group_m = s.group_m;
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  if (s.a_by_tma()) shape.maps.push_back(tiles_by_tma(TileMap::Of::a, s.layout_a()));
  if (s.b_by_tma()) shape.maps.push_back(tiles_by_tma(TileMap::Of::b, s.layout_b()));
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, c.at("FMA_ORDER"), device);
  MultiplyPlan plan(problem, shape);
  if (s.stream_k) {
    const StreamK stream_k = stream_k_of(problem, s.tile_m, s.tile_n, s.tile_k, s.slots(device));
    plan.set_blocks(stream_k.whole_tiles + stream_k.blocks());
    add_stream_k(plan, problem, stream_k, s.group_m);
  }
  Plan made = plan.finish();
  spread_blocks(made, device);
  return made;
}

/// Tiles staged so that fragments are read as vectors, and element-wise access of memory: valid for
/// any alignment.
Configuration default_configuration(const Problem& problem, const DeviceInfo&) {
  return {{"TILE_M", 64},
          {"TILE_N", 64},
          {"TILE_K", 16},
          {"THREAD_M", 8},
          {"THREAD_N", 4},
          {"WARP_M", 4},
          {"SLICE_K", 1},
          {"UNROLL", 16},
          {"FRAGMENT_K", 1},
          {"FRAGMENTS", 1},
          {"TRANSPOSE_A", problem.a.transposed ? 0 : 1},
          {"TRANSPOSE_B", problem.b.transposed ? 1 : 0},
          {"PACK_A", 0},
          {"PACK_B", 0},
          {"PREFETCH", 2},
          {"VECTOR_A", 1},
          {"VECTOR_B", 1},
          {"VECTOR_C", 1},
          {"BLOCKS_PER_SM", 2},
          {"SPLIT_K", 1},
          {"STREAM_K", 0},
          {"GROUP_M", 8},
          {"FMA_ORDER", 1},
          {"SPECIALIZE_SIZE", 0},
          {std::string(kMaxRegisters), 0}};
}

}  // namespace

KernelTemplate simt_template() {
  KernelTemplate t;
  t.name = "simt";
  t.summary = "register tile a thread, outer product, on the ordinary units";
  t.revision = 6;
  t.parameters = simt::parameters();
  t.constraints = simt::constraints();
  t.supports = supports_strict_f32;
  t.grouped = true;
  t.sum_order = [](const Problem& problem, const Configuration& c, const DeviceInfo&) {
    const Simt s(problem, c);
    if (s.stream_k || s.split == 0) return std::optional<SumOrder>();
    return std::optional(
        in_parts(in_slices(chain_of(problem), s.tile_k, s.slice_k), problem, s.tile_k, s.split));
  };
  t.sum_order_reads = {"TILE_K", "SLICE_K", "SPLIT_K", "STREAM_K"};
  t.plan = make_plan;
  t.pipeline_use = [](const Problem& problem, const Configuration& c) {
    const Simt s(problem, c);
    if (!s.by_tma()) return PipelineUse{};
    return PipelineUse{tile_steps(problem, s.tile_m, s.tile_n, s.tile_k) * (s.threads() / 32),
                       double(problem.k) / (double(s.tile_k) * std::max(1, s.split)), s.stages()};
  };
  t.tile_levels = [](const Problem& problem, const Configuration& c) {
    const Simt s(problem, c);
    return std::vector<TileLevel>{
        {"block", s.tile_m, s.tile_n},
        {"warp", s.thread_m * s.warp_m, s.thread_n * (32 / s.warp_m), shared_depth_note(s.slice_k)},
        {"thread", s.thread_m, s.thread_n,
         "its rows and columns may be interleaved with those of its neighbours"}};
  };
  t.specialises = "SPECIALIZE_SIZE";
  t.of_size = {"SPLIT_K"};
  t.default_configuration = default_configuration;
  t.default_rank = [](const Problem&) { return 20; };
  return t;
}

}  // namespace tilewise
