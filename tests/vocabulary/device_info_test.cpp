#include "vocabulary/device_info.hpp"

#include <gmock/gmock.h>

#include "tilewise/error.hpp"
#include "vocabulary/image.hpp"

namespace tilewise::device_info_test {
namespace {

using testing::HasSubstr;

TEST(Targets, ParseEveryForm) {
  for (const char* text : {"sm_90", "compute_90", "90", "9.0", "sm_9.0"}) {
    EXPECT_EQ(parse_target(text), (Target{9, 0, false})) << text;
  }
  EXPECT_EQ(parse_target("sm_90a"), (Target{9, 0, true}));
  EXPECT_EQ(parse_target("9.0a"), (Target{9, 0, true}));
  EXPECT_EQ(parse_target("sm_103"), (Target{10, 3, false}));
  EXPECT_EQ(parse_target("12.1"), (Target{12, 1, false}));
}

TEST(Targets, RefuseWhatIsNone) {
  for (const char* text : {"", "sm_", "9", "a", "sm_9x", "sm_90b", "hopper", "-90", "9.", ".0",
                           "09", "00", "12345", "9..0", "sm_sm_90", "9 0"}) {
    try {
      parse_target(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("\"" + std::string(text) + "\""));
      EXPECT_THAT(error.what(), HasSubstr("sm_90a"));
    }
  }
}

TEST(Targets, TextRoundTrips) {
  EXPECT_EQ(to_string(Target{9, 0, true}), "sm_90a");
  EXPECT_EQ(to_string(best_target(9, 0)), "sm_90a");
  EXPECT_EQ(to_string(best_target(10, 0)), "sm_100a");
  EXPECT_EQ(to_string(best_target(10, 3)), "sm_103a");
  EXPECT_EQ(to_string(best_target(11, 0)), "sm_110a");
  EXPECT_EQ(to_string(best_target(12, 1)), "sm_121a");
  EXPECT_EQ(to_string(best_target(8, 6)), "sm_86");
  std::string all;
  for (const Target& target : known_targets()) {
    EXPECT_EQ(parse_target(to_string(target)), target);
    all += to_string(target) + " ";
  }
  EXPECT_EQ(all, "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_103a sm_120a ");
}

TEST(Targets, TheCpuIsATargetOfItsOwn) {
  EXPECT_EQ(parse_target("host:sm_90a"), (Target{9, 0, true, true}));
  EXPECT_EQ(parse_target("host:9.0"), (Target{9, 0, false, true}));
  EXPECT_EQ(parse_target("host"), default_host_target());
  EXPECT_EQ(to_string(default_host_target()), "host:sm_80");
  EXPECT_EQ(to_string(best_target(Target{9, 0, false, true})), "host:sm_90a");
  EXPECT_EQ(parse_target(to_string(Target{9, 0, true, true})), (Target{9, 0, true, true}));
  EXPECT_NE((Target{9, 0, true, true}), (Target{9, 0, true}));
  for (const char* text : {"host:", "host:host", "host90", "sm_90:host", "host:sm_9"})
    EXPECT_THROW(parse_target(text), Error) << text;
}

TEST(FeatureTable, FollowsTheCapability) {
  const auto names = [](const char* target) {
    std::string text;
    for (std::size_t i = 0; i < static_cast<std::size_t>(Feature::count_); ++i) {
      const auto feature = static_cast<Feature>(i);
      if (has(features_of(parse_target(target)), feature)) {
        text += std::string(to_string(feature)) + " ";
      }
    }
    return text;
  };
  EXPECT_EQ(names("70"), "");
  EXPECT_EQ(names("75"), "ldmatrix mma_f16 mma_i8 ");
  EXPECT_EQ(names("86"), "cp_async ldmatrix mma_f16 mma_i8 mma_bf16 mma_tf32 mbarrier ");
  EXPECT_EQ(names("80"), "cp_async ldmatrix mma_f16 mma_i8 mma_bf16 mma_tf32 mma_f64 mbarrier ");
  EXPECT_EQ(names("89"), "cp_async ldmatrix mma_f16 mma_i8 mma_bf16 mma_tf32 mma_fp8 mbarrier ");
  const std::string hopper =
      "cp_async ldmatrix mma_f16 mma_i8 mma_bf16 mma_tf32 mma_f64 mma_fp8 mbarrier tma clusters "
      "programmatic_launch ";
  EXPECT_EQ(names("90"), hopper);
  EXPECT_EQ(names("90a"), hopper + "wgmma ");
  EXPECT_EQ(names("100a"), hopper);
}

TEST(NominalDevice, KnowsTheProgrammingGuide) {
  struct Row {
    const char* target;
    int per_block_kb, per_multiprocessor_kb, threads, blocks, lanes;
  };
  for (const Row& row : {Row{"75", 64, 64, 1024, 16, 64}, Row{"80", 163, 164, 2048, 32, 64},
                         Row{"86", 99, 100, 1536, 16, 128}, Row{"87", 163, 164, 1536, 16, 128},
                         Row{"89", 99, 100, 1536, 24, 128}, Row{"90a", 227, 228, 2048, 32, 128},
                         Row{"100", 227, 228, 2048, 32, 128}, Row{"103", 227, 228, 2048, 32, 128},
                         Row{"110", 227, 228, 1536, 24, 128}, Row{"120", 99, 100, 1536, 24, 128},
                         Row{"121", 99, 100, 1536, 24, 128}}) {
    const DeviceInfo info = nominal_device(parse_target(row.target));
    EXPECT_EQ(info.shared_per_block, row.per_block_kb * 1024) << row.target;
    EXPECT_EQ(info.shared_per_multiprocessor, row.per_multiprocessor_kb * 1024) << row.target;
    EXPECT_EQ(info.threads_per_multiprocessor, row.threads) << row.target;
    EXPECT_EQ(info.blocks_per_multiprocessor, row.blocks) << row.target;
    EXPECT_EQ(info.fp32_lanes, row.lanes) << row.target;
    EXPECT_EQ(info.features, features_of(info.target)) << row.target;
    EXPECT_GT(peak_flops(info), 1e12) << row.target;
    EXPECT_GT(peak_bandwidth(info), 1e11) << row.target;
    EXPECT_GT(info.l2_bytes, 0) << row.target;
    EXPECT_GT(info.memory_bytes, info.l2_bytes) << row.target;
    // The largest shared memory of a block plus the system's reserve is the shared memory of a
    // multiprocessor.
    EXPECT_EQ(info.shared_per_block + info.shared_reserved_per_block,
              info.shared_per_multiprocessor)
        << row.target;
  }
  EXPECT_EQ(nominal_device({9, 0, true}).name, "sm_90a (nominal)");
  EXPECT_TRUE(nominal_device({9, 0, true}).uuid.empty());
}

TEST(NominalDevice, RefusesWhatItHasNoFactsOf) {
  for (const Target target : {Target{7, 0}, Target{6, 1}, Target{13, 7}}) {
    try {
      nominal_device(target);
      ADD_FAILURE() << to_string(target);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_THAT(error.what(), HasSubstr(to_string(target)));
      EXPECT_THAT(error.what(), HasSubstr("sm_75"));
    }
  }
}

TEST(Peaks, AreTheFormulas) {
  DeviceInfo h200 = nominal_device({9, 0, true});
  EXPECT_DOUBLE_EQ(peak_flops(h200), 132 * 128 * 2 * 1980e6);
  EXPECT_DOUBLE_EQ(peak_bandwidth(h200), 6144.0 / 8 * 3201e6 * 2);
  h200.clock_khz = 0;
  h200.memory_clock_khz = 0;
  EXPECT_EQ(peak_flops(h200), 0);
  EXPECT_EQ(peak_bandwidth(h200), 0);
}

TEST(LargestSquare, ThreeMatricesJustFit) {
  for (const std::int64_t n : {1, 2, 3, 1000, 46341, 108000, 800'000'000}) {
    EXPECT_EQ(largest_square(3 * n * n * 4, 4), n);
    EXPECT_EQ(largest_square(3 * n * n * 4 - 1, 4), n - 1);
  }
  EXPECT_EQ(largest_square(0, 4), 0);
  EXPECT_EQ(largest_square(-5, 4), 0);
}

TEST(GpuKey, IsNameCapabilityAndMultiprocessors) {
  DeviceInfo info = nominal_device({9, 0, true});
  info.name = "NVIDIA H200";
  EXPECT_EQ(gpu_key(info), "NVIDIA H200|9.0|132");
  info.clock_khz = 1;
  EXPECT_EQ(gpu_key(info), "NVIDIA H200|9.0|132");
}

struct Load {
  const char* target;
  std::uint32_t threads;
  int registers;
  std::uint32_t dynamic_bytes;
  int static_bytes;
};

Occupancy occupancy(const Load& load) {
  LaunchStep step;
  step.block = {load.threads, 1, 1};
  step.shared_bytes = load.dynamic_bytes;
  ResourceUsage usage;
  usage.registers = load.registers;
  usage.static_shared_bytes = load.static_bytes;
  return occupancy_of(step, usage, nominal_device(parse_target(load.target)));
}

void expect_occupancy(const Load& load, int blocks, const std::string& limit) {
  const Occupancy got = occupancy(load);
  const std::string what = std::string(load.target) + " " + std::to_string(load.threads) + " x " +
                           std::to_string(load.registers) + " registers";
  EXPECT_EQ(got.blocks, blocks) << what;
  EXPECT_EQ(got.limit, limit) << what;
}

TEST(OccupancyKnownAnswers, Registers) {
  // 128 x 32 = 4096 registers per warp: 16 warps per multiprocessor, 8 warps per block.
  expect_occupancy({"90", 256, 128, 0, 0}, 2, "registers");
  // 129 is rounded up to 136: 4352 per warp, 3 warps per partition, 12 in all.
  expect_occupancy({"90", 256, 129, 0, 0}, 1, "registers");
  // 40 registers: 1280 per warp, 12 per partition (16384 / 1280), 48 warps in all.
  expect_occupancy({"90", 256, 40, 0, 0}, 6, "registers");
  expect_occupancy({"90", 256, 255, 0, 0}, 1, "registers");
  // 1024 threads with 65 registers need 32 x 2304 = 73728 of 65536: it cannot be launched.
  expect_occupancy({"90", 1024, 65, 0, 0}, 0, "registers");
  expect_occupancy({"90", 1024, 64, 0, 0}, 1, "registers");
}

TEST(OccupancyKnownAnswers, SharedMemory) {
  // 233472 bytes per multiprocessor; each block takes 1 KB more than it requests.
  expect_occupancy({"90", 128, 32, 48 * 1024, 0}, 4, "shared memory");
  expect_occupancy({"90", 128, 32, 0, 48 * 1024}, 4, "shared memory");
  expect_occupancy({"90", 128, 32, 227 * 1024, 0}, 1, "shared memory");
  expect_occupancy({"90", 128, 32, 227 * 1024 + 1, 0}, 0, "shared memory");
  expect_occupancy({"86", 128, 32, 49 * 1024, 0}, 2, "shared memory");
  expect_occupancy({"86", 128, 32, 49 * 1024 + 1, 0}, 1, "shared memory");
  // Turing reserves nothing: two blocks of 32 KB fill its 64 KB.
  expect_occupancy({"75", 128, 32, 32 * 1024, 0}, 2, "shared memory");
}

TEST(OccupancyKnownAnswers, ThreadsAndBlocks) {
  expect_occupancy({"90", 1024, 16, 0, 0}, 2, "threads");
  expect_occupancy({"86", 1024, 16, 0, 0}, 1, "threads");
  expect_occupancy({"90", 32, 16, 0, 0}, 32, "blocks");
  expect_occupancy({"75", 32, 16, 0, 0}, 16, "blocks");
  // Part of a warp counts as a whole one: 33 threads are two warps.
  expect_occupancy({"86", 97, 16, 0, 0}, 12, "threads");
  expect_occupancy({"90", 1025, 16, 0, 0}, 0, "threads");
  // Unknown registers: the other limits apply.
  expect_occupancy({"90", 256, 0, 0, 0}, 8, "threads");
}

TEST(OccupancyKnownAnswers, MoreOfAnythingNeverRaisesIt) {
  for (const Target& target : known_targets()) {
    const std::string name = to_string(target);
    for (std::uint32_t threads = 32; threads <= 1024; threads += 32) {
      int before = 1 << 20;
      for (int registers = 1; registers <= 255; registers += 2) {
        const int blocks = occupancy({name.c_str(), threads, registers, 8192, 0}).blocks;
        ASSERT_LE(blocks, before);
        before = blocks;
      }
    }
  }
}

}  // namespace
}  // namespace tilewise::device_info_test
