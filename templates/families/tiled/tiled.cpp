#include <algorithm>

#include "templates/families/families.hpp"
#include "templates/families/tiled/layout.hpp"
#include "templates/plan/multiply_plan.hpp"

namespace tilewise {
namespace {

/// Shared memory and L1 work in passes of a line. A row of the tile takes one pass. A column
/// (READ_B 1) takes as many as it has words in one bank, fewer where an unrolled loop reads up to
/// four words at once. Loads down columns (READ_B 0) take a line a thread, once a tile: one more
/// pass a step.
ThreadWork thread_work(const Configuration& c) {
  const int tile = c.at("TILE"), read_b = c.at("READ_B");
  const double in_a_bank = tile * std::min(32, tile) / 32.0;
  ThreadWork thread;
  thread.shared_loads = 2;
  if (read_b == 0) thread.shared_loads += 1;
  if (read_b == 1) thread.shared_loads += in_a_bank / std::min(4, c.at("UNROLL")) - 1;
  thread.global_loads = 2;
  thread.shared_stores = 2;
  thread.steps = tile;
  thread.unrolled = c.at("UNROLL");
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo&) {
  const int tile = c.at("TILE");
  MultiplyShape shape;
  shape.kernel = kernel_of("tiled.cu", "tiled", c);
  shape.tile_m = shape.tile_n = shape.tile_k = tile;
  shape.threads = tile * tile;
  shape.shared_bytes =
      static_cast<std::uint32_t>(2 * tiled::tile_elements(tile) * bytes_of(problem.accumulator));
  shape.thread = thread_work(c);
  return multiply_plan(problem, std::move(shape));
}

}  // namespace

KernelTemplate tiled_template() {
  KernelTemplate t;
  t.name = "tiled";
  t.summary = "square tiles in shared memory, one element a thread";
  t.parameters = {
      {"TILE", {8, 16, 32}, "side of the tiles"},
      {"READ_B",
       {2, 1, 0},
       "how B is read and staged",
       {"rows", "rows-with-bank-conflicts", "columns"}},
      {"UNROLL", {1, 2, 4, 8, 16, 32}, "steps of the tile's k in a pass of the loop"},
  };
  t.constraints = {
      {"unroll_divides",
       {"TILE", "UNROLL"},
       "UNROLL divides TILE",
       [](const ConstraintInput& in) {
         return in.configuration.at("TILE") % in.configuration.at("UNROLL") == 0;
       }},
      {"grid_fits",
       {"TILE"},
       "there are fewer than 2^31 blocks",
       [](const ConstraintInput& in) {
         const int tile = in.configuration.at("TILE");
         return grid_fits(in.problem, tile, tile, tile, 1);
       }},
  };
  t.supports = supports_any;
  t.grouped = true;
  t.sum_order = [](const Problem& problem, const Configuration&, const DeviceInfo&) {
    return std::optional(chain_of(problem));
  };
  t.plan = plan;
  t.tile_levels = [](const Problem&, const Configuration& c) {
    const int tile = c.at("TILE");
    return std::vector<TileLevel>{{"block", tile, tile}, {"thread", 1, 1, "one element"}};
  };
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"TILE", 16}, {"READ_B", 2}, {"UNROLL", 16}};
  };
  return t;
}

}  // namespace tilewise
