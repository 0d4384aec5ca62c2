// Properties that every template of the catalog must have, over thousands of random problems and
// configurations. No GPU and no compiler: constraints and plans are pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "templates/kernel_template.hpp"
#include "templates/search_space.hpp"
#include "templates/sources.hpp"
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
      for (int i = 0; i < 25; ++i) {
        const Problem problem = test::random_problem(generator, 5000);
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

TEST(Catalog, NamesAreUniqueAndEverythingIsExplained) {
  std::set<std::string> names;
  for (const KernelTemplate& kernel : catalog()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_FALSE(kernel.summary.empty());
    std::set<std::string> parameters, constraints;
    for (const Parameter& p : kernel.parameters) {
      EXPECT_TRUE(parameters.insert(p.name).second) << p.name;
      EXPECT_FALSE(p.help.empty()) << p.name;
      EXPECT_EQ(std::set<int>(p.values.begin(), p.values.end()).size(), p.values.size()) << p.name;
      EXPECT_TRUE(p.labels.empty() || p.labels.size() == p.values.size()) << p.name;
    }
    for (const Constraint& c : kernel.constraints) {
      EXPECT_TRUE(constraints.insert(c.name).second) << c.name;
      EXPECT_FALSE(c.text.empty()) << c.name;
      for (const std::string& read : c.reads)
        EXPECT_TRUE(parameters.contains(read)) << c.name << " reads " << read;
    }
  }
}

// A constraint's verdict may depend on nothing but the parameters it says it reads: the search
// prunes on partial configurations by that list.
TEST(Catalog, ConstraintsReadWhatTheyDeclare) {
  std::mt19937_64 generator(7);
  for (const KernelTemplate& kernel : catalog()) {
    for (int i = 0; i < 3000; ++i) {
      const Problem problem = test::random_problem(generator, 3000);
      const DeviceInfo device =
          nominal_device(known_targets()[generator() % known_targets().size()]);
      Configuration full;
      for (const Parameter& p : kernel.parameters)
        full.set(p.name, p.values[generator() % p.values.size()]);
      for (const Constraint& c : kernel.constraints) {
        Configuration partial;
        for (const std::string& name : c.reads) partial.set(name, full.at(name));
        EXPECT_EQ(c.holds({problem, full, device}), c.holds({problem, partial, device}))
            << kernel.name << ' ' << c.name << ' ' << full.text();
      }
    }
  }
}

TEST(Catalog, DefaultsServeEveryProblem) {
  std::mt19937_64 generator(3);
  for (const Target& target : known_targets()) {
    const DeviceInfo device = nominal_device(target);
    for (int i = 0; i < 300; ++i) {
      Problem problem = test::random_problem(generator, 100000);
      problem.alignment = {4, 4, 4};
      for (const KernelTemplate& kernel : catalog())
        EXPECT_EQ(rejection(kernel, problem, kernel.default_configuration(problem, device), device),
                  "")
            << kernel.name << ' ' << to_string(problem) << ' ' << to_string(target);
    }
  }
}

TEST(Catalog, EveryValueOfEveryParameterIsReachable) {
  // Over aligned and unaligned problems, big and long, every value must be valid somewhere on
  // sm_90a.
  const DeviceInfo device = device_of("sm_90a");
  std::mt19937_64 generator(11);
  const Problem problems[] = {
      make_problem(Layout::nn, 4096, 4096, 4096), make_problem(Layout::nt, 4095, 4095, 4095, 4),
      make_problem(Layout::tn, 128, 128, 65536),  make_problem(Layout::tt, 1000, 1000, 1000),
      make_problem(Layout::nt, 16, 4096, 16384),  make_problem(Layout::tn, 8192, 16, 8192)};
  for (const KernelTemplate& kernel : catalog())
    for (const Parameter& p : kernel.parameters)
      for (const int value : p.values)
        EXPECT_TRUE(
            std::any_of(std::begin(problems), std::end(problems),
                        [&](const Problem& problem) {
                          const SearchSpace space(problem, device, {&kernel}, {{p.name, {value}}});
                          return space.random(generator).has_value();
                        }))
            << kernel.name << ' ' << p.name << '=' << value;
}

TEST(Plan, GridCoversTheOutputExactlyOnce) {
  for_random_plans(
      [](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        const LaunchStep& step = multiply_of(plan);
        const auto value = [&](const char* name) -> std::int64_t {
          for (const auto& [key, v] : step.kernel.defines)
            if (key == name) return v;
          return 0;
        };
        std::int64_t tile_m = value("TILE") ? value("TILE") : value("TILE_M");
        std::int64_t tile_n = value("TILE") ? value("TILE") : value("TILE_N");
        if (step.kernel.entry == "skinny") {  // rows of the small operand, outputs of the large one
          const bool lanes_share_k =
              value("SWAP") ? !value("A_TRANSPOSED") : value("B_TRANSPOSED") != 0;
          tile_m = value("ROWS");
          tile_n = value("OUTPUTS") * value("WARPS_N") * (lanes_share_k ? 1 : 32);
          if (value("SWAP")) std::swap(tile_m, tile_n);
        }
        const int* split = candidate.configuration.find("SPLIT_K");
        const std::int64_t splits = split ? *split : 1;
        const std::int64_t tiles_m = (problem.m + tile_m - 1) / tile_m;
        const std::int64_t tiles_n = (problem.n + tile_n - 1) / tile_n;
        if (value("TAIL")) {  // whole tiles, and blocks that share out the rest
          const std::int64_t depth = step.arguments[16].value, whole = step.arguments[17].value;
          const std::int64_t share = step.arguments[18].value, rest = tiles_m * tiles_n - whole;
          const std::int64_t blocks = std::int64_t(volume(step.grid)) - whole;
          ASSERT_GT(rest, 0);
          ASSERT_GE(whole, 0);
          ASSERT_LE(share, depth);  // so a block meets two tiles at most
          ASSERT_GE(blocks * share, rest * depth);
          ASSERT_LT((blocks - 1) * share, rest * depth);
          ASSERT_GE(depth * value("TILE_K"), problem.k);
        } else {
          ASSERT_EQ(volume(step.grid), std::uint64_t(tiles_m * tiles_n * splits))
              << to_string(candidate);
        }
        // The kernel's raster order (tile_of_block) must hit each tile once.
        std::int64_t raster = 0;
        for (const Argument& a : step.arguments)
          if (a.kind == Argument::Kind::integer32 && raster == 0) raster = a.value;
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
            if (step.role == role) return true;
          return false;
        };
        std::int64_t least = 0;
        if (uses(StepRole::pack_a)) least += problem.m * problem.k * 4;
        if (uses(StepRole::pack_b)) least += problem.k * problem.n * 4;
        const int* tail = candidate.configuration.find("TAIL");
        if (tail && *tail == 1) {
          const LaunchStep& step = multiply_of(plan);
          const std::int64_t blocks = std::int64_t(volume(step.grid)) - step.arguments[17].value;
          least += blocks * 2 * candidate.configuration.at("TILE_M") *
                   candidate.configuration.at("TILE_N") * 4;
        } else if (uses(StepRole::reduce)) {
          least += 2 * problem.m * problem.n * 4;
        }
        ASSERT_GE(plan.workspace_bytes, least);
        ASSERT_EQ(offsets.size(), std::size_t(uses(StepRole::pack_a) + uses(StepRole::pack_b) +
                                              uses(StepRole::reduce)));
        ASSERT_EQ(plan.workspace_bytes == 0, offsets.empty());
      });
}

// The struct that multiply_args.cuh declares, and the one that reduce.cu and pack.cu declare.
struct MultiplyArgs {
  const float *a, *b;
  float* c;
  const float *alpha_device, *beta_device;
  long long lda, ldb, ldc, m, n, k;
  int raster, splits;
  float alpha, beta;
};
// simt_flow.cuh's, with TAIL and when TMA fills the tiles.
struct SimtTailArgs : MultiplyArgs {
  float* partial;
  long long depth;
  int whole_tiles, share;
};
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
struct SimtOneMapArgs : MultiplyArgs {
  TensorMap map;
};
struct SimtMapArgs : MultiplyArgs {
  TensorMap a_map, b_map;
};
static_assert(sizeof(SimtTailArgs) % alignof(TensorMap) == 0, "maps follow at once");
struct TailArgs {
  const float* partial;
  float* c;
  const float *alpha_device, *beta_device;
  long long ldc, m, n, depth;
  int raster, whole_tiles, share;
  float alpha, beta;
};
struct ReduceArgs {
  const float* partial;
  float* c;
  const float *alpha_device, *beta_device;
  long long ldc, m, n;
  int splits;
  float alpha, beta;
};
struct PackArgs {
  const float* from;
  float* to;
  long long from_ld, to_ld, rows, columns;
};

TEST(Plan, ArgumentsMatchTheKernelsStructs) {
  for_random_plans(
      [](const Problem& problem, const Candidate& candidate, const Plan& plan, const DeviceInfo&) {
        for (const LaunchStep& step : plan.steps) {
          const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
          if (step.role == StepRole::multiply) {
            const int* tail = candidate.configuration.find("TAIL");
            const std::size_t maps = plan.tensor_maps.size();
            ASSERT_LE(maps, 2u);
            if (tail && *tail == 1) {
              ASSERT_EQ(layout.bytes, sizeof(SimtTailArgs) + maps * sizeof(TensorMap));
              ASSERT_EQ(layout.offsets[15], sizeof(MultiplyArgs));
              ASSERT_EQ(layout.offsets[18], sizeof(SimtTailArgs) - sizeof(int));
            } else if (maps > 0) {
              ASSERT_EQ(layout.bytes, maps == 2 ? sizeof(SimtMapArgs) : sizeof(SimtOneMapArgs));
            } else {
              ASSERT_EQ(layout.bytes, sizeof(MultiplyArgs));
            }
            if (maps > 0) {
              ASSERT_EQ(layout.offsets.back(), layout.bytes - sizeof(TensorMap));
            }
            ASSERT_EQ(layout.offsets[10], offsetof(MultiplyArgs, k));
            ASSERT_EQ(layout.offsets[13], offsetof(MultiplyArgs, alpha));
            ASSERT_EQ(step.arguments[10].kind, Argument::Kind::k);
            ASSERT_EQ(step.arguments[8].value, problem.m);
          } else if (step.kernel.entry == "tail") {
            ASSERT_EQ(layout.bytes, sizeof(TailArgs));
            ASSERT_EQ(layout.offsets[10], offsetof(TailArgs, share));
          } else if (step.role == StepRole::reduce) {
            ASSERT_EQ(layout.bytes, sizeof(ReduceArgs));
            ASSERT_EQ(layout.offsets[7], offsetof(ReduceArgs, splits));
          } else {
            ASSERT_EQ(layout.bytes, sizeof(PackArgs));
            // Rows in the workspace start on lines and hold a whole row.
            const Argument& ld = step.arguments[3];
            ASSERT_EQ(ld.value % 32, 0);
            ASSERT_GE(ld.value, 32);
          }
        }
      });
}

TEST(Plan, EmptyOutputsLaunchNothing) {
  const DeviceInfo device = device_of("sm_80");
  for (const KernelTemplate& kernel : catalog())
    for (const Problem& problem :
         {make_problem(Layout::nn, 0, 5, 5, 4), make_problem(Layout::tt, 5, 0, 5, 4)})
      EXPECT_TRUE(kernel.plan(problem, kernel.default_configuration(problem, device), device)
                      .steps.empty());
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
  const auto& defines = multiply_of(packed).kernel.defines;
  EXPECT_TRUE(std::count(defines.begin(), defines.end(),
                         std::pair<std::string, std::int64_t>("A_TRANSPOSED", 1)));
}

TEST(Rejection, NamesTheConstraint) {
  const DeviceInfo device = device_of("sm_75");
  const Problem problem = make_problem(Layout::nn, 1000, 1000, 1000, 4);
  const KernelTemplate& simt = find_template("simt");
  const Configuration good = simt.default_configuration(problem, device);
  const auto with = [&](const char* name, int value) {
    Configuration c = good;
    c.set(name, value);
    return rejection(simt, problem, c, device);
  };
  EXPECT_EQ(with("TILE_M", 64), "");
  EXPECT_NE(with("TILE_M", 48).find("TILE_M"), std::string::npos);
  EXPECT_NE(with("VECTOR_A", 4).find("aligned_a"), std::string::npos);
  EXPECT_NE(with("PREFETCH", 4).find("cp_async"), std::string::npos);
  EXPECT_NE(with("BOGUS", 1).find("BOGUS"), std::string::npos);
  EXPECT_NE(with("THREAD_N", 16).find("warps_tile_n"), std::string::npos);
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

TEST(Sources, HashIgnoresCommentsAndSeesTheRest) {
  add_kernel_source(
      {"hash_a.cu", "#include \"hash.cuh\"\nint x;  // one\n", {{"hash.cuh", "int y;"}}});
  add_kernel_source(
      {"hash_b.cu", "#include \"hash.cuh\"\nint   x;/* two */\n\n", {{"hash.cuh", "int y;"}}});
  add_kernel_source({"hash_c.cu", "#include \"hash.cuh\"\nint x;\n", {{"hash.cuh", "int z;"}}});
  // The file's name is part of a KernelSpec, so compare texts under one name through their headers.
  const auto hash = [](const char* source, std::int64_t value, const char* compiler) {
    return source_hash({source, "k", {{"X", value}}}, compiler);
  };
  EXPECT_EQ(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 1, "c"));
  EXPECT_NE(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 2, "c"));
  EXPECT_NE(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 1, "d"));
  EXPECT_EQ(kernel_text_hash("hash_a.cu"), kernel_text_hash("hash_b.cu"));
  EXPECT_NE(kernel_text_hash("hash_a.cu"), kernel_text_hash("hash_c.cu"));
  EXPECT_THROW(kernel_source("none.cu"), std::exception);
  EXPECT_THROW(add_kernel_source({"simt.cu", "", {}}), std::exception);
}

}  // namespace
}  // namespace tilewise
