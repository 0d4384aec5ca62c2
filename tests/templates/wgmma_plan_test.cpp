// wgmma's plans: TMA's limits, rounding to tf32, and grids of GPUs of other sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "templates/families/wgmma/layout.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tests/templates/random_plans.hpp"

namespace tilewise::wgmma_plan_test {
namespace {

using testing::HasSubstr;

DeviceInfo h200() { return nominal_device(parse_target("sm_90a")); }
const KernelTemplate& wgmma() { return find_template("wgmma"); }

Problem problem_of(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType type,
                   MathMode math = MathMode::strict) {
  Problem problem = test::make_problem(layout, m, n, k);
  set_types(problem, type, type, math);
  return problem;
}

/// Bytes that the sharers copy of a tile: whole boxes, and where a share is inside in part edge
// boxes or panels.
int copied_by_share(const wgmma::TileLayout& tile, int inside, int of_edge) {
  int rows = 0;
  for (int nth = 0; nth < tile.sharers; ++nth) {
    const int first = nth * tile.share_rows();
    if (!tile.along_k || inside >= first + tile.share_rows()) {
      rows += tile.share_rows();
    } else {
      for (int row = first; row < inside; row += of_edge) rows += of_edge;
    }
  }
  if (tile.along_k) return rows * tile.row_bytes();
  int panels = 0;
  while (panels < tile.panels() && panels * tile.panel_columns() < inside) ++panels;
  return panels * rows * tile.width();
}

TEST(WgmmaTiles, AreCopiedButForWhatIsOutside) {
  int tiles = 0;
  for (int span = 8; span <= 384; span += 8)
    for (const int depth : {16, 32, 64, 128, 256})
      for (const int element : {1, 2, 4})
        for (const int sharers : {1, 2})
          for (const bool along_k : {false, true}) {
            const wgmma::TileLayout tile{span, depth, along_k, sharers, element};
            if (tile.row_bytes() % 32 != 0 || !tile.placed()) continue;
            ++tiles;
            const int share = tile.share_rows(), of_group = tile.edge_rows(0);
            ASSERT_EQ(share % of_group, 0) << span;
            ASSERT_EQ(of_group * tile.width() % 128, 0) << span;
            ASSERT_TRUE(!along_k || of_group <= 40);
            ASSERT_EQ(tile.copied_bytes(-8, of_group), 0);
            ASSERT_EQ(tile.copied_bytes(0, of_group), 0);
            for (int inside = 1; inside <= span + 1; ++inside) {
              ASSERT_EQ(tile.copied_bytes(inside, of_group),
                        copied_by_share(tile, inside, of_group));
              // The last rows of a matrix, before which there are 3 tiles.
              const int of_matrix = tile.edge_rows(3 * span + inside);
              const int copied = tile.copied_bytes(inside, of_matrix);
              ASSERT_EQ(copied, copied_by_share(tile, inside, of_matrix));
              ASSERT_TRUE(!along_k || copied == std::min(inside, span) * tile.row_bytes())
                  << span << " " << inside;
            }
            ASSERT_EQ(tile.copied_bytes(span + 1000, of_group), tile.bytes());
          }
  EXPECT_GT(tiles, 1000);
}

struct EdgeBoxes {
  std::vector<std::int64_t> rows;       // of the maps' boxes
  std::vector<std::int64_t> arguments;  // skip, edge_rows_a, edge_rows_b
};
EdgeBoxes edge_boxes(const Problem& problem, bool swap = false) {
  const bool narrow = problem.a.type != problem.b.type;
  const Configuration c{{"TILE_M", 64},   {"TILE_N", 128},  {"TILE_K", narrow ? 128 : 64},
                        {"CONSUMERS", 1}, {"PING_PONG", 0}, {"CLUSTER_M", 1},
                        {"CLUSTER_N", 2}, {"STAGES", 4},    {"SWAP_AB", swap},
                        {"PACK_A", 0},    {"PACK_B", 0},    {"EPILOGUE", 1},
                        {"VECTOR_C", 1},  {"SPLIT_K", 1},   {"STREAM_K", 0},
                        {"PROMOTE", 0},   {"GROUP_M", 1},   {"BLOCKS_PER_SM", 1}};
  const Plan plan = wgmma().plan(problem, c, h200());
  EdgeBoxes boxes;
  for (const TensorMapRecipe& map : plan.tensor_maps) boxes.rows.push_back(map.box[1]);
  // They come before the maps.
  std::vector<Argument> arguments = multiply_step(plan)->arguments;
  std::erase_if(arguments,
                [](const Argument& one) { return one.kind == Argument::Kind::tensor_map; });
  for (auto one = arguments.end() - 3; one != arguments.end(); ++one)
    boxes.arguments.push_back(one->value);
  return boxes;
}

// Where tiles extend past the edge, an edge box has the rows that are left.
TEST(WgmmaTiles, HaveEdgeBoxesOfTheRowsThatAreLeft) {
  using testing::ElementsAre;
  const auto of = [](std::int64_t m, std::int64_t n, Layout layout, bool swap = false) {
    return edge_boxes(problem_of(layout, m, n, 512, DType::bf16), swap);
  };
  for (const bool swap : {false, true}) {
    // Two blocks share a tile of A, and copy 32 rows each.
    EXPECT_THAT(of(128, 256, Layout::nt, swap).rows, ElementsAre(32, 128));
    EXPECT_THAT(of(128, 256, Layout::nt, swap).arguments, ElementsAre(0, 32, 128));
    EXPECT_THAT(of(100, 256, Layout::nt, swap).rows, ElementsAre(32, 128, 4));
    EXPECT_THAT(of(160, 300, Layout::nt, swap).rows, ElementsAre(32, 128, 44));
    EXPECT_THAT(of(9, 56, Layout::nt, swap).rows, ElementsAre(32, 128, 9, 56));
    EXPECT_THAT(of(9, 56, Layout::nt, swap).arguments, ElementsAre(1, 9, 56));
    // Across k a box has rows of k; only whole panels of 64 columns are left out.
    EXPECT_THAT(of(104, 304, Layout::tn, swap).rows, ElementsAre(32, 64));
    EXPECT_THAT(of(104, 304, Layout::tn, swap).arguments, ElementsAre(1, 32, 64));
    EXPECT_THAT(of(104, 500, Layout::tn, swap).arguments, ElementsAre(0, 32, 64));
  }
}

TEST(WgmmaTiles, HaveEdgeBoxesOfEveryKindOfProduct) {
  using testing::ElementsAre;
  // Both parts of an element are copied by the same boxes.
  Problem parts = problem_of(Layout::nt, 100, 300, 512, DType::f32, MathMode::f32x3);
  EXPECT_THAT(edge_boxes(parts).arguments, ElementsAre(1, 4, 44));
  // The rows of a group are any number, those of B are not.
  Problem grouped = problem_of(Layout::nt, 100, 300, 512, DType::bf16);
  grouped.batch = 8;
  grouped.grouping = Grouping::rows;
  EXPECT_THAT(edge_boxes(grouped).arguments, ElementsAre(1, 32, 44));
  Problem narrow = problem_of(Layout::nt, 100, 300, 512, DType::bf16);
  narrow.b.type = DType::i8;
  EXPECT_THAT(edge_boxes(narrow, true).arguments, ElementsAre(1, 4, 44));
}

// TMA's coordinates have 31 bits, and the last cluster's tiles extend past the edge.
TEST(WgmmaLimits, AreThoseOfTma) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 768;
  const auto supports = [](std::int64_t m, std::int64_t n, std::int64_t k, DType type,
                           MathMode math = MathMode::strict) {
    return wgmma().supports(problem_of(Layout::nt, m, n, k, type, math), h200());
  };
  EXPECT_TRUE(supports(most, 8, 16, DType::bf16));
  EXPECT_FALSE(supports(most + 1, 8, 16, DType::bf16));
  EXPECT_TRUE(supports(8, most, 16, DType::bf16));
  EXPECT_FALSE(supports(8, most + 1, 16, DType::bf16));
  EXPECT_TRUE(supports(8, 8, most, DType::bf16));
  EXPECT_FALSE(supports(8, 8, most + 1, DType::bf16));
  // Rows of the small parts follow those of the large parts.
  EXPECT_TRUE(supports(most / 2, 8, 16, DType::f32, MathMode::f32x3));
  EXPECT_FALSE(supports(most / 2 + 1, 8, 16, DType::f32, MathMode::f32x3));
}

TEST(WgmmaLimits, OfOtherFamiliesThatCopyByTma) {
  const Configuration mma{{"TILE_M", 64},  {"TILE_N", 64},        {"TILE_K", 32}, {"WARP_M", 32},
                          {"WARP_N", 32},  {"STAGES", 3},         {"TMA", 1},     {"BYTES_A", 16},
                          {"BYTES_B", 16}, {"SPECIALIZE_SIZE", 0}};
  const auto refusal = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem problem = problem_of(Layout::nt, m, n, k, DType::bf16);
    Configuration all = find_template("mma").default_configuration(problem, h200());
    for (const auto& [name, value] : mma.values()) all.set(name, value);
    all.set("SPLIT_K", 1);
    return rejection(find_template("mma"), problem, all, h200());
  };
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 768;
  EXPECT_EQ(refusal(most, 8, 16), "");
  EXPECT_EQ(refusal(8, most, 16), "");
  EXPECT_EQ(refusal(8, 8, most), "");
  EXPECT_THAT(refusal(most + 1, 8, 16), HasSubstr("tma_sizes"));
  EXPECT_THAT(refusal(8, most + 1, 16), HasSubstr("tma_sizes"));
  EXPECT_THAT(refusal(8, 8, most + 1), HasSubstr("tma_sizes"));
}

/// Calls `check` for candidates of a problem that are valid even without hints.
template <class Check>
void for_candidates(const Problem& problem, const DeviceInfo& device, const Check& check) {
  std::mt19937_64 generator(11);
  const SearchSpace space(problem, device, select_templates({"wgmma"}));
  int found = 0;
  for (int draw = 0; draw < 60; ++draw) {
    const auto candidate = space.random(generator);
    if (!candidate) continue;
    ++found;
    check(candidate->configuration, wgmma().plan(problem, candidate->configuration, device));
  }
  EXPECT_GT(found, 20) << to_string(problem);
}

const LaunchStep* pack_of(const Plan& plan) {
  return plan.steps.front().packs.empty() ? nullptr : &plan.steps.front();
}

// The instruction ignores the low bits of f32. TMA rounds an operand that it copies without a pack,
// and a pack rounds the others, so each is rounded once.
TEST(WgmmaRounding, IsOfEachTf32OperandOnce) {
  bool any[2][2] = {};  // [operand][packed]
  for (const Layout layout : test::kLayouts)
    for (const int alignment : {16, 4}) {
      Problem problem = problem_of(layout, 500, 700, 900, DType::f32, MathMode::tf32);
      problem.a.alignment = alignment;
      for_candidates(problem, h200(), [&](const Configuration& c, const Plan& plan) {
        for (const int of : {0, 1}) {
          const bool packed = c.at(of == 0 ? "PACK_A" : "PACK_B") != 0;
          any[of][packed] = true;
          ASSERT_EQ(plan.tensor_maps[std::size_t(of)].rounded, !packed) << c.text();
          if (!packed) continue;
          const LaunchStep* pack = pack_of(plan);
          ASSERT_NE(pack, nullptr) << c.text();
          ASSERT_EQ(pack->kernel.defines.at("ROUND"), 1);
          for (const Packing& packing : pack->packs) ASSERT_TRUE(packing.rounded);
        }
      });
    }
  for (const auto& of : any) EXPECT_TRUE(of[0] && of[1]);
}

TEST(WgmmaRounding, IsOfNothingElse) {
  for (const auto& [type, math] :
       {std::pair{DType::bf16, MathMode::strict}, {DType::f32, MathMode::f32x3}}) {
    const Problem problem = problem_of(Layout::nt, 500, 700, 900, type, math);
    for_candidates(problem, h200(), [](const Configuration& c, const Plan& plan) {
      for (const TensorMapRecipe& map : plan.tensor_maps) ASSERT_FALSE(map.rounded) << c.text();
      const LaunchStep* pack = pack_of(plan);
      ASSERT_TRUE(!pack || !pack->kernel.defines.contains("ROUND")) << c.text();
    });
  }
}

// The grid has as many clusters as run at a time, at least one, and none without work. No cluster
// waits for another: a later step adds sums that several clusters compute.
TEST(WgmmaGrid, FollowsFromTheMultiprocessors) {
  for (const int multiprocessors : {1, 7, 66, 114}) {
    DeviceInfo device = h200();
    device.multiprocessors = multiprocessors;
    int stream_k = 0, splits = 0;
    for (const std::int64_t m : {40, 1300, 3000}) {
      const Problem problem = problem_of(Layout::nt, m, 2000, 4096, DType::bf16);
      for_candidates(problem, device, [&](const Configuration& c, const Plan& plan) {
        const std::int64_t cluster = c.at("CLUSTER_M") * c.at("CLUSTER_N");
        const auto tiles = [](std::int64_t size, int tile) { return (size + tile - 1) / tile; };
        const std::int64_t items = tiles(problem.m, c.at("TILE_M") * c.at("CLUSTER_M")) *
                                   tiles(problem.n, c.at("TILE_N") * c.at("CLUSTER_N")) *
                                   c.at("SPLIT_K");
        const std::int64_t resident =
            std::max<std::int64_t>(1, multiprocessors * c.at("BLOCKS_PER_SM") / cluster);
        const LaunchStep& multiply = multiply_of(plan);
        ASSERT_EQ(multiply.cluster.x, std::uint32_t(cluster));
        ASSERT_EQ(multiply.grid.x % multiply.cluster.x, 0U);
        ASSERT_GE(multiply.grid.x, multiply.cluster.x);
        ASSERT_LE(multiply.grid.x, std::uint32_t(resident * cluster)) << c.text();
        if (c.at("STREAM_K") == 0) {
          ASSERT_EQ(multiply.grid.x, std::uint32_t(std::min(items, resident) * cluster));
        } else {
          ++stream_k;
          ASSERT_EQ(plan.steps.back().kernel.entry, "stream_k");
        }
        if (c.at("SPLIT_K") > 1) {
          ++splits;
          ASSERT_EQ(plan.steps.back().role, StepRole::reduce);
        }
      });
    }
    EXPECT_TRUE(stream_k > 0 || multiprocessors == 1) << multiprocessors;
    EXPECT_TRUE(splits > 0 || multiprocessors <= 7) << multiprocessors;
  }
}

}  // namespace
}  // namespace tilewise::wgmma_plan_test
