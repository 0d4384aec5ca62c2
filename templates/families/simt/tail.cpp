#include "templates/families/simt/tail.hpp"

#include <algorithm>

#include "templates/families/simt/tail_layout.hpp"
#include "tilewise/error.hpp"

namespace tilewise::simt {
namespace {

using Kind = Argument::Kind;

LaunchStep tail_step(const Problem& problem, const MultiplyShape& shape, const Tail& tail,
                     std::int64_t partial) {
  LaunchStep step;
  step.role = StepRole::reduce;
  step.kernel = {"tail.cu", "tail", {{"TILE_M", shape.tile_m}, {"TILE_N", shape.tile_n}}};
  // The fields of TailArgs in tail.cu.
  step.arguments = {{Kind::workspace, partial},
                    {Kind::c},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::ldc},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::integer64, tail.depth},
                    {Kind::integer32, raster_of(problem, shape.tile_m, shape.raster)},
                    {Kind::integer32, tail.whole_tiles},
                    {Kind::integer32, tail.share},
                    {Kind::alpha},
                    {Kind::beta}};
  const std::int64_t tile = std::int64_t{shape.tile_m} * shape.tile_n;
  step.grid.x =
      static_cast<std::uint32_t>(tail.rest_tiles * TailLayout{shape.tile_m, shape.tile_n}.blocks());
  step.block.x = TailLayout::kThreads;
  const int parts = static_cast<int>(ceil_div(tail.depth, tail.share) + 1);
  state_reduce_work(step, problem, double(tail.rest_tiles) * double(tile), parts, 1);
  return step;
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

void add_tail(MultiplyPlan& plan, const Problem& problem, const MultiplyShape& shape,
              std::int64_t slots) {
  if (problem.batch > 1)
    throw Error(ErrorKind::unsupported,
                "tails are for a batch of 1, not of " + std::to_string(problem.batch));
  const Tail tail = tail_of(problem, shape.tile_m, shape.tile_n, shape.tile_k, slots);
  const std::int64_t partial = plan.add_workspace(tail.blocks() * 2 * shape.tile_m * shape.tile_n *
                                                  bytes_of(problem.accumulator));
  plan.set_blocks(tail.whole_tiles + tail.blocks());
  // The fields of SimtArgs in main_loop.cuh.
  plan.add_argument({Kind::workspace, partial});
  plan.add_argument({Kind::integer64, tail.depth});
  plan.add_argument({Kind::integer32, tail.whole_tiles});
  plan.add_argument({Kind::integer32, tail.share});
  plan.add_step(tail_step(problem, shape, tail, partial));
}

}  // namespace tilewise::simt
