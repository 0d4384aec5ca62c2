// Packed operands: which launches a product with one leaves out, and what the others are given.
#include <gmock/gmock.h>

#include "fake_device.hpp"
#include "matmul/executable.hpp"
#include "templates/search_space.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

LaunchStep step_of(StepRole role, const std::string& entry, std::vector<Argument> arguments) {
  LaunchStep step;
  step.role = role;
  step.kernel = {entry + ".cu", entry, {}};
  step.arguments = std::move(arguments);
  return step;
}

struct PackFields {
  const void* from;
  std::byte* to;
  std::int64_t columns;
};
struct MultiplyFields {
  std::byte *a, *b, *partial;
};

/// The workspace: A at 0, B at 512, partial sums at 1536, 2048 bytes in all.
Plan packing_plan(std::int64_t columns = 7) {
  Plan plan;
  plan.workspace_bytes = 2048;
  plan.steps = {step_of(StepRole::pack_a, "pack",
                        {{Kind::a}, {Kind::workspace, 0}, {Kind::integer64, columns}}),
                step_of(StepRole::pack_b, "pack",
                        {{Kind::b}, {Kind::workspace, 512}, {Kind::integer64, columns}}),
                step_of(StepRole::multiply, "multiply",
                        {{Kind::workspace, 0}, {Kind::workspace, 512}, {Kind::workspace, 1536}})};
  plan.steps[0].packed_bytes = 512;
  plan.steps[1].packed_bytes = 1024;
  plan.steps[1].programmatic = plan.steps[2].programmatic = true;
  return plan;
}

class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    problem.m = 3, problem.n = 4, problem.k = 5;
    call.a = memory, call.b = memory + 100, call.c = memory + 200;
    call.lda = 5, call.ldb = 4, call.ldc = 4;
    device->argument_bytes = sizeof(MultiplyFields);
  }
  Executable executable(Plan plan) {
    std::vector<Image> images;
    for (const LaunchStep& step : plan.steps) images.emplace_back().kernel = step.kernel;
    return Executable(*device, problem, std::move(plan), images);
  }
  PackedOperand packed_by(const Executable& by, StepRole role) {
    auto contents = std::make_unique<PackedOperand::Contents>();
    contents->role = role;
    contents->original = role == StepRole::pack_a ? call.a : call.b;
    contents->ld = role == StepRole::pack_a ? call.lda : call.ldb;
    if (const Packing* packing = by.packing(role)) {
      contents->device = device;
      contents->packing = *packing;
      contents->memory = DeviceBuffer(*device, packing->bytes);
      by.pack(role, call, contents->memory.data());
    }
    return PackedOperand(std::move(contents));
  }
  static std::byte* data(const PackedOperand& operand) {
    return static_cast<std::byte*>(operand.contents()->memory.data());
  }
  std::vector<std::string> launched() const {
    std::vector<std::string> names;
    for (const FakeLaunch& launch : device->launches)
      names.push_back(launch.kernel.entry + (launch.shape.programmatic ? " early" : ""));
    return names;
  }
  template <class T>
  T last() const {
    T value;
    std::memcpy(&value, device->launches.back().arguments.data(), sizeof value);
    return value;
  }
  std::byte* workspace() const { return static_cast<std::byte*>(device->last_workspace); }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  Problem problem;
  float memory[300] = {};
  Call call;
};

TEST_F(PackedTest, PacksIntoMemoryOfItsOwn) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  EXPECT_EQ(b.bytes(), 1024);
  EXPECT_THAT(launched(), ElementsAre("pack")) << "it waits for what is before it on the stream";
  EXPECT_EQ(last<PackFields>().from, call.b);
  EXPECT_EQ(last<PackFields>().to, data(b));
  EXPECT_EQ(device->workspaces, 0);
}

TEST_F(PackedTest, ProductsLeaveThatPackOutAndItsPartOfTheWorkspace) {
  const Executable own = executable(packing_plan());
  const PackedOperand a = packed_by(own, StepRole::pack_a), b = packed_by(own, StepRole::pack_b);
  device->launches.clear();
  call.packed_b = &b;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack", "multiply early"));
  EXPECT_EQ(last<MultiplyFields>().a, workspace());
  EXPECT_EQ(last<MultiplyFields>().b, data(b));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace() + 512) << "B's kilobyte is not there";

  device->launches.clear();
  call.packed_a = &a;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply")) << "the first does not start early";
  EXPECT_EQ(last<MultiplyFields>().a, data(a));
  EXPECT_EQ(last<MultiplyFields>().b, data(b));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace());

  device->launches.clear();
  call.packed_b = nullptr;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack", "multiply early"));
  EXPECT_EQ(last<MultiplyFields>().b, workspace());
  EXPECT_EQ(last<MultiplyFields>().partial, workspace() + 1024);
}

TEST_F(PackedTest, BindsTheSame) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  call.packed_b = &b;
  const std::vector<BoundLaunch> bound = own.bind(call, memory);
  ASSERT_EQ(bound.size(), 2u);
  MultiplyFields fields;
  std::memcpy(&fields, bound[1].arguments.data(), sizeof fields);
  EXPECT_EQ(fields.b, data(b));
}

TEST_F(PackedTest, PlansThatPackTheSameWayUseIt) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  Plan plan = packing_plan();  // another m: other offsets, another multiply step
  plan.steps.erase(plan.steps.begin());
  plan.steps[0].arguments[1].value = 256;
  plan.steps[0].work.flops = 1;
  plan.steps[1].grid.x = 9;
  plan.steps[1].arguments = {{Kind::a}, {Kind::workspace, 256}, {Kind::workspace, 0}};
  const Executable other = executable(plan);
  device->launches.clear();
  call.packed_b = &b;
  other.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply"));
  EXPECT_EQ(last<MultiplyFields>().b, data(b));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace()) << "what lies before it stays";
}

TEST_F(PackedTest, PlansThatPackAnotherWayPackTheOriginal) {
  const PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b);
  call.packed_b = &b;
  std::vector<Plan> others(4, packing_plan());
  others[0] = packing_plan(8);
  others[1].steps[1].kernel.defines = {{"TRANSPOSE", 1}};
  others[2].steps[1].grid.x = 2;
  others[3].steps[1].packed_bytes = 0;  // a part that is not to be kept
  for (const Plan& plan : others) {
    const Executable other = executable(plan);
    device->launches.clear();
    other.launch(call);
    EXPECT_THAT(launched(), ElementsAre("pack", "pack early", "multiply early"));
    EXPECT_EQ(last<MultiplyFields>().b, workspace() + 512);
  }
}

TEST_F(PackedTest, AnotherDevicesMemoryIsLeftAlone) {
  const PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b);
  call.packed_b = &b;
  device = std::make_shared<FakeDevice>();
  device->argument_bytes = sizeof(MultiplyFields);
  executable(packing_plan()).launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack", "pack early", "multiply early"));
}

TEST_F(PackedTest, NothingIsReadWhenAlphaIsZero) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  device->launches.clear();
  call.packed_b = &b;
  call.alpha = 0;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply"));
}

TEST_F(PackedTest, OneLaunchThatPacksBothKeepsNeither) {
  Plan plan = packing_plan();
  plan.steps[0].arguments.push_back({Kind::workspace, 512});
  plan.steps.erase(plan.steps.begin() + 1);
  const Executable both = executable(plan);
  EXPECT_EQ(both.packing(StepRole::pack_a), nullptr);
  EXPECT_EQ(both.packing(StepRole::pack_b), nullptr);
  EXPECT_EQ(packed_by(both, StepRole::pack_b).bytes(), 0);
}

TEST_F(PackedTest, OutlivesWhoMadeItAndMovesButDoesNotCopy) {
  static_assert(!std::is_copy_constructible_v<PackedOperand>);
  static_assert(std::is_nothrow_move_assignable_v<PackedOperand>);
  FakeDevice* const seen = device.get();
  PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b);
  device.reset();
  EXPECT_EQ(seen->live_buffers, 1);
  PackedOperand other = std::move(b);
  EXPECT_EQ(b.bytes(), 0);
  EXPECT_EQ(b.original(), nullptr);
  EXPECT_EQ(other.bytes(), 1024);
  EXPECT_EQ(other.leading_dimension(), 4);
}

TEST_F(PackedTest, ACallMustNameTheOriginal) {
  const PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b), empty;
  const auto refusal = [&](const Call& asked) -> std::string {
    try {
      check_call(problem, asked);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "";
  };
  call.packed_b = &b;
  EXPECT_EQ(refusal(call), "");
  Call other = call;
  other.b = memory + 104;
  EXPECT_THAT(refusal(other), HasSubstr("packed B was made of another matrix"));
  other = call;
  other.ldb = 6;
  EXPECT_THAT(refusal(other), HasSubstr("leading dimension (4)"));
  other = call;
  other.packed_a = &b;
  EXPECT_THAT(refusal(other), HasSubstr("given for A was made by pack_b()"));
  other = call;
  other.packed_b = &empty;
  EXPECT_THAT(refusal(other), HasSubstr("holds nothing"));
  problem.a = problem.b = problem.c = problem.accumulator = DType::f64;
  EXPECT_THAT(refusal(call), HasSubstr("packed B is of f32; this product is of f64"));
}

/// What find_packed_part() takes for granted of a plan. Returns how many parts it has.
int check_parts(const Plan& plan) {
  int parts = 0;
  for (const LaunchStep& pack : plan.steps) {
    if (pack.role != StepRole::pack_a && pack.role != StepRole::pack_b) continue;
    ++parts;
    EXPECT_GT(pack.packed_bytes, 0) << to_string(pack.kernel);
    const auto is_part = [](const Argument& x) { return x.kind == Kind::workspace; };
    const auto first = std::find_if(pack.arguments.begin(), pack.arguments.end(), is_part);
    if (std::count_if(pack.arguments.begin(), pack.arguments.end(), is_part) != 1) {
      ADD_FAILURE() << to_string(pack.kernel) << " fills not one part";
      continue;
    }
    const std::int64_t begin = first->value, end = begin + pack.packed_bytes;
    EXPECT_LE(end, plan.workspace_bytes);
    const auto outside = [&](const Argument& x) {
      return !is_part(x) || x.value <= begin || x.value >= end;
    };
    for (const LaunchStep& step : plan.steps)
      EXPECT_TRUE(std::all_of(step.arguments.begin(), step.arguments.end(), outside));
    for (const TensorMapRecipe& map : plan.tensor_maps) EXPECT_TRUE(outside(map.base));
  }
  return parts;
}

TEST(PackedParts, AreNamedByTheirBeginning) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  std::map<std::string, int> parts;
  std::size_t kinds = 0;
  for (const ProductKind& kind : product_kinds()) {
    Problem problem = test::make_problem(test::kLayouts[kinds++ % 4], 320, 384, 272, 4);
    set_types(problem, kind.operand, kind.c, kind.math);
    problem.batch = kinds % 3 == 0 ? 2 : 1;
    for (const KernelTemplate& kernel : catalog()) {
      if (!kernel.supports(problem, device)) continue;
      const SearchSpace space(problem, device, {&kernel});
      for (const Candidate& c : test::pairwise_cover(space, 1, 30, 100))
        parts[kernel.name] += check_parts(kernel.plan(problem, c.configuration, device));
    }
  }
  EXPECT_GT(parts["simt"], 5);
  EXPECT_GT(parts["mma"], 50);
}

}  // namespace
}  // namespace tilewise
