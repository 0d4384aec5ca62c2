// How products on host pointers are split: every tile occurs once, with its blocks in place and in
// bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "api/host_pointers/host_plan.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::host_plan_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using Block = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Block block_of(const HostPlan& plan, HostOperand operand, const HostTile& tile) {
  const HostBlock x = plan.block(operand, tile);
  return {x.z, x.row, x.column};
}

/// Follows the order of tiles: the contents of each slot, and when they may be replaced.
void check_order(const HostPlan& plan) {
  std::map<std::pair<HostOperand, int>, Block> held;
  std::map<std::pair<HostOperand, int>, std::int64_t> last_use;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> seen;
  std::int64_t copy = 0;
  const auto number_of = [](const auto& uses, const auto& place) {
    const auto found = uses.find(place);
    return found == uses.end() ? -1 : found->second;
  };
  for (std::int64_t t = 0; t < std::ssize(plan.tiles); ++t) {
    const HostTile& tile = plan.tiles[std::size_t(t)];
    ASSERT_TRUE(seen.insert({tile.z, tile.i, tile.j, tile.p}).second);
    bool copied_c = false;
    for (; copy < tile.next_copy; ++copy) {
      const HostCopy& made = plan.copies[std::size_t(copy)];
      ASSERT_EQ(made.tile, t);
      const std::pair place{made.operand, made.slot};
      ASSERT_LT(made.slot, plan.shape.slots[std::size_t(made.operand)]);
      ASSERT_EQ(made.after, number_of(last_use, place)) << "a slot is free after its last use";
      held[place] = block_of(plan, made.operand, tile);
      copied_c |= made.operand == HostOperand::c;
    }
    for (const HostOperand operand : kHostOperands) {
      const std::pair place{operand, tile.slots[std::size_t(operand)]};
      if (operand == HostOperand::c) {
        ASSERT_EQ(copied_c, plan.task.reads_c && tile.begins);
        if (tile.begins) {
          ASSERT_EQ(tile.c_after, number_of(last_use, place));
          held[place] = block_of(plan, operand, tile);
        }
      }
      if (operand != HostOperand::c && plan.task.problem.k == 0) continue;
      ASSERT_EQ(held.at(place), block_of(plan, operand, tile)) << "tile " << t;
      last_use[place] = t;
    }
  }
  EXPECT_EQ(copy, std::ssize(plan.copies));
  EXPECT_EQ(std::ssize(plan.tiles),
            plan.parts_m() * plan.parts_n() * plan.parts_k() * plan.parts_batch());
}

void check_problems(const HostPlan& plan) {
  const std::vector<Problem> problems = plan.problems();
  EXPECT_LE(problems.size(), 16U);
  double flops = 0;
  for (const HostTile& tile : plan.tiles) {
    const Problem problem = plan.problem_of(tile);
    ASSERT_THAT(problems, testing::Contains(problem));
    flops += flops_of(problem);
    for (const HostOperand operand : kHostOperands)
      ASSERT_LE(plan.bytes(operand, plan.block(operand, tile)), plan.slot_bytes(operand));
  }
  EXPECT_DOUBLE_EQ(flops, flops_of(plan.task.problem));
}

TEST(HostPlan, EveryTileOnceWithItsBlocksWithinTheBudget) {
  std::mt19937_64 random(5);
  HostSettings settings;
  settings.granule = 16;
  settings.single_bytes = 4096;
  int refused = 0, parts = 0, groups = 0, whole = 0, batches = 0;
  for (int turn = 0; turn < 400; ++turn) {
    HostTask task;
    task.problem = test::random_typed_problem(random, 300);
    task.reads_c = random() % 2;
    if (task.problem.batch > 1) task.shares_a = random() % 2, task.shares_b = random() % 2;
    if (random() % 16 == 0) task.problem.k = 0;
    HostRates rates;
    rates.multiprocessors = 132;
    if (random() % 2) rates.flops = std::pow(10.0, 12 + double(random() % 4));
    const auto budget =
        std::int64_t(operand_bytes(task.problem) / std::pow(2.0, double(random() % 10))) + 2000;
    SCOPED_TRACE(to_string(task.problem) + " in " + std::to_string(budget));
    try {
      HostPlan plan = chosen_split(task, budget, settings, rates);
      put_in_order(plan);
      EXPECT_LE(plan.slots_bytes(), budget);
      check_order(plan);
      check_problems(plan);
      const HostSplit split = plan.split();
      EXPECT_EQ(split.tiles, std::ssize(plan.tiles));
      EXPECT_EQ(split.expected_seconds > 0, rates.flops > 0);
      parts += plan.parts_k() > 1, whole += plan.shape.single;
      groups += plan.parts_k() == 1 && plan.tiles.size() > 1;
      batches += plan.shape.tile.batch > 1 && plan.parts_batch() > 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
      ++refused;
    }
    if (testing::Test::HasFailure()) return;
  }
  for (const int count : {refused, parts, groups, whole, batches}) EXPECT_GT(count, 3);
}

HostTask square(std::int64_t n, DType type, DType c, Layout layout = Layout::nn) {
  HostTask task;
  task.problem = typed_problem(layout, n, n, n, type, c);
  return task;
}

HostPlan on_h200(const HostTask& task, std::int64_t budget, double flops) {
  HostRates rates;
  rates.multiprocessors = 132;
  rates.flops = flops;
  HostPlan plan = chosen_split(task, budget, {}, rates);
  put_in_order(plan);
  return plan;
}

TEST(HostPlan, WhatFitsIsCopiedOnceInManyTiles) {
  for (const auto& [type, flops] : {std::pair{DType::f32, 50e12}, {DType::bf16, 700e12}}) {
    const HostTask task = square(16384, type, type, Layout::nt);
    const HostSplit split = on_h200(task, 100'000 * kMiB, flops).split();
    EXPECT_DOUBLE_EQ(double(split.bytes_up + split.bytes_down), operand_bytes(task.problem));
    EXPECT_GT(split.tiles, 8);
    const double bound = std::max(flops_of(task.problem) / flops, double(split.bytes_up) / 50e9);
    EXPECT_LT(split.expected_seconds, bound * 1.15) << to_string(split);
  }
}

/// In nn, blocks of B are parts of rows. The link takes longer for parts of rows, so wider blocks
/// are chosen.
TEST(HostPlan, BlocksOfPartsOfRowsAreWide) {
  const auto plan_of = [](Layout layout) {
    return on_h200(square(16384, DType::bf16, DType::bf16, layout), 100'000 * kMiB, 700e12);
  };
  const HostPlan whole_rows = plan_of(Layout::nt), parts_of_rows = plan_of(Layout::nn);
  EXPECT_GT(parts_of_rows.shape.tile.n, whole_rows.shape.tile.n);
  EXPECT_GT(parts_of_rows.shape.seconds, whole_rows.shape.seconds);
  EXPECT_LT(parts_of_rows.shape.seconds, 1.3 * whole_rows.shape.seconds);
}

TEST(HostPlan, AThirdOfTheMemoryStaysNearTheBound) {
  for (const auto& [type, flops] : {std::pair{DType::f32, 50e12}, {DType::bf16, 700e12}}) {
    const HostTask task = square(16384, type, type, Layout::nt);
    const double bytes = operand_bytes(task.problem);
    const HostPlan plan = on_h200(task, std::int64_t(bytes / 3), flops);
    const double bound = std::max(flops_of(task.problem) / flops, bytes * 2 / 3 / 50e9);
    EXPECT_LT(plan.split().expected_seconds, bound * 1.5) << to_string(plan.split());
  }
}

/// 131072 x 131072 of bf16 is 32 GiB; tiles with all of k would have 1024 columns in 1 GiB.
TEST(HostPlan, AVeryLongSumIsSplitAndAddedInF32) {
  const HostPlan plan = on_h200(square(131072, DType::bf16, DType::bf16), 1024 * kMiB, 700e12);
  EXPECT_LT(plan.shape.tile.k, 131072);
  EXPECT_EQ(plan.shape.c, DType::f32);
  EXPECT_EQ(plan.problem_of({}).c.type, DType::f32);
  EXPECT_EQ(plan.split().bytes_down, 4 * std::int64_t{131072} * 131072);
}

TEST(HostPlan, OddRowsArePaddedSoThatTilesAreAligned) {
  const HostTask task = square(8191, DType::f32, DType::f32);
  const HostPlan plan = on_h200(task, 100'000 * kMiB, 50e12);
  for (const Problem& problem : plan.problems())
    EXPECT_EQ(alignment_of(problem), (Alignment{16, 16, 16})) << to_string(problem);
}

TEST(HostPlan, ManySmallProductsShareATile) {
  HostTask task;
  task.problem = typed_problem<float, float>(Layout::nn, 64, 64, 64, MathMode::strict, 100'000);
  const HostPlan plan = on_h200(task, 1024 * kMiB, 5e12);
  EXPECT_GT(plan.shape.tile.batch, 100);
  EXPECT_GT(plan.split().tiles, 8);
  EXPECT_DOUBLE_EQ(double(plan.split().bytes_up), operand_bytes(task.problem) / 3 * 2);
}

TEST(HostPlan, TooLittleMemoryIsRefusedWithWhatIsNeeded) {
  try {
    on_h200(square(16384, DType::f32, DType::f32), 700'000, 50e12);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("needs 786432 bytes"),
                                             testing::HasSubstr("may have 700000")));
  }
}

TEST(HostPlan, IsSaidInOneLineAndInJson) {
  const HostSplit split =
      on_h200(square(16384, DType::f32, DType::f32), 1024 * kMiB, 50e12).split();
  EXPECT_THAT(to_string(split), testing::HasSubstr("tiles of"));
  EXPECT_THAT(to_json(split), testing::HasSubstr("\"bytes_up\":" + std::to_string(split.bytes_up)));
}

}  // namespace
}  // namespace tilewise::host_plan_test
