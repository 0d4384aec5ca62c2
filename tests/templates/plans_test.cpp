// Properties that the plans of every template of the catalog must have, over thousands of random
// problems and configurations. No GPU and no compiler: plans are pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/problems.hpp"

namespace tilewise {
namespace {

using test::make_problem;

DeviceInfo device_of(const char* target) { return nominal_device(parse_target(target)); }

const LaunchStep& multiply_of(const Plan& plan) {
  for (const LaunchStep& step : plan.steps)
    if (step.role == StepRole::multiply) return step;
  throw std::runtime_error("no multiply step");
}

struct Sample {
  Problem problem;
  Candidate candidate;
  Plan plan;
  DeviceInfo device;
};

/// Thousands of valid candidates for random problems on every target, drawn once.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> drawn = [] {
    std::vector<Sample> all;
    std::mt19937_64 generator(20261121);
    for (const Target& target : known_targets()) {
      const DeviceInfo device = nominal_device(target);
      for (int i = 0; i < 30; ++i) {
        const Problem problem = test::random_typed_problem(generator, 5000);
        const auto can = [&](const KernelTemplate& t) { return t.supports(problem, device); };
        if (std::none_of(catalog().begin(), catalog().end(), can)) continue;
        const SearchSpace space(problem, device, select_templates());
        for (int draw = 0; draw < 15; ++draw) {
          const auto candidate = space.random(generator);
          if (!candidate) continue;
          const KernelTemplate& kernel = find_template(candidate->kernel_template);
          all.push_back({problem, *candidate,
                         kernel.plan(problem, candidate->configuration, device), device});
        }
      }
    }
    return all;
  }();
  return drawn;
}

/// Calls `check(problem, candidate, plan, device)` for each of them.
template <class Check>
void for_random_plans(const Check& check) {
  for (const Sample& s : samples()) check(s.problem, s.candidate, s.plan, s.device);
  EXPECT_GT(samples().size(), 2000U);
}

// Each parameter reaches the kernel as a constant of its name and value, but those that only the
// plan reads: a parameter that never arrives would be measured as if it did something.
TEST(Plan, ParametersReachTheKernel) {
  const std::set<std::string> only_the_plans{"PACK_A", "PACK_B", "SPLIT_K", "RASTER"};
  for_random_plans(
      [&](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        const auto& defines = multiply_of(plan).kernel.defines;
        for (const auto& [name, value] : candidate.configuration.values()) {
          const auto found = defines.find(name);
          if (only_the_plans.contains(name)) {
            EXPECT_EQ(found, defines.end()) << name;
          } else {
            ASSERT_NE(found, defines.end()) << name << " " << to_string(problem);
            EXPECT_EQ(found->second, value) << name << " " << candidate.configuration.text();
          }
        }
      });
}

TEST(Plan, GridCoversTheOutputExactlyOnce) {
  for_random_plans(
      [](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        const LaunchStep& step = multiply_of(plan);
        const auto value = [&](const char* name) -> std::int64_t {
          const auto found = step.kernel.defines.find(name);
          return found == step.kernel.defines.end() ? 0 : found->second;
        };
        if (step.kernel.entry == "small") {  // blocks of several products, or of parts of them
          const auto blocks = std::int64_t(volume(step.grid));
          const std::int64_t of_a_block = value("PRODUCTS") * value("GROUPS");
          const std::int64_t parts = problem.batch * value("PARTS");
          ASSERT_EQ(value("SIZE_M") * value("PARTS"), problem.m);
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
              value("SWAP") ? !value("A_TRANSPOSED") : value("B_TRANSPOSED") != 0;
          tile_m = value("ROWS");
          tile_n = value("OUTPUTS") * value("WARPS_N") * (lanes_share_k ? 1 : 32);
          if (value("SWAP")) std::swap(tile_m, tile_n);
        }
        std::vector<std::int64_t> counts;  // raster, splits
        for (const Argument& a : step.arguments)
          if (a.kind == Argument::Kind::integer32) counts.push_back(a.value);
        ASSERT_GE(counts.size(), 2u);
        const int* split = candidate.configuration.find("SPLIT_K");
        // 0: as many as fill the device.
        const std::int64_t splits = split ? (*split > 0 ? *split : counts[1]) : 1;
        const std::int64_t tiles_m = (problem.m + tile_m - 1) / tile_m;
        const std::int64_t tiles_n = (problem.n + tile_n - 1) / tile_n;
        if (value("TAIL")) {  // whole tiles, and blocks that share out the rest
          const std::int64_t depth = step.arguments[19].value, whole = step.arguments[20].value;
          const std::int64_t share = step.arguments[21].value, rest = tiles_m * tiles_n - whole;
          const std::int64_t blocks = std::int64_t(volume(step.grid)) - whole;
          ASSERT_GT(rest, 0);
          ASSERT_GE(whole, 0);
          ASSERT_LE(share, depth);  // so a block meets two tiles at most
          ASSERT_GE(blocks * share, rest * depth);
          ASSERT_LT((blocks - 1) * share, rest * depth);
          ASSERT_GE(depth * value("TILE_K"), problem.k);
        } else {
          ASSERT_EQ(volume(step.grid), std::uint64_t(tiles_m * tiles_n * splits * problem.batch))
              << to_string(candidate);
        }
        // The kernel's raster order (tile_of_block) must hit each tile once.
        const std::int64_t raster = counts[0];
        ASSERT_GE(raster, 1);
        ASSERT_LE(raster, tiles_m);
        if (tiles_m * tiles_n > 4000) return;
        std::set<std::pair<std::int64_t, std::int64_t>> hit;
        for (std::int64_t block = 0; block < tiles_m * tiles_n; ++block) {
          const std::int64_t first = block / (raster * tiles_n) * raster;
          const std::int64_t rows = std::min(tiles_m - first, raster);
          const std::int64_t inside = block - first * tiles_n;
          hit.emplace(first + inside % rows, inside / rows);
        }
        ASSERT_EQ(std::int64_t(hit.size()), tiles_m * tiles_n);
        ASSERT_EQ(std::prev(hit.end())->first, tiles_m - 1);
      });
}

TEST(Plan, LaunchesFitTheDevice) {
  for_random_plans([](const Problem& problem, const Candidate& candidate, const Plan& plan,
                      const DeviceInfo& device) {
    for (const LaunchStep& step : plan.steps) {
      ASSERT_LE(volume(step.block), std::uint64_t(device.threads_per_block))
          << to_string(candidate);
      ASSERT_EQ(step.block.x % 32, 0u) << to_string(candidate);
      ASSERT_LE(step.grid.y, 65535u);
      ASSERT_LE(step.grid.z, 65535u);
      ASSERT_GT(volume(step.grid), 0u);
      ASSERT_LE(int(step.shared_bytes), device.shared_per_block) << to_string(candidate);
      ASSERT_LE(layout_of(step.arguments, problem.accumulator).bytes, 4096u);
    }
  });
}

TEST(Plan, StepsAreInOrderAndWorkspacePartsDoNotOverlap) {
  for_random_plans(
      [](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        int last = -1;
        std::set<std::int64_t> offsets;
        for (const LaunchStep& step : plan.steps) {
          ASSERT_GT(int(step.role), last) << to_string(candidate);
          last = int(step.role);
          for (const Argument& a : step.arguments)
            if (a.kind == Argument::Kind::workspace) {
              ASSERT_EQ(a.value % 256, 0);
              ASSERT_LT(a.value, plan.workspace_bytes);
              offsets.insert(a.value);
            }
        }
        const auto uses = [&](StepRole role) {
          for (const LaunchStep& step : plan.steps)
            if (step.role == role || (step.role == StepRole::pack_both && role < step.role))
              return true;
          return false;
        };
        std::int64_t least = 0;
        const int element = bytes_of(problem.a), sum = bytes_of(problem.accumulator);
        if (uses(StepRole::pack_a)) least += problem.batch * problem.m * problem.k * element;
        if (uses(StepRole::pack_b)) least += problem.batch * problem.k * problem.n * element;
        const int* tail = candidate.configuration.find("TAIL");
        if (tail && *tail == 1) {
          const LaunchStep& step = multiply_of(plan);
          const std::int64_t blocks = std::int64_t(volume(step.grid)) - step.arguments[20].value;
          least += blocks * 2 * candidate.configuration.at("TILE_M") *
                   candidate.configuration.at("TILE_N") * 4;
        } else if (uses(StepRole::reduce)) {
          least += problem.batch * 2 * problem.m * problem.n * sum;
        }
        ASSERT_GE(plan.workspace_bytes, least);
        ASSERT_EQ(offsets.size(), std::size_t(uses(StepRole::pack_a) + uses(StepRole::pack_b) +
                                              uses(StepRole::reduce)));
        ASSERT_EQ(plan.workspace_bytes == 0, offsets.empty());
      });
}

// The struct that multiply_args.cuh declares, and the one that reduce.cu and pack.cu declare.
template <class Sum>
struct MultiplyArgs {
  const void *a, *b, *c;
  const Sum *alpha_device, *beta_device;
  long long lda, ldb, ldc, stride_a, stride_b, stride_c, m, n, k;
  int raster, splits;
  Sum alpha, beta;
};
// simt_flow.cuh's, with TAIL and when TMA fills the tiles.
struct SimtTailArgs : MultiplyArgs<float> {
  float* partial;
  long long depth;
  int whole_tiles, share;
};
// small.cu's.
template <class Sum>
struct SmallArgs : MultiplyArgs<Sum> {
  int products;
};
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
template <class Args, std::size_t MAPS>
struct MapArgs : Args {
  TensorMap maps[MAPS];
};
struct TailArgs {
  const float* partial;
  float* c;
  const float *alpha_device, *beta_device;
  long long ldc, m, n, depth;
  int raster, whole_tiles, share;
  float alpha, beta;
};
template <class Sum>
struct ReduceArgs {
  const Sum* partial;
  void* c;
  const Sum *alpha_device, *beta_device;
  long long ldc, stride_c, m, n;
  int splits;
  Sum alpha, beta;
};
struct PackArgs {
  const char* from;
  char* to;
  long long from_ld, to_ld, from_stride, to_stride, rows, columns, to_rows;
};
struct PackBothArgs {
  PackArgs operands[2];
  int first_blocks;
};

/// Maps are a field, or two, of 1 (one operand's), 2 or 4 (its strands') each.
template <class Args>
std::size_t bytes_with_maps(std::size_t maps) {
  const std::size_t first = (sizeof(Args) + 63) / 64 * 64;
  EXPECT_EQ(sizeof(MapArgs<Args, 1>), first + 128);
  EXPECT_EQ(sizeof(MapArgs<Args, 8>), first + 8 * 128);
  return maps == 0 ? sizeof(Args) : first + maps * sizeof(TensorMap);
}

template <class Sum>
void check_multiply_arguments(const Problem& problem, const Plan& plan, const LaunchStep& step,
                              bool tail) {
  const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
  const std::size_t maps = plan.tensor_maps.size();
  std::size_t operands = 0, with_strands = 0;
  for (const TensorMapRecipe& map : plan.tensor_maps) {
    if (map.strand > 0) continue;
    ++operands;
    with_strands += static_cast<std::size_t>(map.strands);
  }
  ASSERT_LE(operands, 2u);
  ASSERT_EQ(maps, with_strands);
  if (tail) {
    ASSERT_EQ(layout.bytes, bytes_with_maps<SimtTailArgs>(maps));
    ASSERT_EQ(layout.offsets[18], sizeof(MultiplyArgs<Sum>));
    ASSERT_EQ(layout.offsets[21], sizeof(SimtTailArgs) - sizeof(int));
  } else if (step.kernel.entry == "small") {
    ASSERT_EQ(layout.bytes, sizeof(SmallArgs<Sum>));
    ASSERT_EQ(layout.offsets[18], sizeof(MultiplyArgs<Sum>));
  } else {
    ASSERT_EQ(layout.bytes, bytes_with_maps<MultiplyArgs<Sum>>(maps));
  }
  if (maps > 0) {
    ASSERT_EQ(layout.offsets.back(), layout.bytes - sizeof(TensorMap));
  }
  ASSERT_EQ(layout.offsets[8], offsetof(MultiplyArgs<Sum>, stride_a));
  ASSERT_EQ(layout.offsets[13], offsetof(MultiplyArgs<Sum>, k));
  ASSERT_EQ(layout.offsets[16], offsetof(MultiplyArgs<Sum>, alpha));
  ASSERT_EQ(layout.offsets[17], offsetof(MultiplyArgs<Sum>, beta));
  ASSERT_EQ(step.arguments[13].kind, Argument::Kind::k);
  ASSERT_EQ(step.arguments[11].value, problem.m);
}

template <class Sum>
void check_reduce_arguments(const Problem& problem, const LaunchStep& step) {
  const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
  ASSERT_EQ(layout.bytes, sizeof(ReduceArgs<Sum>));
  ASSERT_EQ(layout.offsets[8], offsetof(ReduceArgs<Sum>, splits));
  ASSERT_EQ(layout.offsets[10], offsetof(ReduceArgs<Sum>, beta));
}

TEST(Plan, ArgumentsMatchTheKernelsStructs) {
  for_random_plans(
      [](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        const bool doubles = problem.accumulator == DType::f64;
        for (const LaunchStep& step : plan.steps) {
          const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
          if (step.role == StepRole::multiply) {
            const int* tail = candidate.configuration.find("TAIL");
            if (doubles)
              check_multiply_arguments<double>(problem, plan, step, false);
            else
              check_multiply_arguments<float>(problem, plan, step, tail && *tail == 1);
          } else if (step.kernel.entry == "tail") {
            ASSERT_EQ(layout.bytes, sizeof(TailArgs));
            ASSERT_EQ(layout.offsets[10], offsetof(TailArgs, share));
          } else if (step.role == StepRole::reduce) {
            doubles ? check_reduce_arguments<double>(problem, step)
                    : check_reduce_arguments<float>(problem, step);
          } else {
            const bool both = step.role == StepRole::pack_both;
            ASSERT_EQ(layout.bytes, both ? sizeof(PackBothArgs) : sizeof(PackArgs));
            if (both) {
              ASSERT_EQ(layout.offsets.back(), offsetof(PackBothArgs, first_blocks));
              ASSERT_EQ(step.arguments.back().kind, Argument::Kind::blocks_a);
            }
            // Rows in the workspace start on lines and hold a whole row.
            for (std::size_t i = 3; i < step.arguments.size(); i += 9) {
              const std::int64_t ld_bytes = step.arguments[i].value * bytes_of(problem.a);
              ASSERT_EQ(ld_bytes % 128, 0);
              ASSERT_GE(ld_bytes, 128);
            }
          }
        }
      });
}

TEST(Plan, EmptyOutputsLaunchNothing) {
  const DeviceInfo device = device_of("sm_80");
  for (const KernelTemplate& kernel : catalog())
    for (const Problem& problem :
         {make_problem(Layout::nn, 0, 5, 5, 4), make_problem(Layout::tt, 5, 0, 5, 4)})
      for (const int bake : {0, 1}) {
        Configuration configuration = kernel.default_configuration(problem, device);
        if (configuration.find("BAKE")) configuration.set("BAKE", bake);
        EXPECT_TRUE(kernel.plan(problem, configuration, device).steps.empty()) << kernel.name;
      }
}

TEST(Plan, AnEmptySumStillWritesC) {
  const DeviceInfo device = device_of("sm_80");
  const Problem problem = make_problem(Layout::nn, 5, 7, 0, 4);
  for (const KernelTemplate& kernel : catalog())
    EXPECT_GT(volume(multiply_of(kernel.plan(problem, kernel.default_configuration(problem, device),
                                             device))
                         .grid),
              0u);
}

TEST(Plan, PackingTurnsTheLayoutAndPaysForItself) {
  const DeviceInfo device = device_of("sm_90a");
  const Problem problem = make_problem(Layout::nn, 1000, 1000, 1000, 4);
  const KernelTemplate& simt = find_template("simt");
  Configuration c = simt.default_configuration(problem, device);
  const Plan plain = simt.plan(problem, c, device);
  c.set("PACK_A", 2);
  c.set("TRANSPOSE_A", 0);
  c.set("VECTOR_A", 4);
  ASSERT_EQ(rejection(simt, problem, c, device), "");
  const Plan packed = simt.plan(problem, c, device);
  ASSERT_EQ(packed.steps.size(), 2u);
  EXPECT_EQ(packed.steps[0].role, StepRole::pack_a);
  EXPECT_EQ(packed.workspace_bytes, 1000 * 1024 * 4);
  EXPECT_EQ(packed.work.global_bytes - plain.work.global_bytes, 2.0 * 1000 * 1000 * 4);
  EXPECT_EQ(multiply_of(packed).kernel.defines.at("A_TRANSPOSED"), 1);
}

TEST(Work, CountsWhatIsAskedAndWhatIsIssued) {
  const DeviceInfo device = device_of("sm_90a");
  const Problem problem = make_problem(Layout::nn, 65, 64, 100, 4);
  const KernelTemplate& simt = find_template("simt");
  const Plan plan = simt.plan(problem, simt.default_configuration(problem, device), device);
  EXPECT_DOUBLE_EQ(plan.work.flops, 2.0 * 65 * 64 * 100);
  EXPECT_DOUBLE_EQ(plan.work.issued_flops, 2.0 * 128 * 64 * 112);
  EXPECT_DOUBLE_EQ(plan.work.global_bytes, (2 * (64 + 64) * 100 + 65 * 64) * 4.0);
}

}  // namespace
}  // namespace tilewise
