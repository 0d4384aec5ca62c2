// The plan of a multiply step for a template's shape: types, batches, packs, padding.
#include "templates/plan/multiply_plan.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "templates/plan/divisor.hpp"
#include "tests/support/problems.hpp"
#include "tests/templates/argument_names.hpp"
#include "tilewise/error.hpp"

namespace tilewise::multiply_plan_test {
namespace {

using test::argument_named;

using testing::ElementsAre;

using Kind = Argument::Kind;
using test::make_problem;

Problem typed_problem(Layout layout, DType operand, DType c, std::int64_t batch = 1) {
  const ProductKind* kind = find_product_kind(operand, c, MathMode::strict);
  Problem problem = test::with_kind(make_problem(layout, 100, 70, 90, 1), *kind);
  problem.batch = batch;
  return problem;
}

MultiplyShape shape_of(Pack a = Pack::none, Pack b = Pack::none) {
  MultiplyShape shape;
  shape.kernel = {"some.cu", "some", {}};
  shape.tile_m = 32;
  shape.tile_n = 16;
  shape.tile_k = 8;
  shape.threads = 64;
  shape.pack_a = a;
  shape.pack_b = b;
  return shape;
}

std::int64_t define(const LaunchStep& step, const std::string& name) {
  const auto& defines = step.kernel.defines;
  if (const auto found = defines.find(name); found != defines.end()) return found->second;
  ADD_FAILURE() << to_string(step.kernel) << " has no " << name;
  return -1;
}

TEST(MultiplyPlan, KernelsAreToldTypesAndWhetherThereIsABatch) {
  for (const std::int64_t batch : {1, 3}) {
    const Problem problem = typed_problem(Layout::nn, DType::e4m3, DType::bf16, batch);
    MultiplyShape shape = shape_of(Pack::pad);
    shape.splits = 4;
    const Plan plan = multiply_plan(problem, shape);
    ASSERT_EQ(plan.steps.size(), 3u);
    for (std::size_t i = 1; i < 3; ++i) {  // multiply, reduce
      EXPECT_EQ(define(plan.steps[i], "ELEMENT"), int(DType::e4m3));
      EXPECT_EQ(define(plan.steps[i], "RESULT"), int(DType::bf16));
      EXPECT_EQ(define(plan.steps[i], "SUM"), int(DType::f32));
      EXPECT_EQ(define(plan.steps[i], "BATCHED"), batch > 1);
    }
    EXPECT_EQ(define(plan.steps[0], "ELEMENT_BYTES"), 1);
    EXPECT_EQ(define(plan.steps[0], "BATCHED"), batch > 1);
    EXPECT_EQ(volume(plan.steps[1].grid), std::uint64_t(4 * 5 * 4 * batch));
  }
}

TEST(Divisor, DividesEveryNumberBelow2To31) {
  std::mt19937_64 generator(3);
  const auto any = [&](std::int64_t most) {  // log-uniform
    const double bits = std::uniform_real_distribution<>(0, std::log2(double(most)))(generator);
    return static_cast<std::int64_t>(std::exp2(bits));
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto check = [](std::int64_t d, std::int64_t n) {
    const Divisor by = divisor_of(d);
    const auto quotient = static_cast<std::uint64_t>(n) * by.multiplier >> by.shift;
    ASSERT_EQ(static_cast<std::int64_t>(quotient), n / d) << n << " / " << d;
  };
  for (std::int64_t d = 1; d <= 600; ++d)
    for (std::int64_t n = 0; n <= 1500; ++n) check(d, n);
  for (int i = 0; i < 200'000; ++i) {
    const std::int64_t d = any(kMost);
    for (const std::int64_t multiple : {any(kMost) / d * d, kMost / d * d})
      for (const std::int64_t n : {multiple - 1, multiple, multiple + 1, kMost})
        if (n >= 0 && n <= kMost) check(d, n);
  }
}

/// Of tiles of 64 rows.
std::int64_t rows_together(std::int64_t tiles, std::int64_t group_m) {
  return group_m_of(64 * tiles, 64, group_m);
}

TEST(MultiplyPlan, AGroupHasAFewRowsMoreWhereTheLastWouldHaveFew) {
  EXPECT_EQ(rows_together(0, 4), 1);
  EXPECT_EQ(rows_together(3, 1), 1);
  EXPECT_EQ(rows_together(3, 2), 3);
  EXPECT_EQ(rows_together(3, 8), 3);
  EXPECT_EQ(rows_together(5, 2), 3);  // 3 and 2, not 2, 2 and 1
  EXPECT_EQ(rows_together(5, 4), 5);
  EXPECT_EQ(rows_together(6, 4), 6);
  EXPECT_EQ(rows_together(7, 4), 4);  // 4 and 3
  EXPECT_EQ(rows_together(8, 4), 4);
  EXPECT_EQ(rows_together(17, 8), 9);
  EXPECT_EQ(rows_together(17, 16), 17);
}

TEST(MultiplyPlan, AGroupHasAtMostTwiceTheRowsAskedForAndIsAFixedPoint) {
  for (std::int64_t tiles = 1; tiles < 500; ++tiles)
    for (std::int64_t group_m : {1, 2, 4, 8, 16}) {
      const std::int64_t rows = rows_together(tiles, group_m);
      EXPECT_GE(rows, std::min(tiles, group_m)) << tiles << ", " << group_m;
      EXPECT_LE(rows, std::min(tiles, 2 * group_m)) << tiles << ", " << group_m;
      EXPECT_EQ(rows_together(tiles, rows), rows) << tiles << ", " << group_m;
    }
}

TEST(MultiplyPlan, TheTileOrderIsStatedInTilesOfClusters) {
  MultiplyShape shape = shape_of();
  shape.clusters_m = 2, shape.group_m = 3, shape.splits = 4;
  Problem problem = typed_problem(Layout::nn, DType::f16, DType::f16);
  problem.m = 64 * 11 - 5, problem.n = 16 * 7;  // 11 tile rows: groups of 3, 3, 3 and 2
  const Plan plan = multiply_plan(problem, shape);
  const LaunchStep& multiply = plan.steps[0];
  const auto value = [&](const char* name) { return argument_named(multiply, name).value; };
  EXPECT_EQ(value("splits"), 4);
  EXPECT_EQ(value("tiles_m"), 11);
  EXPECT_EQ(value("tiles_n"), 7);
  EXPECT_EQ(value("group_m"), 3);
  const std::pair<std::string, std::int64_t> divisors[] = {{"by_tiles_of_product", 308},
                                                           {"by_tiles", 77},
                                                           {"by_tiles_of_group", 21},
                                                           {"by_group_m", 3},
                                                           {"by_last_group_m", 2}};
  for (const auto& [name, number] : divisors) {
    EXPECT_EQ(value(name.c_str()), divisor_of(number).multiplier) << name;
    EXPECT_EQ(value((name + " shift").c_str()), divisor_of(number).shift) << name;
  }
}

TEST(MultiplyPlan, StridesAreTheCallsUnlessAnOperandIsPacked) {
  const Problem problem = typed_problem(Layout::nn, DType::f16, DType::f16, 5);
  const Plan plan = multiply_plan(problem, shape_of(Pack::none, Pack::transpose));
  ASSERT_EQ(plan.steps.size(), 2u);
  const LaunchStep& multiply = plan.steps[1];
  EXPECT_EQ(argument_named(multiply, "stride_a").kind, Kind::stride_a);
  EXPECT_EQ(argument_named(multiply, "stride_c").kind, Kind::stride_c);
  // B^T has 70 rows of 90 halves, in lines of 64.
  EXPECT_EQ(argument_named(multiply, "ldb"), (Argument{Kind::integer64, 128}));
  EXPECT_EQ(argument_named(multiply, "stride_b"), (Argument{Kind::integer64, 70 * 128}));
  EXPECT_EQ(argument_named(plan.steps[0], "from_stride", test::pack_arguments()).kind,
            Kind::stride_b);
  EXPECT_EQ(plan.steps[0].packs[0].bytes, 5 * 70 * 128 * 2);
  EXPECT_EQ(plan.workspace_bytes, plan.steps[0].packs[0].bytes);
}

TEST(MultiplyPlan, RowsOfPackedOperandsStartLinesWhateverTheirType) {
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = typed_problem(Layout::nt, kind.a, kind.c);
    if (kind.math != MathMode::strict) continue;
    const Plan plan = multiply_plan(problem, shape_of(Pack::pad, Pack::transpose));
    const std::int64_t bytes = bytes_of(kind.a);
    const auto line = [&](std::int64_t columns) {
      return (columns * bytes + 127) / 128 * 128 / bytes;
    };
    const LaunchStep& pack = plan.steps[0];
    EXPECT_EQ(argument_named(pack, "to_ld", test::pack_arguments()).value, line(90))
        << to_string(problem);
    EXPECT_EQ(test::second_named(pack, "to_ld").value, line(70)) << to_string(problem);
    EXPECT_EQ(test::second_named(pack, "to_rows").value, 90);
  }
}

TEST(MultiplyPlan, OneStepPacksBothOperands) {
  const Problem problem = typed_problem(Layout::nn, DType::f16, DType::f16, 2);
  MultiplyShape shape = shape_of(Pack::pad, Pack::transpose);
  shape.programmatic = true;
  const Plan both = multiply_plan(problem, shape);
  ASSERT_EQ(both.steps.size(), 2u);
  const LaunchStep& pack = both.steps[0];
  EXPECT_EQ(pack.role, StepRole::pack_both);
  EXPECT_FALSE(pack.programmatic) << "it does not wait for the step before";
  EXPECT_TRUE(both.steps[1].programmatic);
  EXPECT_EQ(define(pack, "FIRST"), 1);
  EXPECT_EQ(define(pack, "SECOND"), 2);

  // The step that packs both equals the two single steps.
  const Plan a = multiply_plan(problem, shape_of(Pack::pad));
  const Plan b = multiply_plan(problem, shape_of(Pack::none, Pack::transpose));
  EXPECT_EQ(a.steps[0].role, StepRole::pack_a);
  EXPECT_EQ(b.steps[0].role, StepRole::pack_b);
  EXPECT_EQ(define(a.steps[0], "SECOND"), 0);
  EXPECT_EQ(pack.packs, (std::vector{a.steps[0].packs[0], b.steps[0].packs[0]}));
  EXPECT_EQ(pack.grid.x, a.steps[0].grid.x + b.steps[0].grid.x);
  EXPECT_EQ(pack.arguments.back(), (Argument{Kind::blocks_a, a.steps[0].grid.x}));
  EXPECT_EQ(test::second_named(pack, "to"), (Argument{Kind::workspace, a.workspace_bytes}));
  EXPECT_EQ(both.workspace_bytes, a.workspace_bytes + b.workspace_bytes);
  Work work = a.steps[0].work;
  EXPECT_EQ(pack.work, work += b.steps[0].work);
}

// A pack block has 128 threads: 8 x 16 with 4 runs each or, to transpose, 16 x 8 with the runs of a
// few rows.
TEST(MultiplyPlan, PacksSpreadOverBlocks) {
  struct Case {
    DType type;
    Pack pack;
    std::int64_t size, blocks;
  };
  for (const auto& [type, pack, size, blocks] : {
           Case{DType::f16, Pack::pad, 1000, 32 * 8},
           Case{DType::f32, Pack::pad, 1000, 32 * 16},
           Case{DType::i8, Pack::transpose, 1000, 8 * 8},
           Case{DType::f16, Pack::transpose, 1000, 16 * 16},
           Case{DType::f32, Pack::transpose, 1000, 32 * 16},
           Case{DType::f64, Pack::transpose, 1000, 63 * 32},
           Case{DType::f64, Pack::transpose, 1, 1},
       }) {
    Problem problem = typed_problem(Layout::nn, type, type == DType::i8 ? DType::i32 : type);
    problem.m = problem.k = size;
    const Plan plan = multiply_plan(problem, shape_of(pack));
    EXPECT_EQ(plan.steps[0].grid.x, blocks) << to_string(type) << " " << size;
    EXPECT_EQ(plan.steps[0].block.x, 128u);
  }
}

TEST(MultiplyPlan, PartialSumsAreOfTheAccumulatorsType) {
  for (const auto& [operand, c] : {std::pair{DType::f16, DType::f16}, {DType::f64, DType::f64}}) {
    const Problem problem = typed_problem(Layout::nn, operand, c, 3);
    MultiplyShape shape = shape_of();
    shape.splits = 8;
    const Plan plan = multiply_plan(problem, shape);
    const int sum = bytes_of(problem.accumulator);
    EXPECT_EQ(plan.workspace_bytes, 3 * 8 * 100 * 70 * sum);
    EXPECT_EQ(plan.steps[1].shared_bytes, std::uint32_t(256 * sum));
    EXPECT_DOUBLE_EQ(plan.steps[1].work.compulsory_bytes, 3.0 * 100 * 70 * (8 * sum + bytes_of(c)));
    EXPECT_EQ(volume(plan.steps[1].grid), std::uint64_t(3 * ((100 * 70 + 63) / 64)));
  }
}

TEST(MultiplyPlan, WorkCountsEachOperandsOwnBytes) {
  const Problem problem = typed_problem(Layout::nn, DType::i8, DType::i32, 2);
  const Plan plan = multiply_plan(problem, shape_of());
  EXPECT_DOUBLE_EQ(plan.work.flops, 2.0 * 2 * 100 * 70 * 90);
  EXPECT_DOUBLE_EQ(plan.work.issued_flops, 2.0 * 2 * 128 * 80 * 96);
  EXPECT_DOUBLE_EQ(plan.work.compulsory_bytes, 2.0 * (100 * 90 + 90 * 70 + 100 * 70 * 4));
  EXPECT_DOUBLE_EQ(plan.work.global_bytes, 2.0 * (20 * (32 + 16) * 90 + 100 * 70 * 4));
}

TEST(MultiplyPlan, BatchesCountAgainstTheGrid) {
  Problem problem = typed_problem(Layout::nn, DType::f32, DType::f32);
  problem.batch = std::int64_t{1} << 30;
  EXPECT_TRUE(grid_fits(problem, 128, 128, 8, 1));
  EXPECT_FALSE(grid_fits(problem, 128, 128, 8, 2));
  EXPECT_FALSE(grid_fits(problem, 64, 128, 8, 1));
}

TEST(MultiplyPlan, TensorMapsOfABatchHaveItsStrides) {
  Problem problem = typed_problem(Layout::tn, DType::f32, DType::f32, 5);
  set_alignment(problem, {16, 16, 16});
  MultiplyShape mapped = shape_of();
  mapped.maps = {{TileMap::Of::a, 32, 8}, {TileMap::Of::c, 32, 8}};
  mapped.pack_a = Pack::pad;
  const Plan plan = multiply_plan(problem, mapped);
  ASSERT_EQ(plan.tensor_maps.size(), 2u);
  for (const TensorMapRecipe& map : plan.tensor_maps) {
    ASSERT_EQ(map.dims.size(), 3u);
    EXPECT_EQ(map.dims[2], 5);
    EXPECT_THAT(map.box, ElementsAre(32, 8, 1));
  }
  const TensorMapRecipe &a = plan.tensor_maps[0], &c = plan.tensor_maps[1];
  EXPECT_EQ(a.batch_stride.kind, Kind::integer64);
  EXPECT_GE(a.batch_stride.value, a.stride.value * a.dims[1]);
  EXPECT_EQ(c.batch_stride.kind, Kind::stride_c);

  mapped.maps = {{TileMap::Of::a, 32, 8, 0, 4}};
  EXPECT_THROW(multiply_plan(problem, mapped), Error) << "row classes";
  problem.batch = 1;
  EXPECT_EQ(multiply_plan(problem, mapped).tensor_maps.size(), 4u);
}

// A family's own memory, arguments and steps follow the common ones; tensor maps are last.
TEST(MultiplyPlan, AFamilyAddsItsOwnMemoryArgumentsAndSteps) {
  Problem problem = typed_problem(Layout::nn, DType::f16, DType::f32);
  set_alignment(problem, {16, 16, 16});
  MultiplyShape shape = shape_of(Pack::pad);
  shape.cluster.x = 2;
  shape.maps = {{TileMap::Of::c, 16, 32, 32}};
  MultiplyPlan made(problem, shape);
  const std::int64_t place = made.add_workspace(1000);
  made.add_argument({Kind::workspace, place});
  made.set_blocks(10);
  LaunchStep more;
  more.role = StepRole::reduce;
  made.add_step(more);
  const Plan plan = made.finish();
  const Plan usual = multiply_plan(problem, shape);
  EXPECT_EQ(place, usual.workspace_bytes);
  EXPECT_EQ(plan.workspace_bytes, place + 1000);
  ASSERT_EQ(plan.steps.size(), 3u);  // pack, multiply, the family's
  EXPECT_EQ(plan.steps[1].grid.x, 10u);
  EXPECT_EQ(plan.steps[1].cluster, (Dim3{2, 1, 1}));
  EXPECT_EQ(plan.steps[2].role, StepRole::reduce);
  const auto& arguments = plan.steps[1].arguments;
  ASSERT_EQ(arguments.size(), usual.steps[1].arguments.size() + 1);
  EXPECT_EQ(arguments[arguments.size() - 2], (Argument{Kind::workspace, place}));
  EXPECT_EQ(arguments.back().kind, Kind::tensor_map);
  ASSERT_EQ(plan.tensor_maps.size(), 1u);
  const TensorMapRecipe& map = plan.tensor_maps[0];
  EXPECT_EQ(map.base.kind, Kind::c);
  EXPECT_EQ(map.stride.kind, Kind::ldc);
  EXPECT_EQ(map.type, DType::f32);
  EXPECT_THAT(map.dims, ElementsAre(70, 100));
  EXPECT_THAT(map.box, ElementsAre(16, 32));
  EXPECT_EQ(map.swizzle_bytes, 32);
  // Ten blocks for 4 x 5 tiles: two tiles each on average.
  EXPECT_DOUBLE_EQ(plan.steps[1].schedule.rounds, 2 * usual.steps[1].schedule.rounds);
}

TEST(MultiplyPlan, WithoutAnElementOfCThereIsNothingToDo) {
  Problem problem = typed_problem(Layout::nn, DType::f32, DType::f32);
  problem.m = 0;
  MultiplyPlan made(problem, shape_of(Pack::pad));
  made.add_argument({Kind::workspace, made.add_workspace(16)});
  EXPECT_EQ(made.finish(), Plan{});
}

// Rows of any length have a tensor map for each row class of A, k contiguous, and of B, n
// contiguous.
TEST(MultiplyPlan, RowClassesHaveAMapEach) {
  Problem problem = typed_problem(Layout::nn, DType::f32, DType::f32);
  set_alignment(problem, {4, 4, 4});
  MultiplyShape shape = shape_of();
  shape.maps = {{TileMap::Of::a, 32, 64, 0, 4}, {TileMap::Of::b, 96, 32, 0, 4}};
  const Plan plan = multiply_plan(problem, shape);
  ASSERT_EQ(plan.tensor_maps.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    const TensorMapRecipe& map = plan.tensor_maps[static_cast<std::size_t>(i)];
    EXPECT_EQ(map.base.kind, i < 4 ? Argument::Kind::a : Argument::Kind::b);
    EXPECT_EQ(map.stride.kind, i < 4 ? Argument::Kind::lda : Argument::Kind::ldb);
    EXPECT_EQ(map.row_classes, 4);
    EXPECT_EQ(map.row_class, i % 4);
    EXPECT_THAT(map.dims,
                i < 4 ? ElementsAre(problem.k, problem.m) : ElementsAre(problem.n, problem.k));
    EXPECT_THAT(map.box, i < 4 ? ElementsAre(32 + 4, 64 / 4) : ElementsAre(96 + 4, 32 / 4));
    EXPECT_EQ(map.swizzle_bytes, 0);
  }
}

}  // namespace
}  // namespace tilewise::multiply_plan_test
