// Loading and launching on a GPU: every kind of launch, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "gpu_fixture.hpp"

namespace tilewise::test::launch_gpu_test {
namespace {
using testing::Each;
using testing::HasSubstr;

using LaunchGpuTest = GpuTest;

TEST_F(LaunchGpuTest, LaunchTakesAStruct) {
  const Image image = compile(*device_, kAdd, "add");
  const auto kernel = device_->load(image, 0, 1);
  EXPECT_EQ(kernel->usage().registers, image.usage.registers);
  const DeviceBuffer x = filled(1000, 1.0F);
  enqueue_add(*kernel, x.data(), 999, 0.25F, stream_);
  const auto values = read<float>(x.data(), 1000);
  EXPECT_EQ(std::count(values.begin(), values.end(), 1.25F), 999);
  EXPECT_EQ(values[999], 1.0F);
}

TEST_F(LaunchGpuTest, TheDefaultStreamServes) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const DeviceBuffer x = filled(256, 1.0F);
  enqueue_add(*kernel, x.data(), 256, 1.0F, nullptr);
  device_->synchronize(nullptr);
  EXPECT_THAT(read<float>(x.data(), 256), Each(2.0F));
  EXPECT_FALSE(device_->capturing(nullptr));
}

TEST_F(LaunchGpuTest, AnImpossibleLaunchSaysItsShapeAndHarmsNothing) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const DeviceBuffer x = filled(256, 1.0F);
  const AddArguments arguments{x.data(), 256, 1.0F};
  LaunchShape shape;
  shape.block.x = 4096;
  try {
    device_->launch(*kernel, shape, &arguments, stream_);
    FAIL() << "4096 threads a block were launched";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr("block 4096x1x1"));
    EXPECT_THAT(error.what(), HasSubstr("CUDA_ERROR_"));
  }
  enqueue_add(*kernel, x.data(), 256, 1.0F, stream_);
  EXPECT_THAT(read<float>(x.data(), 256), Each(2.0F));
}

TEST_F(LaunchGpuTest, ABadImageIsRefused) {
  Image image = compile(*device_, kAdd, "add");
  Image renamed = image;
  renamed.kernel.entry = "absent";
  EXPECT_THROW(device_->load(renamed, 0, 1), Error);
  Image garbage = image;
  garbage.binary.assign(1000, 0x5a);
  EXPECT_THROW(device_->load(garbage, 0, 1), Error);
  garbage.binary = image.binary;
  garbage.binary.resize(image.binary.size() / 2);
  EXPECT_THROW(device_->load(garbage, 0, 1), Error);
  EXPECT_NO_THROW(device_->load(image, 0, 1));
}

TEST_F(LaunchGpuTest, DynamicSharedMemoryOver48KB) {
  struct {
    void* sum;
    std::int32_t words;
  } arguments{};
  const Image image = compile(*device_, kShared, "shared_sum");
  const auto bytes = static_cast<std::uint32_t>(device_->info().shared_per_block);
  ASSERT_GT(bytes, 48u * 1024);
  const auto kernel = device_->load(image, bytes, 1);
  const DeviceBuffer sum(*device_, 4);
  arguments.sum = sum.data();
  arguments.words = static_cast<std::int32_t>(bytes / 4);
  LaunchShape shape;
  shape.block.x = 128;
  shape.shared_bytes = bytes;
  device_->launch(*kernel, shape, &arguments, stream_);
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < bytes / 4; ++i) expected += i;
  EXPECT_EQ(read<std::uint32_t>(sum.data(), 1)[0], expected);
  try {
    device_->load(image, bytes + 4096, 1);
    ADD_FAILURE() << "more shared memory than there is was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(bytes + 4096)));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(bytes)));
  }
}

TEST_F(LaunchGpuTest, ClustersOfTwo) {
  if (needs(Feature::clusters)) GTEST_SKIP() << "no clusters on " << device_->info().name;
  const auto kernel = device_->load(compile(*device_, kCluster, "cluster_rank"), 0, 2);
  const DeviceBuffer out(*device_, 8 * 4);
  void* arguments = out.data();
  LaunchShape shape;
  shape.grid.x = 8;
  shape.block.x = 32;
  shape.cluster.x = 2;
  device_->launch(*kernel, shape, &arguments, stream_);
  EXPECT_THAT(read<std::uint32_t>(out.data(), 8),
              testing::ElementsAre(200, 201, 200, 201, 200, 201, 200, 201));
}

TEST_F(LaunchGpuTest, ClustersOfSixteenNeedToBeAskedFor) {
  const int capability = device_->info().target.major;
  if (capability != 9 && capability != 10) GTEST_SKIP() << "no clusters of 16 on this capability";
  const Image image = compile(*device_, kCluster, "cluster_rank");
  const DeviceBuffer out(*device_, 16 * 4);
  void* arguments = out.data();
  LaunchShape shape;
  shape.grid.x = 16;
  shape.block.x = 32;
  shape.cluster.x = 16;
  const auto portable = device_->load(image, 0, 8);
  EXPECT_THROW(device_->launch(*portable, shape, &arguments, stream_), Error);
  const auto kernel = device_->load(image, 0, 16);
  device_->launch(*kernel, shape, &arguments, stream_);
  const auto ranks = read<std::uint32_t>(out.data(), 16);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(ranks[i], 1600 + i);
}

TEST_F(LaunchGpuTest, AProgrammaticLaunchWaitsForTheOneBefore) {
  if (needs(Feature::programmatic_launch)) GTEST_SKIP() << "no programmatic launch here";
  const auto add = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const auto dependent = device_->load(compile(*device_, kDependent, "dependent_add"), 0, 1);
  const std::int64_t n = 1 << 20;
  const DeviceBuffer x = filled(n, 0.0F);
  const AddArguments arguments{x.data(), n, 1.0F};
  LaunchShape shape = one_dimensional(n);
  shape.programmatic = true;
  for (int i = 0; i < 4; ++i) {
    enqueue_add(*add, x.data(), n, 1.0F, stream_);
    device_->launch(*dependent, shape, &arguments, stream_);
  }
  // x -> 2 (x + 1) + 1, four times from 0.
  EXPECT_THAT(read<float>(x.data(), static_cast<std::size_t>(n)), Each(45.0F));
}

TEST_F(LaunchGpuTest, TensorMapLoadsABoxWithZerosOutside) {
  if (needs(Feature::tma)) GTEST_SKIP() << "no tensor memory accelerator here";
  constexpr int kRows = 10, kColumns = 20, kStride = 24, kX = 12, kY = 4;
  std::vector<float> matrix(kRows * kStride, -1.0F);  // -1 in the padding, which must not be read
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c)
      matrix[r * kStride + c] = static_cast<float>(100 * r + c + 1);
  }
  const DeviceBuffer source = upload(matrix);
  const DeviceBuffer out = filled(8 * 16, -2.0F);
  struct alignas(64) {
    unsigned char map[128];
    void* out;
    std::int32_t x, y;
  } arguments{};
  TensorMapRecipe recipe;
  recipe.dims = {kColumns, kRows};
  recipe.box = {16, 8};
  recipe.l2_promotion_bytes = 128;
  device_->encode_tensor_map(recipe, source.data(), kStride * 4, arguments.map);
  arguments.out = out.data();
  arguments.x = kX;
  arguments.y = kY;
  const auto kernel = device_->load(compile(*device_, kTensorMap, "tensor_load"), 0, 1);
  LaunchShape shape;
  shape.block.x = 8 * 16;
  device_->launch(*kernel, shape, &arguments, stream_);
  const auto box = read<float>(out.data(), 8 * 16);
  for (int r = 0; r < 8; ++r) {
    for (int c = 0; c < 16; ++c) {
      const bool inside = kY + r < kRows && kX + c < kColumns;
      EXPECT_EQ(box[r * 16 + c], inside ? static_cast<float>(100 * (kY + r) + kX + c + 1) : 0.0F)
          << r << " " << c;
    }
  }
}

TEST_F(LaunchGpuTest, ATensorMapThatCannotBeSaysWhatIsWrong) {
  if (needs(Feature::tma)) GTEST_SKIP() << "no tensor memory accelerator here";
  const DeviceBuffer source(*device_, 1 << 16);
  unsigned char map[128];
  TensorMapRecipe recipe;
  recipe.dims = {64, 64};
  recipe.box = {16, 8};
  try {
    device_->encode_tensor_map(recipe, source.data(), 63 * 4, map);
    FAIL() << "a stride that is no multiple of 16 bytes was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr("stride 252 bytes"));
  }
  recipe.swizzle_bytes = 48;
  EXPECT_THROW(device_->encode_tensor_map(recipe, source.data(), 256, map), Error);
  recipe.swizzle_bytes = 0;
  recipe.box = {16};
  EXPECT_THROW(device_->encode_tensor_map(recipe, source.data(), 256, map), Error);
}

TEST_F(LaunchGpuTest, EightThreadsLaunchAtOnce) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  constexpr int kLaunches = 500;
  const std::int64_t n = 4096;
  std::vector<DeviceBuffer> buffers;
  for (int t = 0; t < 8; ++t) buffers.push_back(filled(n, 0.0F));
  std::vector<std::thread> threads;
  std::vector<std::string> failures(8);
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      try {
        const Stream stream = device_->create_stream();
        for (int i = 0; i < kLaunches; ++i) {
          enqueue_add(*kernel, buffers[t].data(), n, static_cast<float>(t + 1), stream);
        }
        device_->synchronize(stream);
        device_->destroy_stream(stream);
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(failures, Each(""));
  for (std::size_t t = 0; t < 8; ++t) {
    EXPECT_THAT(read<float>(buffers[t].data(), static_cast<std::size_t>(n)),
                Each(static_cast<float>(kLaunches * (t + 1))));
  }
}

}  // namespace
}  // namespace tilewise::test::launch_gpu_test
