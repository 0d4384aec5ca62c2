#include "templates/families/families.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/space/common_constraints.hpp"
#include "tests/toy_family/toy_layout.hpp"

namespace tilewise {
namespace {

struct Toy {
  int tile_m, split, blocks = 1;
  static constexpr int tile_n = toy::kThreads, tile_k = 8;

  Toy(const Problem&, const Configuration& c)
      : tile_m(value_or_1(c, "ROWS")), split(value_or_1(c, "SPLIT_K")) {}
  int parts(const Problem&, const DeviceInfo&) const { return split; }
  int shared_bytes() const { return 4 * toy::shared_floats(tile_m); }
};

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo&) {
  const Toy s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("toy.cu", "toy", c, {"SPLIT_K"});
  shape.kernel.defines.emplace("SPLIT", s.split > 1);
  shape.tile_m = s.tile_m, shape.tile_n = s.tile_n, shape.tile_k = s.tile_k;
  shape.threads = toy::kThreads;
  shape.shared_bytes = static_cast<std::uint32_t>(s.shared_bytes());
  shape.splits = s.split;
  shape.thread.result_stores = s.tile_m;
  MultiplyPlan made(problem, std::move(shape));
  made.add_argument({Argument::Kind::integer32, 1});
  return made.finish();
}

}  // namespace

KernelTemplate toy_template() {
  using Common = CommonConstraints<Toy>;
  KernelTemplate t;
  t.name = "toy";
  t.summary = "a column of a few elements a thread, for a test";
  t.parameters = {{"ROWS", {1, 2, 4}, "rows of C a block computes"},
                  {"SPLIT_K", {1, 2}, "blocks that share the k of a tile"}};
  t.constraints = {Common::grid_fits({"ROWS", "SPLIT_K"}),
                   Common::shared_fits({"ROWS"}, "the sums of a block")};
  t.supports = supports_strict_f32;
  t.plan = plan;
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"ROWS", 2}, {"SPLIT_K", 1}};
  };
  return t;
}

}  // namespace tilewise
