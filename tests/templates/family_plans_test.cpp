// Properties of the plans of single kernel families: how the grid covers C, and the families' own
// arguments.
#include <gtest/gtest.h>

#include "tests/templates/random_plans.hpp"

namespace tilewise::family_plans_test {
namespace {

TEST(FamilyPlans, GridsCoverTheOutputExactlyOnce) {
  for_random_plans([](const Problem& problem, const Candidate& candidate, const Plan& plan,
                      const DeviceInfo& device) {
    if (candidate.kernel_template == "residues" || candidate.kernel_template == "halves")
      return;  // emulated_plan_test.cpp
    const LaunchStep& step = multiply_of(plan);
    const auto value = [&](const char* name) -> std::int64_t {
      const auto found = step.kernel.defines.find(name);
      return found == step.kernel.defines.end() ? 0 : found->second;
    };
    if (step.kernel.entry == "small") {  // blocks of several products, or of parts of one
      const auto blocks = std::int64_t(volume(step.grid));
      const std::int64_t of_a_block = value("PRODUCTS") * value("GROUPS");
      const std::int64_t parts = problem.batch * value("SPLIT_M");
      ASSERT_EQ(value("SIZE_M") * value("SPLIT_M"), problem.m);
      ASSERT_EQ(value("SIZE_N"), problem.n);
      ASSERT_EQ(step.arguments.back().value, parts);
      ASSERT_GE(blocks * of_a_block, parts);
      ASSERT_LT((blocks - 1) * of_a_block, parts);
      return;
    }
    std::int64_t tile_m = value("TILE") ? value("TILE") : value("TILE_M");
    std::int64_t tile_n = value("TILE") ? value("TILE") : value("TILE_N");
    if (step.kernel.entry == "skinny") {  // rows of the small operand, outputs of the large one
      const bool lanes_share_k =
          value("SMALL_OPERAND") ? !value("A_TRANSPOSED") : value("B_TRANSPOSED") != 0;
      tile_m = value("ROWS");
      tile_n = value("OUTPUTS") * value("WARPS_N") * (lanes_share_k ? 1 : 32);
      if (value("SMALL_OPERAND")) std::swap(tile_m, tile_n);
    }
    const bool persistent = step.kernel.entry == "wgmma";
    const std::int64_t cluster = persistent ? value("CLUSTER_M") * value("CLUSTER_N") : 1;
    const std::int64_t clusters_at_a_time =
        std::max<std::int64_t>(1, device.multiprocessors * value("BLOCKS_PER_SM") / cluster);
    if (persistent) {  // a cluster's tile
      tile_m *= value("CLUSTER_M");
      tile_n *= value("CLUSTER_N");
    }
    // These are tiles of another kind. The kernel checkers detect a tile that no block computes.
    if (tile_m == 0 || tile_n == 0) return;
    const auto order = [&](std::string_view name) { return argument_named(step, name).value; };
    const auto quotient = [&](const std::string& divisor, std::int64_t number) {
      return number * order(divisor) >> order(divisor + " shift");
    };
    const int* split = candidate.configuration.find("SPLIT_K");
    // SPLIT_K 0: enough splits to fill the device.
    const std::int64_t splits = split ? (*split > 0 ? *split : order("splits")) : 1;
    const std::int64_t tiles_m = (problem.m + tile_m - 1) / tile_m;
    const std::int64_t tiles_n = (problem.n + tile_n - 1) / tile_n;
    if (value("STREAM_K")) {  // blocks of whole tiles, then stream-K blocks
      const auto argument = [&](std::string_view name) {
        return argument_named(step, name, test::multiply_stream_k_arguments()).value;
      };
      const std::int64_t depth = argument("depth"), whole = argument("whole_tiles");
      const std::int64_t share = argument("share"), rest = tiles_m * tiles_n - whole;
      ASSERT_GT(rest, 0);
      ASSERT_GE(whole, 0);
      ASSERT_LE(share, depth);  // so a block (a cluster) has parts of two tiles at most
      const auto blocks = std::int64_t(volume(step.grid));
      if (persistent) {  // a cluster may have whole tiles, and then its share of the others
        const std::int64_t clusters = blocks / std::int64_t(step.cluster.x);
        ASSERT_EQ(clusters, std::max((rest * depth + share - 1) / share,
                                     std::min(whole, clusters_at_a_time)));
      } else {
        ASSERT_GE((blocks - whole) * share, rest * depth);
        ASSERT_LT((blocks - whole - 1) * share, rest * depth);
      }
      ASSERT_GE(depth * value("TILE_K"), problem.k);
    } else if (persistent) {  // as many clusters as run at a time, or one for each tile
      const std::int64_t items = tiles_m * tiles_n * splits * problem.batch;
      ASSERT_EQ(step.cluster.x, cluster);
      ASSERT_EQ(volume(step.grid), std::uint64_t(std::min(clusters_at_a_time, items) * cluster))
          << to_string(candidate);
    } else {
      ASSERT_EQ(volume(step.grid), std::uint64_t(tiles_m * tiles_n * splits * problem.batch))
          << to_string(candidate);
    }
    // The tile order (tile_of_block) must visit each tile once.
    ASSERT_EQ(order("tiles_m"), tiles_m);
    ASSERT_EQ(order("tiles_n"), tiles_n);
    const std::int64_t group_m = order("group_m");
    ASSERT_GE(group_m, 1);
    ASSERT_LE(group_m, tiles_m);
    const auto constant = step.kernel.defines.find("TILE_ROWS_TOGETHER");
    if (constant != step.kernel.defines.end()) {
      ASSERT_EQ(constant->second, group_m);
    }
    if (tiles_m * tiles_n > 4000) return;
    std::set<std::pair<std::int64_t, std::int64_t>> hit;
    for (std::int64_t block = 0; block < tiles_m * tiles_n; ++block) {
      const std::int64_t first = quotient("by_tiles_of_group", block) * group_m;
      const std::int64_t rows = std::min(tiles_m - first, group_m);
      const std::int64_t inside = block - first * tiles_n;
      const std::int64_t column =
          quotient(rows < group_m ? "by_last_group_m" : "by_group_m", inside);
      hit.emplace(first + inside - column * rows, column);
      ASSERT_EQ(quotient("by_tiles", block + tiles_m * tiles_n), 1);
    }
    ASSERT_EQ(std::int64_t(hit.size()), tiles_m * tiles_n);
    ASSERT_EQ(std::prev(hit.end())->first, tiles_m - 1);
  });
}

/// MultiplyArgs of templates/parts/arguments.cuh; only its size is used.
template <class Sum>
struct MultiplyArgs {
  const void* pointers[5];
  long long sizes[10];
  int splits, tiles_m, tiles_n, group_m, divisors[10];
  Sum alpha, beta;
};
// SimtArgs and WgmmaArgs with STREAM_K (in wgmma, tensor maps follow), and the arguments of
// stream_k.cu.
struct MultiplyStreamKArgs : MultiplyArgs<float> {
  float* partial;
  long long depth;
  int whole_tiles, share;
};
struct StreamKArgs {
  const float* partial;
  float* c;
  const float *alpha_device, *beta_device;
  long long ldc, m, n, depth;
  int group_m, whole_tiles, share;
  float alpha, beta;
};
template <class Sum>
struct SmallArgs : MultiplyArgs<Sum> {
  int products;
};

TEST(FamilyPlans, StreamKHasItsArgumentsAndMemory) {
  const auto check = [](const Problem& problem, const Plan& plan) {
    const LaunchStep& step = multiply_of(plan);
    const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
    const auto names = test::multiply_stream_k_arguments();
    ASSERT_EQ(layout.offsets[test::index_of("partial", names)], sizeof(MultiplyArgs<float>));
    ASSERT_EQ(layout.offsets[test::index_of("share", names)],
              sizeof(MultiplyStreamKArgs) - sizeof(int));
    const LaunchStep& sums = plan.steps.back();
    ASSERT_EQ(sums.kernel.entry, "stream_k");
    const ArgumentLayout of_sums = layout_of(sums.arguments, problem.accumulator);
    ASSERT_EQ(of_sums.bytes, sizeof(StreamKArgs));
    ASSERT_EQ(of_sums.offsets[test::index_of("share", test::stream_k_arguments())],
              offsetof(StreamKArgs, share));
    const auto of = [&](std::string_view name) {
      return argument_named(sums, name, test::stream_k_arguments()).value;
    };
    for (const std::string_view name : {"partial", "group_m", "depth", "whole_tiles", "share"})
      ASSERT_EQ(of(name), argument_named(step, name, names).value) << name;
    const std::int64_t tile_m = sums.kernel.defines.at("TILE_M");
    const std::int64_t tile_n = sums.kernel.defines.at("TILE_N");
    const std::int64_t tiles =
        ((problem.m + tile_m - 1) / tile_m) * ((problem.n + tile_n - 1) / tile_n);
    const std::int64_t all = (tiles - of("whole_tiles")) * of("depth");
    const std::int64_t blocks = (all + of("share") - 1) / of("share");
    ASSERT_GE(plan.workspace_bytes, of("partial") + blocks * 2 * tile_m * tile_n * 4);
  };
  std::mt19937_64 generator(7);
  const DeviceInfo device = nominal_device(best_target(9, 0));
  for (const auto& [name, type] :
       {std::pair{"simt", DType::f32}, std::pair{"wgmma", DType::bf16}}) {
    int found = 0;
    for (const std::int64_t m : {700, 1300, 2100}) {
      Problem problem = test::make_problem(Layout::nt, m, 3000, 2048);
      set_types(problem, type, type, MathMode::strict);
      const SearchSpace space(problem, device, select_templates({name}));
      for (int draw = 0; draw < 200; ++draw) {
        const auto candidate = space.random(generator);
        if (!candidate || candidate->configuration.at("STREAM_K") == 0) continue;
        ++found;
        check(problem, find_template(name).plan(problem, candidate->configuration, device));
      }
    }
    EXPECT_GT(found, 10) << name;
  }
}

TEST(FamilyPlans, SmallTakesTheNumberOfItsProducts) {
  std::int64_t found = 0;
  for_random_plans(
      [&](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        if (candidate.kernel_template != "small") return;
        ++found;
        const ArgumentLayout layout = layout_of(multiply_of(plan).arguments, problem.accumulator);
        const bool doubles = problem.accumulator == DType::f64;
        ASSERT_EQ(layout.bytes, doubles ? sizeof(SmallArgs<double>) : sizeof(SmallArgs<float>));
        ASSERT_EQ(layout.offsets[test::multiply_arguments().size()],
                  doubles ? sizeof(MultiplyArgs<double>) : sizeof(MultiplyArgs<float>));
      });
  EXPECT_GT(found, 10);
}

}  // namespace
}  // namespace tilewise::family_plans_test
