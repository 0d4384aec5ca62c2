// Packed operands: which launches a product with one omits, and the arguments of the others.
#include <gmock/gmock.h>

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::packed_test {
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

struct PackFields {  // of an operand
  const void* from;
  std::byte* to;
};
struct PackBothFields {
  PackFields a, b;
  std::int32_t blocks_a;
};
struct MultiplyFields {
  std::byte *a, *b, *partial;
};

/// The workspace: A at 0, B at 512, partial sums at 1536, 2048 bytes in total. 4 blocks pack A, 3
/// pack B.
Plan packing_plan(std::int64_t columns = 7) {
  Plan plan;
  plan.workspace_bytes = 2048;
  plan.steps = {step_of(StepRole::pack_both, "pack",
                        {{Kind::a},
                         {Kind::workspace, 0},
                         {Kind::b},
                         {Kind::workspace, 512},
                         {Kind::blocks_a, 4}}),
                step_of(StepRole::multiply, "multiply",
                        {{Kind::workspace, 0}, {Kind::workspace, 512}, {Kind::workspace, 1536}})};
  plan.steps[0].grid.x = 7;
  plan.steps[0].packs = {{StepRole::pack_a, false, false, false, 3, columns, 3, 32, 512},
                         {StepRole::pack_b, true, false, false, 5, columns, columns, 32, 1024}};
  plan.steps[1].programmatic = true;
  return plan;
}

/// The same packing of B at 256, after the partial sums; A is read in place.
Plan plan_packing_b() {
  Plan plan = packing_plan();
  plan.steps[0] = step_of(StepRole::pack_b, "pack_b", {{Kind::b}, {Kind::workspace, 256}});
  plan.steps[0].grid.x = 9;
  plan.steps[0].packs = {packing_plan().steps[0].packs[1]};
  plan.steps[1].arguments = {{Kind::a}, {Kind::workspace, 256}, {Kind::workspace, 0}};
  return plan;
}

class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    problem.m = 3, problem.n = 4, problem.k = 5;
    call.a = memory, call.b = memory + 100, call.c = memory + 200;
    call.lda = 5, call.ldb = 4, call.ldc = 4;
    device->argument_bytes = sizeof(PackBothFields);
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
      names.push_back(launch.kernel.entry + " " + std::to_string(launch.shape.grid.x) +
                      (launch.shape.programmatic ? " early" : ""));
    return names;
  }
  template <class T>
  static T fields_of(const FakeLaunch& launch) {
    T value;
    std::memcpy(&value, launch.arguments.data(), sizeof value);
    return value;
  }
  template <class T>
  T last() const {
    return fields_of<T>(device->launches.back());
  }
  PackBothFields first_pack() const { return fields_of<PackBothFields>(device->launches.front()); }
  std::byte* workspace() const { return static_cast<std::byte*>(device->last_workspace); }

  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  Problem problem;
  float memory[300] = {};
  Call call;
};

TEST_F(PackedTest, OneLaunchPacksBoth) {
  executable(packing_plan()).launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack 7", "multiply 1 early"));
  EXPECT_EQ(first_pack().blocks_a, 4);
  EXPECT_EQ(first_pack().a.from, call.a);
  EXPECT_EQ(first_pack().a.to, workspace());
  EXPECT_EQ(first_pack().b.from, call.b);
  EXPECT_EQ(first_pack().b.to, workspace() + 512);
}

TEST_F(PackedTest, PacksOneOperandIntoMemoryOfItsOwn) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  EXPECT_EQ(b.bytes(), 1024);
  EXPECT_THAT(launched(), ElementsAre("pack 3"));
  EXPECT_EQ(first_pack().blocks_a, 0);
  EXPECT_EQ(first_pack().b.from, call.b);
  EXPECT_EQ(first_pack().b.to, data(b));

  device->launches.clear();
  const PackedOperand a = packed_by(own, StepRole::pack_a);
  EXPECT_EQ(a.bytes(), 512);
  EXPECT_THAT(launched(), ElementsAre("pack 4"));
  EXPECT_EQ(first_pack().blocks_a, 4);
  EXPECT_EQ(first_pack().a.from, call.a);
  EXPECT_EQ(first_pack().a.to, data(a));
  EXPECT_EQ(device->workspaces, 0);
}

TEST_F(PackedTest, OfNothingThereIsNothingToKeep) {
  Plan plan = packing_plan();
  for (Packing& packing : plan.steps[0].packs) packing.bytes = 0;
  const Executable empty = executable(plan);
  EXPECT_EQ(empty.packing(StepRole::pack_a), nullptr);
  EXPECT_EQ(empty.packing(StepRole::pack_b), nullptr);
}

TEST_F(PackedTest, APackOfOneOperandWaitsForWhatIsBeforeItOnTheStream) {
  Plan plan = plan_packing_b();
  plan.steps[0].programmatic = true;
  packed_by(executable(plan), StepRole::pack_b);
  EXPECT_THAT(launched(), ElementsAre("pack_b 9"));
}

TEST_F(PackedTest, ProductsLeaveThatPackOutAndItsPartOfTheWorkspace) {
  const Executable own = executable(packing_plan());
  const PackedOperand a = packed_by(own, StepRole::pack_a), b = packed_by(own, StepRole::pack_b);
  device->launches.clear();
  call.packed_b = &b;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack 4", "multiply 1 early"));
  EXPECT_EQ(first_pack().blocks_a, 4);
  EXPECT_EQ(first_pack().a.to, workspace());
  EXPECT_EQ(last<MultiplyFields>().a, workspace());
  EXPECT_EQ(last<MultiplyFields>().b, data(b));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace() + 512) << "B's kilobyte is not there";

  device->launches.clear();
  call.packed_a = &a;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply 1")) << "the first does not start early";
  EXPECT_EQ(last<MultiplyFields>().a, data(a));
  EXPECT_EQ(last<MultiplyFields>().b, data(b));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace());

  device->launches.clear();
  call.packed_b = nullptr;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack 3", "multiply 1 early"));
  EXPECT_EQ(first_pack().blocks_a, 0);
  EXPECT_EQ(first_pack().b.to, workspace());
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
  const Executable both = executable(packing_plan()), one = executable(plan_packing_b());
  const PackedOperand by_both = packed_by(both, StepRole::pack_b),
                      by_one = packed_by(one, StepRole::pack_b);
  device->launches.clear();
  call.packed_b = &by_both;
  one.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply 1"));
  EXPECT_EQ(last<MultiplyFields>().b, data(by_both));
  EXPECT_EQ(last<MultiplyFields>().partial, workspace()) << "what lies before it stays";

  device->launches.clear();
  call.packed_b = &by_one;
  both.launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack 4", "multiply 1 early"));
  EXPECT_EQ(last<MultiplyFields>().b, data(by_one));
}

TEST_F(PackedTest, PlansThatPackAnotherWayPackTheOriginal) {
  const PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b);
  call.packed_b = &b;
  std::vector<Plan> others(6, packing_plan());
  others[0] = packing_plan(8);
  others[1].steps[0].packs[1].transposed = false;
  others[2].steps[0].packs[1].ld = 64;
  others[3].steps[0].packs[1].packed_rows = 6;
  others[5].steps[0].packs[1].rounded = true;
  others[4].steps[0].packs.pop_back();  // the part of B is not kept
  for (const Plan& plan : others) {
    const Executable other = executable(plan);
    device->launches.clear();
    other.launch(call);
    EXPECT_THAT(launched(), ElementsAre("pack 7", "multiply 1 early"));
    EXPECT_EQ(last<MultiplyFields>().b, workspace() + 512);
  }
}

TEST_F(PackedTest, AnotherDevicesMemoryIsLeftAlone) {
  const PackedOperand b = packed_by(executable(packing_plan()), StepRole::pack_b);
  call.packed_b = &b;
  device = std::make_shared<FakeDevice>();
  device->argument_bytes = sizeof(PackBothFields);
  executable(packing_plan()).launch(call);
  EXPECT_THAT(launched(), ElementsAre("pack 7", "multiply 1 early"));
}

TEST_F(PackedTest, NothingIsReadWhenAlphaIsZero) {
  const Executable own = executable(packing_plan());
  const PackedOperand b = packed_by(own, StepRole::pack_b);
  device->launches.clear();
  call.packed_b = &b;
  call.alpha = 0;
  own.launch(call);
  EXPECT_THAT(launched(), ElementsAre("multiply 1"));
}

TEST_F(PackedTest, APackOfBothMustSayWhichBlocksPackA) {
  for (const std::int64_t blocks : {-1, 0, 7}) {
    Plan plan = packing_plan();
    plan.steps[0].arguments.back().value = blocks;
    EXPECT_THROW(executable(plan), Error) << blocks;
  }
  Plan plan = packing_plan();
  plan.steps[0].arguments.pop_back();
  EXPECT_THROW(executable(plan), Error);
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
  problem.a.type = problem.b.type = problem.c.type = problem.accumulator = DType::f64;
  EXPECT_THAT(refusal(call), HasSubstr("packed B is of f32; this product is of f64"));
}

/// Checks the requirements of find_packed_parts() on a plan. Returns its number of parts.
int check_parts(const Plan& plan) {
  int parts = 0;
  for (const LaunchStep& pack : plan.steps) {
    std::vector<std::int64_t> begins;
    for (const Argument& x : pack.arguments)
      if (x.kind == Kind::workspace) begins.push_back(x.value);
    if (pack.packs.empty()) {
      EXPECT_GE(pack.role, StepRole::multiply);
      continue;
    }
    EXPECT_EQ(pack.packs.size(), pack.role == StepRole::pack_both ? 2u : 1u);
    EXPECT_EQ(begins.size(), pack.packs.size()) << to_string(pack.kernel);
    for (std::size_t i = 0; i < pack.packs.size(); ++i, ++parts) {
      const bool is_a = pack.role == StepRole::pack_a || (pack.packs.size() == 2 && i == 0);
      EXPECT_EQ(pack.packs[i].role, is_a ? StepRole::pack_a : StepRole::pack_b);
      EXPECT_GT(pack.packs[i].bytes, 0);
      const std::int64_t begin = begins[i], end = begin + pack.packs[i].bytes;
      EXPECT_LE(end, plan.workspace_bytes);
      const auto outside = [&](const Argument& x) {
        return x.kind != Kind::workspace || x.value <= begin || x.value >= end;
      };
      for (const LaunchStep& step : plan.steps)
        EXPECT_TRUE(std::all_of(step.arguments.begin(), step.arguments.end(), outside));
      for (const TensorMapRecipe& map : plan.tensor_maps) EXPECT_TRUE(outside(map.base));
    }
  }
  return parts;
}

TEST(PackedParts, AreNamedByTheirBeginning) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  std::map<std::string, int> parts;
  std::size_t kinds = 0;
  for (const ProductKind& kind : test::whole_byte_kinds()) {
    Problem problem = test::make_problem(test::kLayouts[kinds++ % 4], 320, 384, 272, 4);
    set_types(problem, kind);
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
}  // namespace tilewise::packed_test
