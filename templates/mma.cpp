#include <array>

#include "templates/descriptors.hpp"
#include "templates/mma_numbers.hpp"

namespace tilewise {
namespace {

using mma::Mma;

bool supports(const Problem& problem, const DeviceInfo& device) {
  if (!product_kind(problem) || problem.batch < 1 || problem.m < 0 || problem.n < 0 ||
      problem.k < 0)
    return false;
  const auto it_has = [&](Feature feature) { return has(device.features, feature); };
  switch (problem.a) {
    case DType::f32:
      return problem.math != MathMode::strict && it_has(Feature::mma_tf32);
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
      return false;
  }
  return false;
}

/// Multiply-adds of mma.sync in a multiprocessor's clock, as a multiple of those of f32 on the
/// ordinary units. By NVIDIA's architecture whitepapers; on 9.0 mma.sync reaches about 0.62 of what
/// wgmma does, and fp8 is converted to f16 first.
double tensor_rate(const Problem& problem, const Target& target) {
  // 16 bits, tf32, i8, fp8, f64
  struct Row {
    int capability;
    std::array<double, 5> rates;
  };
  static constexpr Row rows[] = {{75, {8, 0, 16, 0, 0}},   {80, {16, 8, 32, 0, 1}},
                                 {86, {4, 2, 8, 0, 0.03}}, {89, {4, 2, 8, 8, 0.03}},
                                 {90, {10, 5, 20, 4, 1}},  {100, {10, 5, 20, 10, 0.5}},
                                 {120, {4, 2, 8, 8, 0.03}}};
  const int capability = target.major * 10 + target.minor;
  const Row* row = &rows[0];
  for (const Row& r : rows)
    if (r.capability <= capability) row = &r;
  switch (problem.a) {
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

ThreadWork thread_work(const Mma& s, const Problem& problem, const DeviceInfo& device) {
  constexpr double matrix_passes = 4;  // through shared memory, of ldmatrix and of 16-byte reads
  ThreadWork thread;
  thread.shared_loads = matrix_passes * (s.a.reads(s.warp_m) + s.b.reads(s.warp_n));
  const int threads = s.threads();
  const auto copies = [&](const mma::Tile& tile) {
    const double pieces = double(tile.rows()) * tile.pieces_across() / threads;
    return pieces * (tile.bytes >= 4 ? 16.0 / tile.bytes : 5);
  };
  thread.global_loads = s.tma ? 0 : copies(s.a) + copies(s.b);
  thread.shared_stores =
      (s.a_async(device) ? 0 : s.a.pieces(threads)) + (s.b_async(device) ? 0 : s.b.pieces(threads));
  thread.result_stores = double(s.warp_m) * s.warp_n / 32 / s.vector_c;
  thread.exchanged = s.slice_k > 1 || s.epilogue ? double(s.warp_m) * s.warp_n / 32 : 0;
  thread.steps = s.steps();
  thread.unrolled = s.steps();
  thread.pass_instructions = 60;
  thread.ahead = s.stages - 1;
  thread.multiply_add_rate = tensor_rate(problem, device.target);
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Mma s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("mma.cu", "mma", c, {"PACK_A", "PACK_B", "SPLIT_K", "RASTER"});
  if (s.bake) bake_sizes(shape.kernel, problem, s.split, raster_of(problem, s.tile_m, s.raster));
  shape.kernel.defines.emplace_back("MATH", static_cast<int>(problem.math));
  shape.kernel.defines.emplace_back("A_ASYNC", s.a_async(device));
  shape.kernel.defines.emplace_back("B_ASYNC", s.b_async(device));
  shape.kernel.defines.emplace_back("SPLIT", s.split > 1);
  shape.kernel.defines.emplace_back("SHIFT_C", s.shift_c(problem));
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = s.split;
  shape.raster = s.raster;
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  shape.map_a = shape.map_b = shape.map_panels = s.tma;
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, problem, device);
  Plan made = multiply_plan(problem, std::move(shape));
  spread_blocks(made, device);
  return made;
}

/// 64 x 64 in warps of 32 x 32, elements one by one: right for any alignment.
Configuration default_configuration(const Problem& problem, const DeviceInfo&) {
  const int element = bytes_of(problem.a);
  const bool promotes = problem.math == MathMode::f32x3 || is_fp8(problem.a);
  // A row of 128 bytes, whichever way an operand lies.
  const int span = element == 1 ? 128 : 64;
  return {{"TILE_M", span},
          {"TILE_N", span},
          {"TILE_K", element == 8 ? 16 : 128 / element},
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
          {"RASTER", 8},
          {"BAKE", 0}};
}

}  // namespace

KernelTemplate mma_template() {
  KernelTemplate t;
  t.name = "mma";
  t.revision = 2;
  t.summary = "tensor cores by warp-wide instructions, every type they have";
  t.parameters = mma::parameters();
  t.constraints = mma::constraints();
  t.supports = supports;
  t.plan = plan;
  t.default_configuration = default_configuration;
  return t;
}

}  // namespace tilewise
