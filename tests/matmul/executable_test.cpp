#include "matmul/executable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/fake_device.hpp"

namespace tilewise::executable_test {
namespace {

using Kind = Argument::Kind;
using testing::HasSubstr;

Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

KernelSpec kernel(const std::string& entry) { return {entry + ".cu", entry, {}}; }

Image image_of(const KernelSpec& spec) {
  Image image;
  image.kernel = spec;
  image.usage.registers = 42;
  return image;
}

std::vector<Image> images_of(const Plan& plan) {
  std::vector<Image> images;
  for (const LaunchStep& step : plan.steps) images.push_back(image_of(step.kernel));
  return images;
}

LaunchStep step_of(StepRole role, const std::string& entry, std::vector<Argument> arguments) {
  LaunchStep step;
  step.role = role;
  step.kernel = kernel(entry);
  step.grid = {7, 1, 1};
  step.block = {128, 1, 1};
  step.arguments = std::move(arguments);
  return step;
}

/// A kernel's argument struct with padding, to detect a wrong layout.
struct EveryField {
  const float* a;
  std::int32_t small;
  const float* b;
  float* c;
  float alpha;
  float* workspace;
  std::int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, k, big;
  float beta;
  const float* alpha_device;
  const float* beta_device;
};

Plan every_field_plan() {
  Plan plan;
  plan.workspace_bytes = 4096;
  plan.steps = {step_of(StepRole::multiply, "all",
                        {{Kind::a},
                         {Kind::integer32, -5},
                         {Kind::b},
                         {Kind::c},
                         {Kind::alpha},
                         {Kind::workspace, 256},
                         {Kind::lda},
                         {Kind::ldb},
                         {Kind::ldc},
                         {Kind::stride_a},
                         {Kind::stride_b},
                         {Kind::stride_c},
                         {Kind::k},
                         {Kind::integer64, std::int64_t{1} << 40},
                         {Kind::beta},
                         {Kind::alpha_device},
                         {Kind::beta_device}})};
  return plan;
}

template <class T>
T decoded(const FakeLaunch& launch) {
  T value;
  std::memcpy(&value, launch.arguments.data(), sizeof value);
  return value;
}

Call every_field_call(float* memory) {
  Call call;
  call.a = memory;
  call.b = memory + 100;
  call.c = memory + 200;
  call.lda = 11, call.ldb = 12, call.ldc = 13;
  call.stride_a = 21, call.stride_b = 22, call.stride_c = 23;
  call.alpha = 1.5, call.beta = -0.1;
  call.alpha_device = memory + 300, call.beta_device = memory + 301;
  return call;
}

TEST(Executable, FillsEveryFieldWhereACompilerWouldPutIt) {
  FakeDevice device;
  device.argument_bytes = sizeof(EveryField);
  const Plan plan = every_field_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  std::vector<float> memory(400);
  Call call = every_field_call(memory.data());
  call.stream = device.create_stream();
  executable.launch(call);

  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].stream, call.stream);
  EXPECT_EQ(device.launches[0].shape.grid, (Dim3{7, 1, 1}));
  const auto got = decoded<EveryField>(device.launches[0]);
  EXPECT_EQ(got.a, call.a);
  EXPECT_EQ(got.small, -5);
  EXPECT_EQ(got.b, call.b);
  EXPECT_EQ(got.c, call.c);
  EXPECT_EQ(got.alpha, 1.5F);
  EXPECT_EQ(static_cast<void*>(got.workspace),
            static_cast<std::byte*>(device.last_workspace) + 256);
  EXPECT_EQ(got.lda, 11);
  EXPECT_EQ(got.ldb, 12);
  EXPECT_EQ(got.ldc, 13);
  EXPECT_EQ(got.stride_a, 21);
  EXPECT_EQ(got.stride_b, 22);
  EXPECT_EQ(got.stride_c, 23);
  EXPECT_EQ(got.k, 5);
  EXPECT_EQ(got.big, std::int64_t{1} << 40);
  EXPECT_EQ(got.beta, -0.1F);
  EXPECT_EQ(got.alpha_device, call.alpha_device);
  EXPECT_EQ(got.beta_device, call.beta_device);
}

TEST(Executable, BindsWhatItWouldLaunch) {
  FakeDevice device;
  device.argument_bytes = sizeof(EveryField);
  const Plan plan = every_field_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  std::vector<float> memory(400);
  const Call call = every_field_call(memory.data());
  executable.launch(call);
  const std::vector<BoundLaunch> bound = executable.bind(call, device.last_workspace);
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_EQ(bound[0].shape.grid, device.launches[0].shape.grid);
  EXPECT_EQ(std::memcmp(bound[0].arguments.data(), device.launches[0].arguments.data(),
                        sizeof(EveryField)),
            0);
}

/// The plan of the seed: pack, multiply, reduce. pack_a and pack_b have one kernel.
Plan packed_plan() {
  Plan plan;
  plan.workspace_bytes = 1024;
  plan.steps = {
      step_of(StepRole::pack_a, "pack", {{Kind::a}, {Kind::workspace, 0}}),
      step_of(StepRole::pack_b, "pack", {{Kind::b}, {Kind::workspace, 512}}),
      step_of(StepRole::multiply, "multiply", {{Kind::workspace, 0}, {Kind::k}}),
      step_of(StepRole::reduce, "reduce", {{Kind::workspace, 0}, {Kind::c}}),
  };
  plan.steps[0].shared_bytes = 1000;
  plan.steps[1].shared_bytes = 60000;
  plan.steps[2].cluster = {2, 2, 1};
  plan.steps[2].programmatic = true;
  return plan;
}

std::vector<std::string> entries(const FakeDevice& device) {
  std::vector<std::string> names;
  for (const FakeLaunch& launch : device.launches) names.push_back(launch.kernel.entry);
  return names;
}

TEST(Executable, LaunchesStepsInOrderAndLoadsAKernelOnceForItsLargestNeed) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  EXPECT_EQ(device.loads, 3);
  EXPECT_EQ(device.loaded[kernel("pack")].first, 60000u);
  EXPECT_EQ(device.loaded[kernel("multiply")].second, 4u);
  EXPECT_EQ(executable.usage().size(), 4u);
  EXPECT_EQ(executable.usage()[3].registers, 42);

  float memory[4];
  Call call;
  call.a = call.b = memory;
  call.c = memory + 1;
  executable.launch(call);
  EXPECT_EQ(entries(device), (std::vector<std::string>{"pack", "pack", "multiply", "reduce"}));
  EXPECT_EQ(device.launches[1].shape.shared_bytes, 60000u);
  EXPECT_EQ(device.launches[2].shape.cluster, (Dim3{2, 2, 1}));
  EXPECT_TRUE(device.launches[2].shape.programmatic);
  EXPECT_EQ(device.workspaces, 1);
  EXPECT_EQ(device.live_workspaces, 0);
}

/// A call's workspace: used where it suffices, is aligned, and one is needed.
TEST(Executable, TakesTheWorkspaceOfTheCallIfItSuffices) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  std::vector<std::byte> memory(static_cast<std::size_t>(plan.workspace_bytes) + 512);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* const aligned = memory.data() + (256 - at % 256) % 256;
  Call call;
  call.workspace = aligned, call.workspace_bytes = plan.workspace_bytes;
  executable.launch(call);
  EXPECT_EQ(device.workspaces, 0);
  void* used = nullptr;
  std::memcpy(&used, device.launches[2].arguments.data(), sizeof used);
  EXPECT_GE(used, aligned);
  EXPECT_LT(used, aligned + plan.workspace_bytes);
  call.workspace_bytes = plan.workspace_bytes - 1;
  executable.launch(call);
  EXPECT_EQ(device.workspaces, 1);
  call.workspace = aligned + 128, call.workspace_bytes = plan.workspace_bytes;
  executable.launch(call);
  EXPECT_EQ(device.workspaces, 2);
  call.workspace = nullptr;
  executable.launch(call);
  EXPECT_EQ(device.workspaces, 3);
  EXPECT_EQ(device.live_workspaces, 0);
}

struct MultiplyFields {
  void* workspace;
  std::int64_t k;
};

TEST(Executable, HostAlphaZeroSkipsPacksAndTellsKZero) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  float c = 0;
  Call call;
  call.c = &c;
  call.alpha = 1e-60;  // 0 as an f32
  executable.launch(call);
  EXPECT_EQ(entries(device), (std::vector<std::string>{"multiply", "reduce"}));
  EXPECT_EQ(decoded<MultiplyFields>(device.launches[0]).k, 0);
}

TEST(Executable, AlphaOnTheDeviceIsNotKnownToBeZero) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  float scalar = 0;
  Call call;
  call.alpha = 0;
  call.alpha_device = &scalar;
  executable.launch(call);
  ASSERT_EQ(device.launches.size(), 4u);
  EXPECT_EQ(decoded<MultiplyFields>(device.launches[2]).k, 5);
}

TEST(Executable, NanAlphaIsNotZero) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  Call call;
  call.alpha = std::numeric_limits<double>::quiet_NaN();
  executable.launch(call);
  EXPECT_EQ(device.launches.size(), 4u);
}

TEST(Executable, KZeroSkipsPacks) {
  FakeDevice device;
  device.argument_bytes = 16;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 0), plan, images_of(plan));
  executable.launch(Call{});
  EXPECT_EQ(entries(device), (std::vector<std::string>{"multiply", "reduce"}));
}

TEST(Executable, EmptyResultLaunchesNothing) {
  const Plan plan = packed_plan();
  for (const Problem& problem : {problem_of(0, 4, 5), problem_of(4, 0, 5)}) {
    FakeDevice device;
    const Executable executable(device, problem, plan, images_of(plan));
    executable.launch(Call{});
    EXPECT_EQ(device.launch_count, 0);
    EXPECT_EQ(device.workspaces, 0);
  }
}

TEST(Executable, GivesTheWorkspaceBackWhenALaunchThrows) {
  FakeDevice device;
  device.free_async_fails = true;  // must not end the program during unwinding
  device.on_launch = [](const KernelSpec& spec, const LaunchShape&, const void*, Stream) {
    if (spec.entry == "multiply") throw Error(ErrorKind::device, "launch refused");
  };
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  try {
    executable.launch(Call{});
    FAIL() << "the launch error was lost";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "launch refused");
  }
  EXPECT_EQ(device.workspaces, 1);
  EXPECT_EQ(device.live_workspaces, 0);
}

TEST(Executable, AFailureToGiveTheWorkspaceBackIsToldOnce) {
  FakeDevice device;
  device.free_async_fails = true;
  const Plan plan = packed_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  EXPECT_THROW(executable.launch(Call{}), Error);
  EXPECT_EQ(device.live_workspaces, 0);
}

struct alignas(64) MapField {
  std::byte bytes[128];
};
struct MapFields {
  std::int32_t first;
  MapField a_map, w_map;
  std::int64_t k;
};

Plan mapped_plan() {
  Plan plan;
  plan.workspace_bytes = 1024;
  plan.steps = {
      step_of(StepRole::multiply, "mapped",
              {{Kind::integer32, 9}, {Kind::tensor_map, 0}, {Kind::tensor_map, 1}, {Kind::k}})};
  TensorMapRecipe a;
  a.base = {Kind::a};
  a.stride = {Kind::lda};
  a.dims = {5, 3};
  TensorMapRecipe w;
  w.base = {Kind::workspace, 512};
  w.stride = {Kind::integer64, 32};
  w.dims = {5, 3, 2};
  w.batch_stride = {Kind::stride_b};
  plan.tensor_maps = {a, w};
  return plan;
}

TEST(Executable, EncodesTensorMapsFromTheCall) {
  FakeDevice device;
  device.argument_bytes = sizeof(MapFields);
  const Plan plan = mapped_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  float memory[1];
  Call call;
  call.a = memory;
  call.lda = 20;
  call.stride_b = 77;
  bool aligned = false;
  device.on_launch = [&](const KernelSpec&, const LaunchShape&, const void* arguments, Stream) {
    aligned = reinterpret_cast<std::uintptr_t>(arguments) % 64 == 0;
  };
  executable.launch(call);
  EXPECT_TRUE(aligned) << "a driver encodes into 64-byte aligned memory only";
  const auto got = decoded<MapFields>(device.launches.at(0));
  FakeTensorMap a, w;
  std::memcpy(&a, &got.a_map, sizeof a);
  std::memcpy(&w, &got.w_map, sizeof w);
  EXPECT_EQ(a.base, memory);
  EXPECT_EQ(a.stride_bytes, 80);
  EXPECT_EQ(a.rank, 2);
  EXPECT_EQ(w.base, static_cast<std::byte*>(device.last_workspace) + 512);
  EXPECT_EQ(w.stride_bytes, 128);
  EXPECT_EQ(w.rank, 3);
  EXPECT_EQ(w.batch_stride_bytes, 4 * 77);
  EXPECT_EQ(got.first, 9);
  EXPECT_EQ(got.k, 5);
}

TEST(Executable, ATensorMapIsEncodedOnceForAnAddressAndItsStrides) {
  FakeDevice device;
  const Plan plan = mapped_plan();
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan)),
      other(device, problem_of(3, 4, 5), plan, images_of(plan));
  float memory[2];
  Call call;
  call.a = memory;
  call.lda = 20;
  const auto encodes = [&](const Executable& of) {
    const int before = device.encoded_maps;
    of.launch(call);
    const auto got = decoded<MapFields>(device.launches.back());
    FakeTensorMap a;
    std::memcpy(&a, &got.a_map, sizeof a);
    EXPECT_EQ(a.base, call.a);
    EXPECT_EQ(a.stride_bytes, 4 * call.lda);
    return device.encoded_maps - before;
  };
  device.argument_bytes = sizeof(MapFields);
  encodes(executable);
  const void* const workspace = device.last_workspace;
  // A workspace at another address has another map.
  const auto of_workspace = [&] { return device.last_workspace == workspace ? 0 : 1; };
  const int again = encodes(executable);
  EXPECT_EQ(again, of_workspace());
  call.a = memory + 1;
  EXPECT_GE(encodes(executable), 1) << "another address";
  call.lda = 24;
  EXPECT_GE(encodes(executable), 1) << "another leading dimension";
  EXPECT_EQ(encodes(other), 2) << "another executable's maps have other dimensions";
  int of_thread = 0;
  std::thread([&] { of_thread = encodes(executable); }).join();
  EXPECT_EQ(of_thread, 2) << "another thread has maps of its own";
}

TEST(Executable, TensorMapsOfOperandsThatAreNotReadStayZero) {
  FakeDevice device;
  device.argument_bytes = sizeof(MapFields);
  Plan plan = mapped_plan();
  plan.tensor_maps[1].base = {Kind::c};  // C is written nevertheless
  const Executable executable(device, problem_of(3, 4, 5), plan, images_of(plan));
  Call call;
  call.alpha = 0;
  executable.launch(call);
  const auto got = decoded<MapFields>(device.launches.at(0));
  for (const std::byte byte : got.a_map.bytes) ASSERT_EQ(byte, std::byte{0});
  FakeTensorMap c;
  std::memcpy(&c, &got.w_map, sizeof c);
  EXPECT_EQ(c.rank, 3);
  EXPECT_EQ(got.k, 0);
}

std::string refusal(const Plan& plan, std::vector<Image> images) {
  FakeDevice device;
  try {
    const Executable executable(device, problem_of(3, 4, 5), plan, images);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Executable, RefusesWhatDoesNotFitTogether) {
  Plan plan = packed_plan();
  std::vector<Image> images = images_of(plan);
  images.pop_back();
  EXPECT_THAT(refusal(plan, images), HasSubstr("4 steps but 3 images"));
  images = images_of(plan);
  std::swap(images[2], images[3]);
  EXPECT_THAT(refusal(plan, images), HasSubstr("step 2 needs the image of multiply.cu"));

  plan = mapped_plan();
  plan.tensor_maps.pop_back();
  EXPECT_THAT(refusal(plan, images_of(plan)), HasSubstr("tensor map 1 of 1 is not there"));
  plan = mapped_plan();
  plan.tensor_maps[0].base = {Kind::k};
  EXPECT_THAT(refusal(plan, images_of(plan)),
              HasSubstr("base must be a, b, c, workspace or operand"));
  plan = mapped_plan();
  plan.tensor_maps[0].stride = {Kind::alpha};
  EXPECT_THAT(refusal(plan, images_of(plan)), HasSubstr("stride must be lda"));

  plan = packed_plan();
  plan.steps[0].arguments.assign(600, {Kind::integer64, 1});
  EXPECT_THAT(refusal(plan, images_of(plan)), HasSubstr("4800 bytes"));
}

}  // namespace
}  // namespace tilewise::executable_test
