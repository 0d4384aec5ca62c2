// device/cuda on a GPU: facts, memory, events, graphs, workspaces, sharing, a lost context.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "device/kept_workspaces.hpp"
#include "gpu_fixture.hpp"

namespace tilewise::test::device_gpu_test {
namespace {
using testing::Each;
using testing::HasSubstr;

using DeviceGpuTest = GpuTest;

TEST_F(DeviceGpuTest, StatesPlausibleFacts) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_THAT(info.uuid,
              testing::MatchesRegex("(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
  EXPECT_GE(info.target.major, 7);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_GT(info.memory_bytes, std::int64_t{1} << 30);
  EXPECT_GE(info.shared_per_block, 48 * 1024);
  EXPECT_GE(info.shared_per_multiprocessor, info.shared_per_block);
  EXPECT_GT(info.l2_bytes, 0);
  EXPECT_GE(info.threads_per_multiprocessor, 1024);
  EXPECT_GE(info.blocks_per_multiprocessor, 16);
  EXPECT_GT(info.fp32_lanes, 0);
  EXPECT_GT(info.clock_khz, 100000);
  EXPECT_THAT(device_->driver_version(), HasSubstr("CUDA "));
  const DeviceStatus status = device_->status();
  EXPECT_GT(status.free_bytes, 0);
  EXPECT_LE(status.free_bytes, status.total_bytes);
}

TEST_F(DeviceGpuTest, MemoryRoundTrip) {
  std::vector<std::int32_t> values(100003);
  std::iota(values.begin(), values.end(), -5);
  const DeviceBuffer first = upload(values);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 256, 0u);
  const DeviceBuffer second(*device_, first.bytes());
  device_->copy_on_device(second.data(), first.data(), first.bytes(), stream_);
  EXPECT_EQ(read<std::int32_t>(second.data(), values.size()), values);
  device_->fill32(second.data(), 0xdeadbeef, 1000, stream_);
  const auto mixed = read<std::uint32_t>(second.data(), 1001);
  EXPECT_EQ(std::count(mixed.begin(), mixed.end(), 0xdeadbeefu), 1000);
  EXPECT_EQ(static_cast<std::int32_t>(mixed[1000]), values[1000]);
}

// Every differing byte is detected at any place; ranges begin at any word.
TEST_F(DeviceGpuTest, ComparesItsOwnMemory) {
  std::vector<std::int32_t> values(3'000'017);
  std::iota(values.begin(), values.end(), -5);
  const DeviceBuffer one = upload(values), other = upload(values);
  const auto at = [](const DeviceBuffer& buffer, std::int64_t byte) {
    return static_cast<std::byte*>(buffer.data()) + byte;
  };
  const auto equal = [&](std::int64_t first, std::int64_t bytes) {
    return device_->known_equal(at(one, first), at(other, first), bytes, stream_);
  };
  EXPECT_TRUE(equal(0, one.bytes()));
  EXPECT_TRUE(equal(0, 0));
  EXPECT_TRUE(equal(4, one.bytes() - 8));
  EXPECT_FALSE(equal(1, 4)) << "no whole words: it cannot tell";
  for (const std::int64_t byte :
       {std::int64_t{0}, std::int64_t{3}, std::int64_t{4097}, std::int64_t{4 * 2'000'000 + 1},
        one.bytes() - 4, one.bytes() - 1}) {
    const std::byte changed{0x5a};
    std::byte before{};
    device_->copy_to_host(&before, at(other, byte), 1, stream_);
    device_->copy_to_device(at(other, byte), &changed, 1, stream_);
    EXPECT_FALSE(equal(0, one.bytes())) << byte;
    EXPECT_FALSE(equal(byte / 4 * 4, 4)) << byte;
    EXPECT_TRUE(equal(0, byte / 4 * 4)) << byte;
    device_->copy_to_device(at(other, byte), &before, 1, stream_);
    EXPECT_TRUE(equal(0, one.bytes())) << byte;
  }
  // The comparison waits for earlier work of the stream.
  device_->fill32(other.data(), 7, 1000, stream_);
  EXPECT_FALSE(equal(0, one.bytes()));
  device_->copy_on_device(other.data(), one.data(), one.bytes(), stream_);
  EXPECT_TRUE(equal(0, one.bytes()));
}

TEST_F(DeviceGpuTest, PageLockedMemory) {
  auto* host = static_cast<float*>(device_->allocate_host(4096));
  ASSERT_NE(host, nullptr);
  const DeviceBuffer buffer = filled(1024, 2.5F);
  device_->copy_to_host(host, buffer.data(), 4096, stream_);
  device_->synchronize(stream_);
  EXPECT_EQ(host[0], 2.5F);
  EXPECT_EQ(host[1023], 2.5F);
  device_->free_host(host);
}

TEST_F(DeviceGpuTest, NothingIsAllocatedCopiedOrFreedForZeroBytes) {
  EXPECT_EQ(device_->allocate(0), nullptr);
  EXPECT_EQ(device_->allocate_async(0, stream_), nullptr);
  device_->free(nullptr);
  device_->free_async(nullptr, stream_);
  device_->copy_to_host(nullptr, nullptr, 0, stream_);
  device_->fill32(nullptr, 0, 0, stream_);
  device_->synchronize(stream_);
}

TEST_F(DeviceGpuTest, TooMuchMemoryIsRefusedWithNumbersAndHarmsNothing) {
  try {
    device_->allocate(std::int64_t{1} << 50);
    FAIL() << "a pebibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("1125899906842624 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("free on " + device_->info().name));
  }
  EXPECT_THROW(device_->allocate_async(std::int64_t{1} << 50, stream_), Error);
  EXPECT_THAT(read<float>(filled(16, 1.0F).data(), 16), Each(1.0F));
}

TEST_F(DeviceGpuTest, EventsTellTimeAndOrder) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const std::int64_t n = 1 << 24;
  const DeviceBuffer x = filled(n, 0.0F);
  const auto start = device_->create_event();
  const auto end = device_->create_event();
  start->record(stream_);
  for (int i = 0; i < 20; ++i) enqueue_add(*kernel, x.data(), n, 1.0F, stream_);
  end->record(stream_);
  end->wait();
  EXPECT_TRUE(start->reached());
  EXPECT_TRUE(end->reached());
  // 20 x 128 MiB of traffic take between 10 us and 10 s on any GPU.
  EXPECT_GT(end->microseconds_since(*start), 10);
  EXPECT_LT(end->microseconds_since(*start), 1e7);
}

TEST_F(DeviceGpuTest, AGraphRepeatsWhatWasCaptured) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const DeviceBuffer x = filled(1000, 0.0F);
  bool seen = false;
  const auto graph = device_->capture(stream_, [&] {
    seen = device_->capturing(stream_);
    for (int i = 0; i < 3; ++i) enqueue_add(*kernel, x.data(), 1000, 1.0F, stream_);
  });
  EXPECT_TRUE(seen);
  EXPECT_FALSE(device_->capturing(stream_));
  EXPECT_THAT(read<float>(x.data(), 1000), Each(0.0F)) << "capturing must not run";
  for (int i = 0; i < 5; ++i) graph->launch(stream_);
  EXPECT_THAT(read<float>(x.data(), 1000), Each(15.0F));
}

TEST_F(DeviceGpuTest, ACaptureThatFailsLeavesTheStreamUsable) {
  EXPECT_THROW(device_->capture(stream_, [] { throw std::runtime_error("inside"); }),
               std::runtime_error);
  EXPECT_FALSE(device_->capturing(stream_));
  EXPECT_THROW(device_->capture(stream_, [] {}), Error) << "an empty graph";
  EXPECT_THROW(device_->capture(nullptr, [] {}), Error) << "the default stream";
  EXPECT_THAT(read<float>(filled(16, 3.0F).data(), 16), Each(3.0F));
}

TEST_F(DeviceGpuTest, WorkspaceInsideACapture) {
  const auto kernel = device_->load(compile(*device_, kAdd, "add"), 0, 1);
  const std::int64_t n = 1 << 16;
  const DeviceBuffer out = filled(n, 0.0F);
  const auto graph = device_->capture(stream_, [&] {
    void* workspace = device_->allocate_async(n * 4, stream_);
    device_->fill32(workspace, bits_of(4.0F), n, stream_);
    enqueue_add(*kernel, workspace, n, 0.5F, stream_);
    device_->copy_on_device(out.data(), workspace, n * 4, stream_);
    device_->free_async(workspace, stream_);
  });
  for (int i = 0; i < 3; ++i) {
    device_->fill32(out.data(), 0, n, stream_);
    graph->launch(stream_);
    EXPECT_THAT(read<float>(out.data(), static_cast<std::size_t>(n)), Each(4.5F));
  }
}

TEST_F(DeviceGpuTest, WorkspacesOfTwoStreamsAreApart) {
  const Stream other = device_->create_stream();
  void* first = device_->allocate_async(1 << 20, stream_);
  void* second = device_->allocate_async(1 << 20, other);
  EXPECT_NE(first, second);
  device_->fill32(first, bits_of(1.0F), 1 << 18, stream_);
  device_->fill32(second, bits_of(2.0F), 1 << 18, other);
  device_->synchronize(other);
  EXPECT_THAT(read<float>(first, 1 << 18), Each(1.0F));
  device_->free_async(first, stream_);
  device_->free_async(second, other);
  device_->synchronize(stream_);
  device_->synchronize(other);
  device_->destroy_stream(other);
}

TEST_F(DeviceGpuTest, AStreamKeepsItsWorkspace) {
  const Stream other = device_->create_stream();
  const auto used = [&](Stream stream, std::int64_t bytes) {
    const WorkspaceMemory workspace = device_->take_workspace(bytes, stream);
    device_->fill32(workspace.data, 1, bytes / 4, stream);
    device_->give_back_workspace(workspace, stream);
    return workspace.data;
  };
  void* const first = used(stream_, 1 << 20);
  EXPECT_EQ(used(stream_, 1 << 20), first);
  EXPECT_NE(used(other, 1 << 20), first);
  void* const of_default = used(nullptr, 1 << 20);
  EXPECT_NE(of_default, nullptr);
  EXPECT_EQ(used(nullptr, 1 << 10), of_default);
  // Work in progress and graphs never share a workspace.
  const WorkspaceMemory taken = device_->take_workspace(1 << 20, stream_);
  EXPECT_EQ(taken.data, first);
  EXPECT_NE(used(stream_, 1 << 20), first);
  device_->give_back_workspace(taken, stream_);
  void* captured = nullptr;
  const auto graph = device_->capture(stream_, [&] { captured = used(stream_, 1 << 20); });
  EXPECT_NE(captured, nullptr);
  EXPECT_NE(captured, first);
  graph->launch(stream_);
  EXPECT_EQ(used(stream_, 1 << 20), first);
  device_->synchronize(other);
  device_->destroy_stream(other);
  // A later stream may have the handle of a destroyed one, whose work may not be done.
  const Stream later = device_->create_stream();
  EXPECT_NE(used(later, 1 << 20), first);
  device_->synchronize(later);
  device_->destroy_stream(later);
}

TEST_F(DeviceGpuTest, ALargeWorkspaceIsNotKept) {
  const std::int64_t bytes = KeptWorkspaces::kMostBytes + 1;
  const WorkspaceMemory large = device_->take_workspace(bytes, stream_);
  EXPECT_NE(large.data, nullptr);
  EXPECT_EQ(large.kept, nullptr);
  device_->give_back_workspace(large, stream_);
  device_->synchronize(stream_);
}

TEST_F(DeviceGpuTest, TwoOpeningsShareThePrimaryContext) {
  const DeviceBuffer x = filled(100, 6.0F);
  const auto again = cuda::open_device("auto");
  std::vector<float> values(100);
  again->copy_to_host(values.data(), x.data(), 400, nullptr);
  again->synchronize(nullptr);
  EXPECT_THAT(values, Each(6.0F));
  // Kernels and streams of one device object work with the other device object.
  const auto kernel = again->load(compile(*again, kAdd, "add"), 0, 1);
  enqueue_add(*kernel, x.data(), 100, 1.0F, stream_);
  EXPECT_THAT(read<float>(x.data(), 100), Each(7.0F));
  EXPECT_EQ(cuda::open_current_device()->info(), device_->info());
}

TEST_F(DeviceGpuTest, AKernelMayOutliveItsDeviceObject) {
  auto other = cuda::open_device("auto");
  const auto kernel = other->load(compile(*other, kAdd, "add"), 0, 1);
  other.reset();
  EXPECT_GT(kernel->usage().registers, 0);
}

TEST_F(DeviceGpuTest, OpensByUuidAndByItsPrefix) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(cuda::open_device(info.uuid)->info(), info);
  EXPECT_EQ(cuda::open_device(info.uuid.substr(0, info.uuid.size() - 1))->info(), info);
  EXPECT_EQ(cuda::open_device("0")->info(), cuda::list_devices().at(0));
  try {
    cuda::open_device("4711");
    FAIL() << "there is no device 4711";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_device);
    EXPECT_THAT(error.what(), HasSubstr(info.uuid));
  }
}

/// The child process of the test below.
[[noreturn]] void crash_the_kernel() {
  try {
    const auto device = cuda::open_device("auto");
    const auto kernel = device->load(compile(*device, kIllegal, "illegal"), 0, 1);
    void* nowhere = nullptr;
    LaunchShape shape;
    shape.block.x = 32;
    device->launch(*kernel, shape, &nowhere, nullptr);
    try {
      device->synchronize(nullptr);
    } catch (const Error& error) {
      std::cerr << to_string(error.kind()) << ": " << error.what() << "; ";
    }
    // The context is lost: the next call fails with an error.
    try {
      device->allocate(1024);
      std::cerr << "allocated";
    } catch (const Error& error) {
      std::cerr << "then " << to_string(error.kind()) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "before the crash: " << error.what() << std::endl;
  }
  std::_Exit(0);
}

// Death tests run first. "threadsafe" starts a new process, because the fault destroys its context.
TEST(DeviceGpuDeathTest, AnIllegalAddressIsAnErrorAndSticks) {
  try {
    cuda::list_devices();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(crash_the_kernel(), testing::ExitedWithCode(0),
              "device: waiting for a stream failed: CUDA_ERROR_ILLEGAL_ADDRESS.*then device");
}

}  // namespace
}  // namespace tilewise::test::device_gpu_test
