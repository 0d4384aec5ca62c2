#include "templates/plan/stream_k.hpp"

#include <algorithm>

#include "templates/plan/steps_layout.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;

LaunchStep stream_k_step(const Problem& problem, const StreamK& stream_k, int group_m,
                         std::int64_t partial) {
  LaunchStep step;
  step.role = StepRole::reduce;
  const bool vectors =
      problem.c.alignment % (StreamKLayout::kTogether * bytes_of(problem.c.type)) == 0;
  step.kernel = {"stream_k.cu",
                 "stream_k",
                 {{"TILE_M", stream_k.tile_m}, {"TILE_N", stream_k.tile_n}, {"VECTORS", vectors}}};
  add_types(step.kernel, problem);
  // The fields of StreamKArgs in stream_k.cu.
  step.arguments = {{Kind::workspace, partial},
                    {Kind::c},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::ldc},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::integer64, stream_k.depth},
                    {Kind::integer32, group_m_of(problem.m, stream_k.tile_m, group_m)},
                    {Kind::integer32, stream_k.whole_tiles},
                    {Kind::integer32, stream_k.share},
                    {Kind::alpha},
                    {Kind::beta}};
  const StreamKLayout layout{static_cast<int>(stream_k.tile_m), static_cast<int>(stream_k.tile_n)};
  step.grid.x = static_cast<std::uint32_t>(stream_k.rest_tiles * layout.blocks());
  step.block.x = StreamKLayout::kThreads;
  const int parts = static_cast<int>(ceil_div(stream_k.depth, stream_k.share) + 1);
  state_reduce_work(step, problem,
                    double(stream_k.rest_tiles) * double(stream_k.tile_m * stream_k.tile_n), parts,
                    1);
  return step;
}

}  // namespace

StreamK stream_k_of(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
                    std::int64_t tile_k, std::int64_t slots) {
  const std::int64_t tiles = ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n);
  StreamK stream_k{tile_m, tile_n};
  stream_k.whole_tiles = tiles / slots * slots;
  stream_k.rest_tiles = tiles - stream_k.whole_tiles;
  stream_k.depth = std::max<std::int64_t>(1, ceil_div(problem.k, tile_k));
  stream_k.share = std::max<std::int64_t>(1, ceil_div(stream_k.rest_tiles * stream_k.depth, slots));
  return stream_k;
}

void add_stream_k(MultiplyPlan& plan, const Problem& problem, const StreamK& stream_k,
                  int group_m) {
  if (is_batched(problem))
    throw Error(ErrorKind::unsupported,
                "STREAM_K is for a batch of 1, not of " + std::to_string(problem.batch));
  const std::int64_t partial = plan.add_workspace(stream_k.blocks() * 2 * stream_k.tile_m *
                                                  stream_k.tile_n * bytes_of(problem.accumulator));
  plan.add_argument({Kind::workspace, partial});
  plan.add_argument({Kind::integer64, stream_k.depth});
  plan.add_argument({Kind::integer32, stream_k.whole_tiles});
  plan.add_argument({Kind::integer32, stream_k.share});
  LaunchStep step = stream_k_step(problem, stream_k, group_m, partial);
  plan.add_epilogue(step);
  plan.add_step(std::move(step));
}

}  // namespace tilewise
