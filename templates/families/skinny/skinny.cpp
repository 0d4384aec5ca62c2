
#include "templates/families/families.hpp"
#include "templates/families/skinny/layout.hpp"
#include "templates/space/common_constraints.hpp"

namespace tilewise {
namespace {

using skinny::BlockLayout;

/// The configuration as plain numbers, and what follows from them.
struct Skinny {
  bool swap;  // SMALL_OPERAND 1: B is the small operand
  int rows, outputs, warps_n, warps_k, vector, vector_small, unroll, blocks, split;
  int element, sum;                   // bytes
  bool small_along_k, large_along_k;  // k is contiguous in memory
  int tile_m, tile_n, tile_k;

  Skinny(const Problem& problem, const Configuration& c)
      : swap(value_or_1(c, "SMALL_OPERAND") != 0),
        rows(value_or_1(c, "ROWS")),
        outputs(value_or_1(c, "OUTPUTS")),
        warps_n(value_or_1(c, "WARPS_N")),
        warps_k(value_or_1(c, "WARPS_K")),
        vector(value_or_1(c, "VECTOR")),
        vector_small(value_or_1(c, "VECTOR_SMALL")),
        unroll(value_or_1(c, "UNROLL")),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        split(value_or_1(c, "SPLIT_K")),
        element(bytes_of(problem.a.type)),
        sum(bytes_of(problem.accumulator)),
        small_along_k(swap ? problem.b.transposed : !problem.a.transposed),
        large_along_k(swap ? !problem.a.transposed : problem.b.transposed),
        tile_m(swap ? block_outputs() : rows),
        tile_n(swap ? rows : block_outputs()),
        tile_k(pass() * warps_k) {}

  BlockLayout layout() const {
    return {large_along_k, rows, outputs, warps_n, warps_k, vector, unroll, sum};
  }
  int threads() const { return layout().threads(); }
  int block_outputs() const { return layout().block_outputs(); }
  int pass() const { return layout().pass(); }
  int parts(const Problem&, const DeviceInfo&) const { return split; }
  std::uint32_t shared_bytes() const { return static_cast<std::uint32_t>(layout().shared_bytes()); }
  /// Elements of the large operand in flight in a thread, and of the small one in a pass.
  int under_way() const { return unroll * outputs * (large_along_k ? vector : 1); }
  int small_read() const { return rows * (large_along_k ? vector : unroll); }
  /// An estimate: the compiler reads the small operand a few rows at a time.
  int registers(const DeviceInfo&) const {
    return (rows * outputs + small_read() / 2) * sum / 4 + under_way() * element / 4 + 28;
  }
};

using In = ConstraintInput;
using Common = CommonConstraints<Skinny>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;

std::vector<Parameter> parameters() {
  return {
      {"SMALL_OPERAND",
       {0, 1},
       "the small operand: A, of few rows, or B, of few columns",
       {"A", "B"}},
      {"ROWS", {1, 2, 4, 8, 16}, "rows of C a block computes (columns where B is small)"},
      {"OUTPUTS", {1, 2, 4, 8}, "outputs of a warp where its lanes share k, else of a lane"},
      {"WARPS_N", {1, 2, 4, 8}, "warps of a block along the outputs"},
      {"WARPS_K", {1, 2, 4, 8, 16}, "warps of a block that share k"},
      {"VECTOR", {1, 2, 4, 8, 16}, "elements of the large operand a load moves"},
      {"VECTOR_SMALL", {1, 2, 4, 8, 16}, "elements of the small operand a load moves"},
      {"UNROLL", {1, 2, 4, 8}, "loads of the large operand along k in flight at a time"},
      {"EVICT_FIRST",
       {0, 1},
       "the large operand is the first to be evicted from the caches",
       {"no", "yes"}},
      {"BLOCKS_PER_SM",
       {1, 2, 3, 4, 8},
       "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K", {1, 2, 4, 8, 16, 32}, "blocks that share the k of a tile"},
  };
}

std::vector<Constraint> constraints() {
  return {
      Common::block_size({"WARPS_N", "WARPS_K"}),
      constraint(
          "vectors_fill_outputs", {"SMALL_OPERAND", "OUTPUTS", "VECTOR"},
          "where lanes lie along the outputs, VECTOR divides OUTPUTS",
          [](const Skinny& s, const In&) { return s.large_along_k || s.outputs % s.vector == 0; }),
      constraint("small_vectors_fill_load", {"SMALL_OPERAND", "VECTOR", "VECTOR_SMALL", "UNROLL"},
                 "VECTOR_SMALL divides the steps of k of a load: VECTOR where lanes share k, else "
                 "UNROLL; 1 where the small operand's k is not contiguous",
                 [](const Skinny& s, const In&) {
                   if (!s.small_along_k) return s.vector_small == 1;
                   return (s.large_along_k ? s.vector : s.unroll) % s.vector_small == 0;
                 }),
      constraint("aligned_large", {"SMALL_OPERAND", "VECTOR"},
                 "VECTOR elements are no more bytes than the large operand's alignment",
                 [](const Skinny& s, const In& in) {
                   const Alignment aligned = alignment_of(in.problem);
                   return s.vector * s.element <= (s.swap ? aligned.a : aligned.b);
                 }),
      constraint("aligned_small", {"SMALL_OPERAND", "VECTOR_SMALL"},
                 "VECTOR_SMALL elements are no more bytes than the small operand's alignment",
                 [](const Skinny& s, const In& in) {
                   const Alignment aligned = alignment_of(in.problem);
                   return s.vector_small * s.element <= (s.swap ? aligned.b : aligned.a);
                 }),
      Common::grid_fits({"SMALL_OPERAND", "ROWS", "OUTPUTS", "WARPS_N", "WARPS_K", "VECTOR",
                         "UNROLL", "SPLIT_K"}),
      Common::shared_fits(
          {"SMALL_OPERAND", "ROWS", "OUTPUTS", "WARPS_N", "WARPS_K", "BLOCKS_PER_SM"},
          "the sums of BLOCKS_PER_SM blocks"),
      Common::threads_resident({"WARPS_N", "WARPS_K", "BLOCKS_PER_SM"}),
      Common::registers_fit({"SMALL_OPERAND", "ROWS", "OUTPUTS", "WARPS_N", "WARPS_K", "VECTOR",
                             "UNROLL", "BLOCKS_PER_SM"},
                            "sums and fragments"),
      hint("product_is_skinny", {"SMALL_OPERAND"},
           "the small operand has at most 32 rows (B: columns)",
           [](const Skinny& s, const In& in) {
             const std::int64_t small = s.swap ? in.problem.n : in.problem.m;
             const std::int64_t large = s.swap ? in.problem.m : in.problem.n;
             return small <= 32 && small <= large;
           }),
      hint("rows_used", {"SMALL_OPERAND", "ROWS"}, "ROWS is less than twice the rows there are",
           [](const Skinny& s, const In& in) {
             return s.rows < 2 * (s.swap ? in.problem.n : in.problem.m);
           }),
      hint("enough_under_way", {"SMALL_OPERAND", "OUTPUTS", "UNROLL", "VECTOR"},
           "a thread has 16 to 256 bytes of the large operand in flight",
           [](const Skinny& s, const In&) {
             const int bytes = s.under_way() * s.element;
             return bytes >= 16 && bytes <= 256;
           }),
      hint("split_has_work", {"SMALL_OPERAND", "WARPS_K", "VECTOR", "UNROLL", "SPLIT_K"},
           "each warp has a pass of k to do",
           [](const Skinny& s, const In& in) {
             return in.problem.k >= std::int64_t{s.tile_k} * s.split / 2;
           }),
  };
}

/// Every kind of product. Where `mma` multiplies f32 by tf32, so does this family, strictly: memory
/// is the limit.
bool supports(const Problem& problem, const DeviceInfo& device) {
  Problem strict = problem;
  if (has(device.features, Feature::mma_tf32)) strict.math = MathMode::strict;
  return has_one_operand_type(problem) && supports_any(strict, device);
}

ThreadWork thread_work(const Skinny& s, const DeviceInfo& device) {
  ThreadWork thread;
  // Loads of the small operand count as loads from shared memory: L1 serves them.
  const double steps = s.large_along_k ? s.vector * s.unroll : s.unroll;
  thread.shared_loads = double(s.rows) / s.vector_small;
  thread.global_loads = double(s.under_way()) / s.vector;
  thread.result_stores = double(s.rows) * s.block_outputs() / s.threads();
  thread.steps = steps;
  thread.unrolled = steps;
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Skinny s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("skinny.cu", "skinny", c, {"SPLIT_K"});
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = s.split;
  shape.programmatic = has(device.features, Feature::programmatic_launch);
  shape.thread = thread_work(s, device);
  return multiply_plan(problem, std::move(shape));
}

/// Reads element by element: valid for any alignment.
Configuration default_configuration(const Problem& problem, const DeviceInfo&) {
  return {{"SMALL_OPERAND", problem.n < problem.m ? 1 : 0},
          {"ROWS", 4},
          {"OUTPUTS", 4},
          {"WARPS_N", 1},
          {"WARPS_K", 4},
          {"VECTOR", 1},
          {"VECTOR_SMALL", 1},
          {"UNROLL", 4},
          {"EVICT_FIRST", 0},
          {"BLOCKS_PER_SM", 2},
          {"SPLIT_K", 1}};
}

}  // namespace

KernelTemplate skinny_template() {
  KernelTemplate t;
  t.name = "skinny";
  t.summary = "few rows or columns: the large operand is read once, through registers";
  t.parameters = parameters();
  t.constraints = constraints();
  t.supports = supports;
  t.sum_order = [](const Problem& problem, const Configuration& c, const DeviceInfo&) {
    const Skinny s(problem, c);
    SumOrder order = in_slices(chain_of(problem), s.tile_k, s.warps_k);
    if (s.large_along_k && order.arithmetic != SumOrder::Arithmetic::exact) {
      order.slice = s.pass();
      order.lane_vector = s.vector;
    }
    return std::optional(in_parts(order, problem, s.tile_k, s.split));
  };
  t.sum_order_reads = {"SMALL_OPERAND", "VECTOR", "UNROLL", "WARPS_K", "SPLIT_K"};
  t.plan = plan;
  t.of_size = {"SPLIT_K"};
  t.default_configuration = default_configuration;
  // After `tiled`, which serves large products of types that no other family multiplies there.
  t.default_rank = [](const Problem&) { return 35; };
  return t;
}

}  // namespace tilewise
