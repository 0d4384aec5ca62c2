#include "templates/descriptors.hpp"
#include "templates/multiply_plan.hpp"

namespace tilewise {
namespace {

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo&) {
  const int tile = c.at("TILE");
  MultiplyShape shape;
  shape.kernel = {"tiled.cu",
                  "tiled",
                  {{"TILE", tile}, {"READ_B", c.at("READ_B")}, {"UNROLL", c.at("UNROLL")}}};
  shape.tile_m = shape.tile_n = shape.tile_k = tile;
  shape.threads = tile * tile;
  shape.shared_bytes = static_cast<std::uint32_t>(2 * tile * (tile + 1) * 4);
  shape.shared_bytes_per_flop = 4;  // two words for one multiply-add
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
       "how B is read and held",
       {"along rows", "along rows, bank conflicts", "down columns"}},
      {"UNROLL", {1, 2, 4, 8, 16, 32}, "steps of the tile's k a loop pass does"},
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
  t.supports = supports_strict_f32;
  t.plan = plan;
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"TILE", 16}, {"READ_B", 2}, {"UNROLL", 16}};
  };
  return t;
}

}  // namespace tilewise
