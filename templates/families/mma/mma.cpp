#include <algorithm>
#include <array>

#include "templates/families/families.hpp"
#include "templates/families/mma/numbers.hpp"
#include "templates/plan/pack_plan.hpp"

namespace tilewise {
double mma::tensor_rate(const Problem& problem, const Target& target) {
  // 16 bits, tf32, i8, fp8, f64
  struct Row {
    int capability;
    std::array<double, 5> rates;
  };
  static constexpr Row rows[] = {
      {75, {8, 0, 16, 0, 0}},   {80, {16, 8, 32, 0, 1}},           {86, {4, 2, 8, 0, 0.03}},
      {89, {4, 2, 8, 8, 0.03}}, {90, {9.4, 4.7, 18.8, 9.4, 0.97}}, {100, {10, 5, 20, 10, 0.5}},
      {120, {4, 2, 8, 8, 0.03}}};
  const int capability = target.major * 10 + target.minor;
  const Row* row = &rows[0];
  for (const Row& r : rows)
    if (r.capability <= capability) row = &r;
  switch (problem.a.type) {
    case DType::f32:
      return row->rates[1] / (problem.math == MathMode::f32x3 ? 3 : 1);
    case DType::f64:
      return row->rates[4];
    case DType::i8:
      return row->rates[2];
    case DType::e4m3:
    case DType::e5m2:
      return row->rates[3];
    default:
      return row->rates[0];
  }
}

namespace {

using mma::Mma;

bool supports(const Problem& problem, const DeviceInfo& device) {
  if (!has_one_operand_type(problem)) return false;
  const auto it_has = [&](Feature feature) { return has(device.features, feature); };
  switch (problem.a.type) {
    case DType::f32:
      return (problem.math == MathMode::tf32 || problem.math == MathMode::f32x3) &&
             it_has(Feature::mma_tf32);
    case DType::f64:
      return it_has(Feature::mma_f64);
    case DType::f16:
      return it_has(Feature::mma_f16);
    case DType::bf16:
      return it_has(Feature::mma_bf16);
    case DType::i8:
      return it_has(Feature::mma_i8);
    case DType::e4m3:
    case DType::e5m2:
      return it_has(Feature::mma_fp8);
    case DType::i32:
    case DType::i4:
      return false;
  }
  return false;
}

// Issue slots of a warp, unless another unit is stated. Fitted to times of an H200, except those
// marked as counted: docs/cost-model.md.
constexpr double kStepSlots = 3;         // of a step of k, beside what follows
constexpr double kRoundedWord = 2.3;     // f32 -> tf32
constexpr double kSplitWord = 4;         // f32 -> two tf32
constexpr double kTransposedWord = 2;    // a word of transposed bytes, k not contiguous (counted)
constexpr double kWidenedWord = 4;       // fp8 -> two words of f16, at half the rate (counted)
constexpr double kRealignedChunk = 15;   // 16 bytes of rows that are not aligned to 4 (counted)
constexpr double kStore = 1.7;           // of C, in stores of simt: sums are converted
constexpr double kShiftedStore = 5.5;    // where rows of C are not aligned to it
constexpr double kWaits = 3;             // waits for shared memory in a step, where FRAGMENTS is 1
constexpr double kTmaWaits = 20;         // waits for a stage's full and empty barriers, a tile
constexpr double kFetchedTogether = 64;  // bytes: the least that L2 delivers of a line

/// Issue slots of a step of k beside the reads and the instructions that multiply.
double step_slots(const Mma& s, const DeviceInfo& device) {
  const double words_a = s.warp_m / 16 * 4, words_b = s.warp_n / 8 * 2, words = words_a + words_b;
  double slots = kStepSlots;
  if (s.math == MathMode::tf32)
    slots +=
        kRoundedWord * (words_a * (s.pack_a == Pack::none) + words_b * (s.pack_b == Pack::none));
  if (s.math == MathMode::f32x3) slots += kSplitWord * words;
  if (s.multiplies_as_f16(device)) slots += kWidenedWord * words;
  if (s.promote > 0) slots += double(s.warp_m) * s.warp_n / 32 / s.promote;
  const auto turned = [&](const mma::Tile& tile, int across) {
    return tile.by_matrix() || tile.element > 1 ? 0 : kTransposedWord * tile.reads(across);
  };
  return slots + turned(s.a, s.warp_m) + turned(s.b, s.warp_n);
}

/// Bytes that L2 delivers for each byte of a tile: more than 1 where rows are short.
double fetched(const mma::Tile& tile) { return std::max(1.0, kFetchedTogether / tile.row_bytes()); }

ThreadWork thread_work(const Mma& s, const Problem& problem, const DeviceInfo& device) {
  ThreadWork thread;
  // A step's fragments are read once, by however many instructions.
  thread.shared_loads = s.a.reads(s.warp_m) + s.b.reads(s.warp_n);
  thread.load_passes =
      double(s.warp_m + s.warp_n) * s.step() * s.element / 128 / thread.shared_loads;
  double shifted = 0;
  const auto copies = [&](const mma::Tile& tile) {
    if (s.tma) return;
    const double pieces = double(tile.rows()) * tile.chunks_across() / s.threads();
    const double copied = tile.shifts() ? 1 + 1.0 / tile.chunks_across() : 16.0 / tile.bytes;
    thread.global_loads += pieces * copied;
    thread.shared_stores += pieces * (tile.shifts() ? 3 : 1);  // cp.async's; read and stored again
    if (tile.shifts()) shifted += pieces;
  };
  copies(s.a);
  copies(s.b);
  thread.copy_passes = 4;  // lanes are 16 bytes apart
  thread.fetched_a = fetched(s.a);
  thread.fetched_b = fetched(s.b);
  thread.result_stores = double(s.warp_m) * s.warp_n / 32 / s.vector_c *
                         (s.epilogue && s.shift_c(problem) ? kShiftedStore : kStore);
  thread.exchanged = s.slice_k > 1 || s.epilogue ? double(s.warp_m) * s.warp_n / 32 : 0;
  thread.steps = s.steps();
  thread.waits = (s.fragments == 1 ? kWaits : 0) + (s.tma ? kTmaWaits / s.steps() : 0);
  thread.pass_instructions = step_slots(s, device) + kRealignedChunk * shifted / s.steps();
  // Copies through registers are loaded and stored in one round.
  thread.ahead = s.async(device) ? s.stages - (s.tma ? 1.5 : 1) : 1;
  thread.multiply_add_rate = mma::tensor_rate(problem, device.target);
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

/// Panels of at most 128 bytes, swizzled at their width; row classes have whole rows.
TileMap tiles_by_tma(TileMap::Of of, const mma::Tile& tile) {
  const int columns = tile.row_bytes() / tile.element;
  if (tile.row_classes() > 1) return {of, columns, tile.rows(), 0, tile.row_classes()};
  const int panel = std::min(columns, 128 / tile.element);
  return {of, panel, tile.rows(), panel * tile.element};
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Mma s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("mma.cu", "mma", c, {"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"});
  if (s.specialize_size)
    specialize_size(shape.kernel, problem, s.split, group_m_of(problem.m, s.tile_m, s.group_m));
  // fast is the arithmetic of strict, and allows PROMOTE 0; emulated may be.
  const bool as_strict = problem.math == MathMode::fast || problem.math == MathMode::emulated;
  const MathMode math = as_strict ? MathMode::strict : problem.math;
  shape.kernel.defines.emplace("MATH", static_cast<int>(math));
  if (packs_round(problem)) {
    shape.kernel.defines.emplace("ROUNDED_A", s.pack_a != Pack::none);
    shape.kernel.defines.emplace("ROUNDED_B", s.pack_b != Pack::none);
  }
  shape.kernel.defines.emplace("A_ASYNC", s.async(device));
  shape.kernel.defines.emplace("B_ASYNC", s.async(device));
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.kernel.defines.emplace("SHIFT_C", s.shift_c(problem));
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = s.split;
  shape.group_m = s.group_m;
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  if (s.tma) shape.maps = {tiles_by_tma(TileMap::Of::a, s.a), tiles_by_tma(TileMap::Of::b, s.b)};
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, problem, device);
  Plan made = multiply_plan(problem, std::move(shape));
  spread_blocks(made, device);
  return made;
}

/// Small tiles (64 x 64; 128 x 128 of 1-byte elements), copied element by element: valid for any
/// alignment.
Configuration default_configuration(const Problem& problem, const DeviceInfo&) {
  const int element = bytes_of(problem.a.type);
  const bool promotes = problem.math == MathMode::f32x3 || is_fp8(problem.a.type);
  // A tile's row has 128 bytes, whether k is contiguous or not.
  const int span = element == 1 ? 128 : 64;
  return {{"TILE_M", span},
          {"TILE_N", span},
          {"TILE_K", std::min(64, 128 / element)},
          {"WARP_M", span / 2},
          {"WARP_N", element == 8 ? 16 : 32},
          {"SLICE_K", 1},
          {"STAGES", 2},
          {"TMA", 0},
          {"FRAGMENTS", 1},
          {"PROMOTE", promotes ? 1 : 0},
          {"BYTES_A", element},
          {"BYTES_B", element},
          {"PACK_A", 0},
          {"PACK_B", 0},
          {"EPILOGUE", 0},
          {"VECTOR_C", 1},
          {"BLOCKS_PER_SM", 1},
          {"SPLIT_K", 1},
          {"GROUP_M", 8},
          {"SPECIALIZE_SIZE", 0},
          {"SKIP_EDGE_WARPS", 0}};
}

}  // namespace

KernelTemplate mma_template() {
  KernelTemplate t;
  t.name = "mma";
  t.revision = 6;
  t.summary = "tensor cores by warp-wide instructions, every type they have";
  t.parameters = mma::parameters();
  t.constraints = mma::constraints();
  t.supports = supports;
  t.grouped = true;
  t.sum_order = [](const Problem& problem, const Configuration& c, const DeviceInfo& device) {
    using Arithmetic = SumOrder::Arithmetic;
    const Mma s(problem, c);
    SumOrder order = chain_of(problem);
    if (s.element < 8 && !s.integers) {
      order.arithmetic = s.fp8                       ? Arithmetic::fp8_by_mma
                         : s.math == MathMode::f32x3 ? Arithmetic::f32x3_by_mma
                                                     : Arithmetic::tensor;
      // The instruction of capability 7.5 for f16 is half as deep; so is f16's beside that of fp8.
      order.together = device.target.major < 8 ? 8 : s.multiplies_as_f16(device) ? 16 : s.step();
      order.promoted = s.promote * s.step();
    }
    return std::optional(
        in_parts(in_slices(order, s.tile_k, s.slice_k), problem, s.tile_k, s.split));
  };
  t.sum_order_reads = {"TILE_K", "SLICE_K", "SPLIT_K", "PROMOTE"};
  t.plan = plan;
  t.pipeline_use = [](const Problem& problem, const Configuration& c) {
    const Mma s(problem, c);
    if (!s.by_tma()) return PipelineUse{};
    return PipelineUse{tile_steps(problem, s.tile_m, s.tile_n, s.tile_k) * (s.threads() / 32),
                       double(problem.k) / (double(s.tile_k) * std::max(1, s.split)), s.stages};
  };
  t.tensor_cores = true;
  t.tile_levels = [](const Problem& problem, const Configuration& c) {
    const Mma s(problem, c);
    return std::vector<TileLevel>{{"block", s.tile_m, s.tile_n},
                                  {"warp", s.warp_m, s.warp_n, shared_depth_note(s.slice_k)}};
  };
  t.specialises = "SPECIALIZE_SIZE";
  t.of_size = {"SPLIT_K"};
  t.default_configuration = default_configuration;
  t.default_rank = [](const Problem&) { return 10; };
  return t;
}

}  // namespace tilewise
