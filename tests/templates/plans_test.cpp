// Properties of the plans of every template of the catalog, over thousands of random problems and
// configurations. Needs no GPU and no compiler: plans are pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/templates/random_plans.hpp"

namespace tilewise::plans_test {
namespace {

using test::make_problem;

DeviceInfo device_of(const char* target) { return nominal_device(parse_target(target)); }

// Each parameter is a constant with its name and value in the kernel, except those that only the
// plan reads. A parameter that did not reach the kernel would be measured as if it had an effect.
TEST(Plan, ParametersReachTheKernel) {
  const std::set<std::string> only_the_plans{"PACK_A", "PACK_B", "SPLIT_K", "GROUP_M"};
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
        if (candidate.kernel_template == "residues" || candidate.kernel_template == "halves")
          return;  // emulated_plan_test.cpp
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
        const int element = bytes_of(problem.a.type), sum = bytes_of(problem.accumulator);
        if (uses(StepRole::pack_a)) least += problem.batch * problem.m * problem.k * element;
        if (uses(StepRole::pack_b)) least += problem.batch * problem.k * problem.n * element;
        const std::int64_t splits = argument_named(multiply_of(plan), "splits").value;
        if (uses(StepRole::reduce) && splits > 1)
          least += problem.batch * splits * problem.m * problem.n * sum;
        ASSERT_GE(plan.workspace_bytes, least);
        ASSERT_EQ(offsets.size(), std::size_t(uses(StepRole::pack_a) + uses(StepRole::pack_b) +
                                              uses(StepRole::reduce)));
        ASSERT_EQ(plan.workspace_bytes == 0, offsets.empty());
      });
}

// The structs of parts/arguments.cuh, reduce.cu and pack.cu.
template <class Sum>
struct MultiplyArgs {
  const void *a, *b, *c;
  const Sum *alpha_device, *beta_device;
  long long lda, ldb, ldc, stride_a, stride_b, stride_c, m, n, k, part_tiles;
  int splits, tiles_m, tiles_n, group_m, divisors[10];
  Sum alpha, beta;
};
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
template <class Args, std::size_t MAPS>
struct MapArgs : Args {
  TensorMap maps[MAPS];
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

/// MultiplyArgs is first, tensor maps are last, the family's own arguments between them. Equal maps
/// are one map of the plan.
template <class Sum>
void check_multiply_arguments(const Problem& problem, const Plan& plan, const LaunchStep& step) {
  const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
  const auto is_map = [](const Argument& one) { return one.kind == Argument::Kind::tensor_map; };
  const auto maps =
      static_cast<std::size_t>(std::count_if(step.arguments.begin(), step.arguments.end(), is_map));
  const std::size_t common = test::multiply_arguments().size();
  ASSERT_GE(step.arguments.size(), common + maps);
  if (step.arguments.size() == common) {
    ASSERT_EQ(layout.bytes, sizeof(MultiplyArgs<Sum>));
  } else {
    ASSERT_GE(layout.offsets[common], sizeof(MultiplyArgs<Sum>));
  }
  std::int64_t known = 0;
  for (std::size_t map = 0; map < maps; ++map) {
    const std::size_t place = step.arguments.size() - maps + map;
    ASSERT_TRUE(is_map(step.arguments[place]));
    ASSERT_LE(step.arguments[place].value, known) << "the next one, or one before";
    known = std::max(known, step.arguments[place].value + 1);
    ASSERT_EQ(layout.offsets[place], layout.bytes - (maps - map) * sizeof(TensorMap));
    ASSERT_EQ(layout.offsets[place] % alignof(TensorMap), 0u);
  }
  ASSERT_EQ(known, std::ssize(plan.tensor_maps));
  const std::set<TensorMapRecipe> unlike(plan.tensor_maps.begin(), plan.tensor_maps.end());
  ASSERT_EQ(unlike.size(), plan.tensor_maps.size());
  const auto offset_of = [&](std::string_view name) {
    return layout.offsets[test::index_of(name, test::multiply_arguments())];
  };
  ASSERT_EQ(offset_of("stride_a"), offsetof(MultiplyArgs<Sum>, stride_a));
  ASSERT_EQ(offset_of("k"), offsetof(MultiplyArgs<Sum>, k));
  ASSERT_EQ(offset_of("alpha"), offsetof(MultiplyArgs<Sum>, alpha));
  ASSERT_EQ(offset_of("beta"), offsetof(MultiplyArgs<Sum>, beta));
  ASSERT_EQ(argument_named(step, "k").kind, Argument::Kind::k);
  ASSERT_EQ(argument_named(step, "m").value, problem.m);
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
        if (candidate.kernel_template == "residues" || candidate.kernel_template == "halves")
          return;  // emulated_plan_test.cpp
        const bool doubles = problem.accumulator == DType::f64;
        for (const LaunchStep& step : plan.steps) {
          const ArgumentLayout layout = layout_of(step.arguments, problem.accumulator);
          if (step.role == StepRole::multiply) {
            if (doubles)
              check_multiply_arguments<double>(problem, plan, step);
            else
              check_multiply_arguments<float>(problem, plan, step);
          } else if (step.kernel.entry == "reduce") {
            doubles ? check_reduce_arguments<double>(problem, step)
                    : check_reduce_arguments<float>(problem, step);
          } else if (step.kernel.entry == "pack") {
            const bool both = step.role == StepRole::pack_both;
            ASSERT_EQ(layout.bytes, both ? sizeof(PackBothArgs) : sizeof(PackArgs));
            if (both) {
              ASSERT_EQ(layout.offsets.back(), offsetof(PackBothArgs, first_blocks));
              ASSERT_EQ(step.arguments.back().kind, Argument::Kind::blocks_a);
            }
            // Rows in the workspace start on 128-byte lines and hold a whole row.
            for (std::size_t i = 3; i < step.arguments.size(); i += 9) {
              const std::int64_t ld_bytes = step.arguments[i].value * bytes_of(problem.a.type);
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
      for (const int specialize_size : {0, 1}) {
        Configuration configuration = kernel.default_configuration(problem, device);
        if (configuration.find("SPECIALIZE_SIZE"))
          configuration.set("SPECIALIZE_SIZE", specialize_size);
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

// Images for another layout of arguments would be launched with wrong arguments.
TEST(PlanRevision, IsRaisedWithTheLayoutOfTheArguments) {
  EXPECT_EQ(kPlanRevision, 6);
  EXPECT_EQ(sizeof(MultiplyArgs<float>), 184U);
  EXPECT_EQ(sizeof(ReduceArgs<float>), 80U);
  EXPECT_EQ(sizeof(PackArgs), 72U);
}

// Kernels read and write partial sums by vectors, whatever lies before them.
TEST(Plan, PartsOfTheWorkspaceAreAligned) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  const KernelTemplate& wgmma = find_template("wgmma");
  Problem problem = typed_problem(Layout::nt, 1023, 1025, 4096, DType::bf16, DType::bf16);
  set_epilogue(problem, Epilogue("g[j] = sum(acc); acc"));
  int plans = 0;
  for (const auto& [name, value] : {std::pair{"STREAM_K", 1}, {"SPLIT_K", 3}}) {
    Configuration c = wgmma.default_configuration(problem, device);
    c.set(name, value);
    if (!rejection(wgmma, problem, c, device).empty()) continue;
    ++plans;
    for (const LaunchStep& step : wgmma.plan(problem, c, device).steps)
      for (const Argument& argument : step.arguments)
        if (argument.kind == Argument::Kind::workspace) {
          EXPECT_EQ(argument.value % 256, 0) << name;
        }
  }
  EXPECT_GT(plans, 0);
}

}  // namespace
}  // namespace tilewise::plans_test
