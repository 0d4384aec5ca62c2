// Splits of products on host pointers whose kernels take workspace: tiles and workspace together
// stay within the budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "api/host_pointers/host_plan.hpp"
#include "api/matmul_parts.hpp"
#include "matmul/portfolio.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::split_search_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Bytes of the partial sums of a k split in 32.
std::int64_t partial_sums(const Problem& problem) {
  return 32 * problem.batch * problem.m * problem.n * 4;
}

std::int64_t most_of(const HostPlan& plan, std::int64_t (*workspace_of)(const Problem&)) {
  std::int64_t most = 0;
  for (const Problem& problem : plan.problems()) most = std::max(most, workspace_of(problem));
  return most;
}

HostRates on_h200() {
  HostRates rates;
  rates.multiprocessors = 132;
  rates.flops = 200e12;
  return rates;
}

HostTask task_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  HostTask task;
  task.problem = typed_problem(Layout::tn, m, n, k, DType::f32, DType::f32, MathMode::tf32);
  return task;
}

std::string refusal(const HostTask& task, std::int64_t budget, const HostSettings& settings = {}) {
  try {
    fitting_split(task, budget, settings, on_h200(), partial_sums);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    return error.what();
  }
  return "no error";
}

// The workspace is 59 MB for the whole product, 8 MiB for a tile of 256 x 256.
TEST(FittingSplit, TilesShrinkUntilTheirWorkspaceFits) {
  const HostTask task = task_of(601, 770, 2065);
  int asked = 0;
  std::set<Problem> problems;
  const FittingSplit fit =
      fitting_split(task, 12 * kMiB, {}, on_h200(), [&](const Problem& problem) {
        ++asked;
        EXPECT_TRUE(problems.insert(problem).second) << to_string(problem) << " is asked twice";
        return partial_sums(problem);
      });
  EXPECT_LE(fit.bytes(), 12 * kMiB);
  EXPECT_EQ(fit.workspace, most_of(fit.plan, partial_sums));
  EXPECT_LE(asked, 40);
}

TEST(FittingSplit, ALimitOfTheSmallestTileAndItsWorkspaceIsEnough) {
  const HostTask task = task_of(601, 770, 2065);
  HostSettings smallest;
  smallest.granule = 64;
  EXPECT_EQ(smallest_split(task, {}), 786432);
  EXPECT_EQ(smallest_split(task, smallest), 49152);
  const std::int64_t least = 49152, sums = std::int64_t{32} * 64 * 64 * 4;
  EXPECT_THAT(refusal(task, 786431), HasSubstr("needs 786432 bytes"));
  const FittingSplit fit = fitting_split(task, 786432, {}, on_h200(), partial_sums);
  EXPECT_LT(fit.plan.shape.tile.m, 256) << "tiles of 256 x 256 leave no place for workspace";
  EXPECT_EQ(fitting_split(task, least + sums, smallest, on_h200(), partial_sums).bytes(),
            least + sums);
  EXPECT_THAT(refusal(task, least + sums - 1, smallest),
              AllOf(HasSubstr("needs 49152 bytes of device memory in its smallest split (tiles of "
                              "64 x 64, k in parts of 64)"),
                    HasSubstr("524288 bytes of workspace"), HasSubstr("may have 573439")));
}

// The kernels of edge tiles take more workspace than those of other tiles.
TEST(FittingSplit, EdgeTilesCount) {
  const auto of_edges = [](const Problem& problem) {
    return problem.m % 256 != 0 ? 5 * kMiB : std::int64_t{0};
  };
  const FittingSplit fit =
      fitting_split(task_of(601, 770, 2065), 12 * kMiB, {}, on_h200(), of_edges);
  EXPECT_EQ(fit.workspace, 5 * kMiB);
  EXPECT_LE(fit.bytes(), 12 * kMiB);
}

TEST(FittingSplit, WithoutWorkspaceItIsTheSplitThatWasChosen) {
  const HostTask task = task_of(601, 770, 2065);
  const FittingSplit fit =
      fitting_split(task, 8 * kMiB, {}, on_h200(), [](const Problem&) { return std::int64_t{0}; });
  EXPECT_EQ(fit.plan.split(), chosen_split(task, 8 * kMiB, {}, on_h200()).split());
}

TEST(FittingSplit, RandomProductsFitOrTheSmallestSplitDoesNot) {
  std::mt19937_64 random(8);
  HostSettings settings;
  settings.granule = 16;
  settings.single_bytes = 4096;
  int fitted = 0, refused = 0;
  for (int turn = 0; turn < 300; ++turn) {
    HostTask task;
    task.problem = test::random_typed_problem(random, 300);
    const auto budget =
        std::int64_t(operand_bytes(task.problem) / std::pow(2.0, double(random() % 6))) + 20'000;
    SCOPED_TRACE(to_string(task.problem) + " in " + std::to_string(budget));
    int asked = 0;
    const auto counted = [&](const Problem& problem) {
      ++asked;
      return partial_sums(problem);
    };
    try {
      const FittingSplit fit = fitting_split(task, budget, settings, on_h200(), counted);
      EXPECT_LE(fit.bytes(), budget);
      EXPECT_EQ(fit.workspace, most_of(fit.plan, partial_sums));
      ++fitted;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
      EXPECT_LT(budget, smallest_split(task, settings) + std::int64_t{32} * 16 * 16 * 4);
      ++refused;
    }
    EXPECT_LE(asked, 60);
  }
  EXPECT_GT(fitted, 100);
  EXPECT_GT(refused, 3);
}

// Kernels of the portfolio split k and pack; their workspace may be larger than the operands.
TEST(FittingSplit, EveryKindFitsOnAnH200WithAFewMebibytes) {
  for (const std::int64_t limit : {3 * kMiB, 12 * kMiB}) {
    auto device = std::make_unique<FakeDevice>();
    device->facts = nominal_device(parse_target("sm_90a"));
    device->facts.name = "NVIDIA H200";
    device->facts.multiprocessors = 132;
    MatmulParts limited;
    limited.device = std::move(device);
    limited.portfolio = portfolio_for;
    limited.host.single_bytes = 0;
    limited.host.memory_limit = limit;
    const Matmul matmul = make_matmul(std::move(limited));
    int turn = 0;
    for (const ProductKind& kind : test::one_type_kinds()) {
      const std::int64_t batch = ++turn % 3 == 0 ? 3 : 1;
      const Problem problem = typed_problem(test::kLayouts[turn % 4], 601, 770, 2065, kind.a,
                                            kind.b, kind.c, kind.math, batch);
      HostSplit split;
      ASSERT_NO_THROW(split = matmul.host_split(problem)) << to_string(problem);
      EXPECT_LE(split.device_bytes, limit) << to_string(problem);
    }
  }
}

}  // namespace
}  // namespace tilewise::split_search_test
