#include <algorithm>

#include "templates/families/families.hpp"
#include "templates/families/mma/numbers.hpp"
#include "templates/families/narrow/layout.hpp"
#include "templates/families/narrow/numbers.hpp"
#include "templates/space/common_constraints.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

using narrow::BlockLayout;

/// The configuration as plain numbers, and what follows from them.
struct Narrow {
  int tile_m, blocks_n, warps_n, warps_k, tile_k, stages, bytes_a, bytes_b, vector_c, blocks, split;
  int bits, result, sum;                 ///< of B; bytes of C and of the accumulator
  int scale_bytes = 0, scale_steps = 1;  ///< of scales of blocks of k; 0 bytes: none
  int zero_bytes = 0;                    ///< of zero points
  int tile_n;

  Narrow(const Problem& p, const Configuration& c)
      : tile_m(value_or_1(c, "TILE_M")),
        blocks_n(value_or_1(c, "BLOCKS")),
        warps_n(value_or_1(c, "WARPS_N")),
        warps_k(value_or_1(c, "WARPS_K")),
        tile_k(value_or_1(c, "TILE_K")),
        stages(value_or_1(c, "STAGES")),
        bytes_a(value_or_1(c, "BYTES_A")),
        bytes_b(value_or_1(c, "BYTES_B")),
        vector_c(value_or_1(c, "VECTOR_C")),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        split(value_or_1(c, "SPLIT_K")),
        bits(bits_of(p.b.type)),
        result(bytes_of(p.c.type)),
        sum(bytes_of(p.accumulator)),
        tile_n(16 * blocks_n * warps_n) {
    if (const EpilogueSlot* scales = scales_of(p)) {
      scale_bytes = bytes_of(type_of(*scales, p.c.type));
      scale_steps = static_cast<int>(scales->steps);
    }
    if (zero_points_of(p)) zero_bytes = 1;
  }

  BlockLayout layout() const {
    return {tile_m, tile_n, tile_k,      warps_n,     warps_k,
            stages, bits,   scale_bytes, scale_steps, zero_bytes};
  }
  int threads() const { return layout().threads(); }
  int parts(const Problem&, const DeviceInfo&) const { return split; }
  std::uint32_t shared_bytes() const { return static_cast<std::uint32_t>(layout().shared_bytes()); }
  int slice() const { return tile_k / warps_k; }
  /// Copies of a thread, a tile.
  int copies() const {
    return ceil_div(tile_m * layout().row_bytes_a() / bytes_a, threads()) +
           ceil_div(tile_n * layout().row_bytes_b() / bytes_b, threads());
  }
  /// Sums, fragments of a unit, addresses.
  int registers(const DeviceInfo&) const {
    const int sums = blocks_n * tile_m / 8 * 4;
    const int of_scales = (scale_bytes > 0 ? sums : 0) + (zero_bytes > 0 ? 2 * blocks_n : 0);
    return sums + of_scales + tile_m / 8 * 4 + blocks_n * (8 + bits / 2) + 40;
  }
};

constexpr int kMostCopies = 64;  // of a thread, a tile

using In = ConstraintInput;
using Common = CommonConstraints<Narrow>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;

std::vector<Parameter> parameters() {
  return {
      {"TILE_M", {8, 16, 32, 64, 128}, "rows of C a block computes"},
      {"BLOCKS", {1, 2, 4}, "times 16: columns of C a warp computes"},
      {"WARPS_N", {1, 2, 4, 8}, "warps of a block along n"},
      {"WARPS_K", {1, 2, 4, 8}, "warps of a block that share the k of a tile"},
      {"TILE_K", {64, 128, 256, 512, 1024}, "depth of the tiles in shared memory"},
      {"STAGES", {2, 3, 4, 6, 8}, "tiles in shared memory at a time"},
      {"BYTES_A", {4, 8, 16}, "bytes of A copied at a time"},
      {"BYTES_B", {4, 8, 16}, "bytes of B copied at a time"},
      {"VECTOR_C", {1, 2, 4}, "elements of C a store moves"},
      {"BLOCKS_PER_SM", {1, 2, 3, 4}, "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K", {1, 2, 3, 4, 6, 8, 12, 16, 32}, "blocks that share the k of a tile"},
  };
}

std::vector<Constraint> constraints() {
  return {
      Common::block_size({"WARPS_N", "WARPS_K"}),
      constraint(
          "whole_units", {"TILE_K", "WARPS_K"}, "TILE_K is a multiple of 32 x WARPS_K",
          [](const Narrow& s, const In&) { return s.tile_k % (s.warps_k * narrow::kUnit) == 0; }),
      constraint("few_copies",
                 {"TILE_M", "BLOCKS", "WARPS_N", "WARPS_K", "TILE_K", "BYTES_A", "BYTES_B"},
                 "a thread has at most 64 copies of a tile",
                 [](const Narrow& s, const In&) { return s.copies() <= kMostCopies; }),
      constraint("aligned_a", {"BYTES_A"}, "BYTES_A is no more than A's alignment",
                 [](const Narrow& s, const In& in) { return s.bytes_a <= in.problem.a.alignment; }),
      constraint("aligned_b", {"BYTES_B"}, "BYTES_B is no more than B's alignment",
                 [](const Narrow& s, const In& in) { return s.bytes_b <= in.problem.b.alignment; }),
      constraint("aligned_c", {"VECTOR_C", "SPLIT_K"},
                 "VECTOR_C elements are at most C's alignment (of partial sums: that of rows of n)",
                 [](const Narrow& s, const In& in) {
                   return s.vector_c * (s.split > 1 ? s.sum : s.result) <=
                          stored_alignment(in.problem, s.split);
                 }),
      Common::grid_fits({"TILE_M", "BLOCKS", "WARPS_N", "TILE_K", "SPLIT_K"}),
      Common::shared_fits(
          {"TILE_M", "BLOCKS", "WARPS_N", "WARPS_K", "TILE_K", "STAGES", "BLOCKS_PER_SM"},
          "the stages (or the sums, if larger) of BLOCKS_PER_SM blocks"),
      Common::threads_resident({"WARPS_N", "WARPS_K", "BLOCKS_PER_SM"}),
      Common::registers_fit({"TILE_M", "BLOCKS", "WARPS_N", "WARPS_K", "TILE_K", "BLOCKS_PER_SM"},
                            "sums and fragments"),
      hint("tile_m_used", {"TILE_M"}, "TILE_M is less than twice m, or the smallest",
           [](const Narrow& s, const In& in) {
             return s.tile_m == 8 || s.tile_m < 2 * most_rows(in.problem);
           }),
      hint("tile_n_used", {"BLOCKS", "WARPS_N"},
           "a block has less than twice n columns, or the fewest",
           [](const Narrow& s, const In& in) {
             return s.tile_n == 16 || s.tile_n < 2 * in.problem.n;
           }),
      hint("as_wide_as_aligned", {"BYTES_A", "BYTES_B"},
           "copies are as wide as the operand's alignment allows",
           [](const Narrow& s, const In& in) {
             return s.bytes_a == in.problem.a.alignment && s.bytes_b == in.problem.b.alignment;
           }),
      hint("warps_for_all", {"WARPS_N", "WARPS_K", "BLOCKS_PER_SM"},
           "a multiprocessor has at least 4 warps, a block at most 16",
           [](const Narrow& s, const In&) {
             return s.threads() * s.blocks >= 128 && s.threads() <= 512;
           }),
      Common::split_needed(8, {"TILE_M", "BLOCKS", "WARPS_N", "SPLIT_K"}),
      hint("split_has_work", {"TILE_K", "SPLIT_K"}, "each part of k has a tile",
           [](const Narrow& s, const In& in) {
             return in.problem.k >= std::int64_t{s.split} * s.tile_k || s.split == 1;
           }),
  };
}

/// k is contiguous in both operands, whose rows begin at words.
bool supports(const Problem& problem, const DeviceInfo& device) {
  return has_narrow_b(problem) && !problem.a.transposed && problem.b.transposed &&
         problem.a.alignment >= 4 && problem.b.alignment >= 4 &&
         problem.grouping != Grouping::depth && has(device.features, Feature::cp_async) &&
         has(device.features, problem.a.type == DType::bf16 ? Feature::mma_bf16 : Feature::mma_f16);
}

ThreadWork thread_work(const Narrow& s, const Problem& problem, const DeviceInfo& device) {
  ThreadWork thread;
  const double units = double(s.slice()) / narrow::kUnit;
  thread.steps = units;
  thread.shared_loads = s.tile_m / 8.0 + s.blocks_n * 2;
  thread.load_passes = (s.tile_m / 8.0 * 4 + s.blocks_n * 2 * s.bits / 4.0) / thread.shared_loads;
  thread.global_loads = s.copies();
  thread.result_stores = double(s.tile_m) * s.tile_n / s.threads() / s.vector_c;
  thread.exchanged = double(s.tile_m) * s.tile_n / 32 / s.warps_n;
  thread.pass_instructions = s.blocks_n * 2 * narrow::slots_of_eight(problem) + 4 +
                             (s.scale_bytes > 0 ? s.blocks_n * s.tile_m / 8.0 : 0);
  thread.ahead = s.stages - 1;
  thread.multiply_add_rate = mma::tensor_rate(problem, device.target);
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Narrow s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("narrow.cu", "narrow", c, {"SPLIT_K"});
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = s.split;
  shape.group_m = 16;  // blocks that read the same part of B run together
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, problem, device);
  return multiply_plan(problem, std::move(shape));
}

/// Tiles for up to 64 rows, with k in parts where there are few of them.
Configuration default_configuration(const Problem& problem, const DeviceInfo& device) {
  const std::int64_t rows = most_rows(problem);
  const int tile_m = rows <= 8 ? 8 : (rows <= 16 ? 16 : (rows <= 32 ? 32 : 64));
  const double tiles =
      expected_row_tiles(problem, tile_m) * double(ceil_div(problem.n, std::int64_t{64}));
  int split = 1;
  while (!is_grouped(problem) && split < 16 && 2 * tiles * split <= 2 * device.multiprocessors &&
         problem.k >= std::int64_t{512} * split)
    split *= 2;
  Configuration c{{"TILE_M", tile_m},
                  {"BLOCKS", 2},
                  {"WARPS_N", 2},
                  {"WARPS_K", 2},
                  {"TILE_K", 256},
                  {"STAGES", 3},
                  {"BYTES_A", std::min(16, problem.a.alignment)},
                  {"BYTES_B", std::min(16, problem.b.alignment)},
                  {"VECTOR_C", 1},
                  {"BLOCKS_PER_SM", 1},
                  {"SPLIT_K", split}};
  // Of less shared memory, and of more threads where copies are narrow.
  const auto fits = [&] {
    const Narrow made(problem, c);
    return blocks_fit(1, {.shared_bytes = made.shared_bytes()}, device) &&
           made.copies() <= kMostCopies;
  };
  if (!fits()) c.set("STAGES", 2);
  if (!fits()) c.set("TILE_K", 128);
  if (!fits()) c.set("TILE_M", std::min(tile_m, 32));
  return c;
}

}  // namespace

KernelTemplate narrow_template() {
  KernelTemplate t;
  t.name = "narrow";
  t.summary = "B of fewer bits than A (weights), on tensor cores";
  t.parameters = parameters();
  t.constraints = constraints();
  t.supports = supports;
  t.revision = 2;
  t.grouped = true;
  t.scales = true;
  t.plan = plan;
  t.tensor_cores = true;
  t.of_size = {"SPLIT_K"};
  t.default_configuration = default_configuration;
  t.default_rank = [](const Problem&) { return 10; };
  t.tile_levels = [](const Problem& problem, const Configuration& c) {
    const Narrow s(problem, c);
    return std::vector<TileLevel>{
        {"block", s.tile_m, s.tile_n},
        {"warp", s.tile_m, 16 * s.blocks_n, shared_depth_note(s.warps_k)}};
  };
  return t;
}

}  // namespace tilewise
