#include <algorithm>

#include "templates/families/families.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

/// L1 serves nearly all reads, a line at a time: they count as loads from shared memory.
ThreadWork thread_work(const Problem& problem, const Configuration& c) {
  const int rows = c.at("ACROSS") ? std::max(1, 32 / c.at("TILE_N")) : std::min(32, c.at("TILE_M"));
  const int columns = 32 / rows;  // of C, by a warp
  ThreadWork thread;
  thread.shared_loads = (problem.a.transposed ? 1 : rows) + (problem.b.transposed ? columns : 1);
  thread.unrolled = c.at("UNROLL");
  thread.ahead = c.at("UNROLL") > 1 ? c.at("UNROLL") : 0;  // loads of UNROLL steps are in flight
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo&) {
  MultiplyShape shape;
  shape.kernel = kernel_of("naive.cu", "naive", c);
  shape.tile_m = c.at("TILE_M");
  shape.tile_n = c.at("TILE_N");
  shape.threads = shape.tile_m * shape.tile_n;
  shape.thread = thread_work(problem, c);
  Plan made = multiply_plan(problem, std::move(shape));
  // Every multiply-add loads both of its operands. The step's own work, for the cost model, has the
  // smaller traffic of L2.
  made.work.global_bytes =
      made.work.flops / 2 * (bits_of(problem.a.type) + bits_of(problem.b.type)) / 8;
  return made;
}

}  // namespace

KernelTemplate naive_template() {
  KernelTemplate t;
  t.name = "naive";
  t.summary = "one thread an element, straight from global memory";
  t.parameters = {
      {"TILE_M", {1, 2, 4, 8, 16, 32}, "rows of C a block computes"},
      {"TILE_N", {1, 2, 4, 8, 16, 32, 64, 128, 256}, "columns of C a block computes"},
      {"ACROSS", {1, 0}, "what neighbouring threads compute neighbours of", {"columns", "rows"}},
      {"UNROLL", {1, 4, 8}, "steps of k in a pass of the loop"},
  };
  t.constraints = {
      {"block_size",
       {"TILE_M", "TILE_N"},
       "TILE_M x TILE_N is 32 to 1024 threads",
       [](const ConstraintInput& in) {
         const int threads = in.configuration.at("TILE_M") * in.configuration.at("TILE_N");
         return threads >= 32 && threads <= in.device.threads_per_block;
       }},
      {"grid_fits",
       {"TILE_M", "TILE_N"},
       "there are fewer than 2^31 blocks",
       [](const ConstraintInput& in) {
         return grid_fits(in.problem, in.configuration.at("TILE_M"), in.configuration.at("TILE_N"),
                          1, 1);
       }},
  };
  t.supports = [](const Problem& problem, const DeviceInfo& device) {
    return supports_any(problem, device) || has_narrow_b(problem);
  };
  t.grouped = true;
  t.scales = true;
  t.sum_order = [](const Problem& problem, const Configuration&,
                   const DeviceInfo&) -> std::optional<SumOrder> {
    SumOrder order = chain_of(problem);
    if (const EpilogueSlot* scales = scales_of(problem))
      order.promoted = static_cast<int>(scales->steps);
    return order;
  };
  t.plan = plan;
  t.tile_levels = [](const Problem&, const Configuration& c) {
    return std::vector<TileLevel>{{"block", c.at("TILE_M"), c.at("TILE_N")},
                                  {"thread", 1, 1, "one element"}};
  };
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"TILE_M", 8}, {"TILE_N", 32}, {"ACROSS", 1}, {"UNROLL", 4}};
  };
  return t;
}

}  // namespace tilewise
