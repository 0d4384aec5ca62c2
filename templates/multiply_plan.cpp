#include "templates/multiply_plan.hpp"

#include <algorithm>
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

LaunchStep pack_step(StepRole role, Stored from, Pack pack, const Packed& to) {
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
      std::max<std::int64_t>(1, ceil_div(rows, 32) * ceil_div(to.ld, 32)));
  step.block.x = 256;
  step.shared_bytes = 32 * 33 * 4;
  return step;
}

LaunchStep reduce_step(const Problem& problem, std::int64_t partial, int splits) {
  LaunchStep step;
  step.role = StepRole::reduce;
  step.kernel = {"reduce.cu", "reduce", {}};
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
  step.grid.x = static_cast<std::uint32_t>(ceil_div(problem.m * problem.n, 256));
  step.block.x = 256;
  return step;
}

Work work_of(const Problem& problem, const MultiplyShape& shape, const Plan& plan) {
  const double m = double(problem.m), n = double(problem.n), k = double(problem.k);
  const double element = bytes_of(problem.a);
  const double tiles =
      double(ceil_div(problem.m, shape.tile_m)) * double(ceil_div(problem.n, shape.tile_n));
  Work work;
  work.flops = flops_of(problem);
  work.issued_flops =
      2 * tiles * shape.tile_m * shape.tile_n * double(round_up(problem.k, shape.tile_k));
  work.compulsory_bytes = operand_bytes(problem);
  work.global_bytes = tiles * (shape.tile_m + shape.tile_n) * k * element + m * n * element;
  if (shape.splits > 1) work.global_bytes += 2 * shape.splits * m * n * element;
  for (const LaunchStep& step : plan.steps) {
    if (step.role == StepRole::pack_a) work.global_bytes += 2 * m * k * element;
    if (step.role == StepRole::pack_b) work.global_bytes += 2 * k * n * element;
  }
  work.shared_bytes = work.issued_flops * shape.shared_bytes_per_flop;
  return work;
}

}  // namespace

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
    plan.steps.push_back(pack_step(StepRole::pack_a, from, shape.pack_a, to));
    a = {Kind::workspace, to.offset};
    lda = {Kind::integer64, to.ld};
  }
  if (shape.pack_b != Pack::none) {
    const Stored from{rows_b(problem), min_ldb(problem)};
    const Packed to = packed_operand(from, shape.pack_b, element, plan.workspace_bytes);
    plan.workspace_bytes += to.bytes;
    plan.steps.push_back(pack_step(StepRole::pack_b, from, shape.pack_b, to));
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
  plan.steps.push_back(std::move(multiply));
  if (shape.splits > 1) plan.steps.push_back(reduce_step(problem, partial, shape.splits));
  plan.work = work_of(problem, shape, plan);
  return plan;
}

}  // namespace tilewise
