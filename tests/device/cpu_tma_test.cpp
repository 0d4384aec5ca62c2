// Tile loads and mbarriers on the CPU executor.
#include <gmock/gmock.h>

#include "device/cpu/cpu.hpp"
#include "tests/device/tma_checks.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_tma_test {
namespace {

using cpu::ThreadOrder;
using test::Machine;
using testing::HasSubstr;

class CpuTma : public testing::TestWithParam<ThreadOrder> {
 protected:
  std::unique_ptr<Device> device_ = cpu::open_device("host:sm_90a", {GetParam(), 5, 1, 0.2});
  std::unique_ptr<Compiler> compiler_ = cpu::load_compiler({"-O1", ""});
  Machine machine_{*device_, *compiler_};
};
INSTANTIATE_TEST_SUITE_P(Orders, CpuTma,
                         testing::Values(ThreadOrder::forward, ThreadOrder::reversed,
                                         ThreadOrder::shuffled));

TEST_P(CpuTma, TilesLandSwizzledAndClipped) {
  for (const int swizzle : {0, 32, 64, 128}) test::check_tiles(machine_, swizzle);
}

TEST_P(CpuTma, TilesAreStoredSwizzledAndClipped) {
  for (const int swizzle : {0, 32, 64, 128})
    for (const int columns : {40, 37}) test::check_stores(machine_, swizzle, columns);
}

TEST_P(CpuTma, ABoxMayBeginWithinTheSwizzlesPattern) {
  for (const int swizzle : {32, 64, 128}) {
    test::check_tiles(machine_, swizzle, 5 * 128);
    test::check_stores(machine_, swizzle, 40, 5 * 128);
  }
}

TEST_P(CpuTma, TilesOfF32AreRoundedToTf32) { test::check_rounded_tiles(machine_); }

TEST_P(CpuTma, RowsOfAnyLengthAreLoadedByRowClass) {
  for (const int begin : {0, 1, 2, 3}) test::check_row_classes(machine_, begin);
}
TEST_P(CpuTma, MapsHaveTheLimitsOfTheDriver) { test::check_map_limits(*device_); }
TEST_P(CpuTma, OneLaneOfAWarpIsChosen) { test::check_elect_one(machine_); }

/// The error of a kernel of 32 threads with this body. `there` is an mbarrier for one arrival,
/// `tile` is shared memory for a tile of 8 x 4 floats, all 1. The body's first line is line 8 of
/// bad.cu. The kernel writes args.to[threadIdx.x].
std::string complaint(const std::string& body, std::vector<float>* to = nullptr,
                      ThreadOrder order = ThreadOrder::forward) {
  const auto device = cpu::open_device("host:sm_90a", {order, 5, 1, 0.2});
  static const auto compiler = cpu::load_compiler({"-O0", ""});
  const Machine machine{*device, *compiler};
  const auto kernel =
      machine.load("bad",
                   "#include \"words/tma.cuh\"\n"
                   "struct Args { TensorMap map; float* to; int x; int y; };\n"
                   "KERNEL(32, 1) bad(ARGUMENTS Args args) {\n"
                   "float* tile = shared_floats();\n"
                   "auto there = reinterpret_cast<Mbarrier*>(tile + 32);\n"
                   "if (threadIdx.x == 0) mbarrier_init(there, 1), mbarriers_ready();\n"
                   "barrier();\n" +
                       body + "\n}\n",
                   {}, 256);
  const DeviceBuffer from = machine.upload(std::vector<float>(8 * 4, 1.0F)),
                     out = machine.upload(std::vector<float>(32));
  TensorMapRecipe recipe;
  recipe.dims = {8, 4}, recipe.box = {8, 4};
  test::TilesArguments arguments{{}, out.data(), 0, 0};
  device->encode_tensor_map(recipe, from.data(), 32, arguments.map);
  try {
    device->launch(*kernel, {{1, 1, 1}, {32, 1, 1}, {}, 256, false}, &arguments, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  if (to) *to = machine.download<float>(out);
  return "";
}

const std::string kIssue =
    "if (threadIdx.x == 0) { mbarrier_expect_tx(there, 128);\nload_tile(tile, args.map, 0, 0, "
    "there); "
    "}\n";

TEST(Tma, ATileIsPoisonedUntilItIsWaitedFor) {
  std::vector<float> to;
  EXPECT_EQ(
      complaint("if (threadIdx.x < 32) tile[threadIdx.x] = 5;\nbarrier();\n" + kIssue +
                    "barrier();\nargs.to[threadIdx.x] = tile[threadIdx.x] != tile[threadIdx.x];\n"
                    "barrier();\nmbarrier_wait(there, 0);\n"
                    "args.to[threadIdx.x] += tile[threadIdx.x];",
                &to),
      "");
  EXPECT_THAT(to, testing::Each(2.0F)) << "a NaN first, then the one";
}

TEST(Tma, ATileThatNobodyWaitsFor) {
  EXPECT_THAT(complaint(kIssue),
              HasSubstr("block (0,0,0): ends without waiting for the tile that load_tile copies at "
                        "bad.cu:9"));
}

TEST(Tma, AStoreThatNobodyWaitsFor) {
  EXPECT_THAT(
      complaint("if (threadIdx.x == 0) { store_tile(args.map, 0, 0, tile);\nstores_commit(); }"),
      HasSubstr("ends without waiting for the tile that store_tile copies at bad.cu:8"));
  EXPECT_THAT(complaint("store_tile(args.map, 0, 0, tile + 1);"),
              HasSubstr("bad.cu:8: store_tile's place is not aligned"));
  EXPECT_THAT(complaint("store_tile(args.map, 0, 0, tile + 64);"),
              HasSubstr("bad.cu:8: store_tile reaches outside the block's shared memory"));
}

TEST(Tma, ACopyAtAnMbarrierThatIsNotReady) {
  const std::string second = "if (threadIdx.x == 0) { mbarrier_init(there + 1, 1);\n";
  const std::string copied =
      "mbarrier_expect_tx(there + 1, 128);\nload_tile(tile, args.map, 0, 0, there + 1); }\n"
      "barrier();\nmbarrier_wait(there + 1, 0);";
  EXPECT_EQ(complaint(second + "mbarriers_ready();\n" + copied), "");
  EXPECT_THAT(complaint(second + copied),
              HasSubstr("thread (0,0,0) at bad.cu:10: a copy counts at an mbarrier without "
                        "mbarriers_ready() after its mbarrier_init()"));
}

TEST(Tma, AStoreAtAPlaceThatAGpuRefusesIsRefused) {
  const auto stored_at = [](const std::string& place) {
    return complaint("if (threadIdx.x == 5) { store_tile(args.map, " + place +
                     ", tile);\nstores_commit();\nstores_read<0>(); }");
  };
  for (const std::string place : {"0, 0", "4, 3", "100, 100"}) EXPECT_EQ(stored_at(place), "");
  EXPECT_THAT(stored_at("-4, 2"),
              HasSubstr("thread (5,0,0) at bad.cu:8: store_tile's column and row must be at least "
                        "0, and are -4 and 2"));
  EXPECT_THAT(stored_at("4, -2"), HasSubstr("must be at least 0, and are 4 and -2"));
  EXPECT_THAT(stored_at("1, 0"),
              HasSubstr("store_tile's column must be a multiple of 4 (16 bytes), and is 1"));
}

TEST(Tma, ABarrierStaysOneUntilTheBlockEnds) {
  const std::string before = kIssue + "mbarrier_wait(there, 0);\nbarrier();\n";
  EXPECT_EQ(complaint(before), "");
  for (const std::string value : {"0.0f", "1.0f", "-3.25f", "1e-40f"})
    for (const std::string places : {"2", "1"})
      EXPECT_THAT(complaint(before + "if (threadIdx.x < " + places +
                            ") tile[32 + threadIdx.x] = " + value + ";"),
                  HasSubstr("block (0,0,0): has written over the mbarrier that was "
                            "initialised at bad.cu:6"))
          << value << " in the first " << places << " words";
}

TEST(Tma, AWaitForWhatDoesNotComeIsADeadlock) {
  EXPECT_THAT(complaint("mbarrier_wait(there, 0);"),
              HasSubstr("deadlock: threads only wait: threads 0-31 at bad.cu:8"));
  EXPECT_THAT(complaint("if (threadIdx.x == 0) { mbarrier_expect_tx(there, 256);\n"
                        "load_tile(tile, args.map, 0, 0, there); }\nmbarrier_wait(there, 0);"),
              HasSubstr("deadlock: threads only wait: threads 0-31 at bad.cu:10"))
      << "more bytes are announced than come";
}

TEST(Tma, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(complaint("if (threadIdx.x == 7)\nmbarrier_arrive(there + 1);"),
              HasSubstr("thread (7,0,0) at bad.cu:9: an mbarrier that was not initialised"));
  EXPECT_THAT(
      complaint(
          "if (threadIdx.x == 0) { mbarrier_expect_tx(there, 128);\nmbarrier_arrive(there); }"),
      HasSubstr("thread (0,0,0) at bad.cu:9: one arrival too many"));
  EXPECT_THAT(complaint("mbarrier_arrive(there + 100);"),
              HasSubstr("bytes of the block's shared memory"));
  EXPECT_THAT(complaint("load_tile(tile + 1, args.map, 0, 0, there);"),
              HasSubstr("thread (0,0,0) at bad.cu:8: load_tile's place is not aligned"));
  EXPECT_THAT(
      complaint(
          "load_tile(tile + 32, args.map, 0, 0, there);\nload_tile(tile + 64, args.map, 0, 0, "
          "there);"),
      HasSubstr("at bad.cu:9: load_tile reaches outside the block's shared memory"));
  EXPECT_THAT(complaint("TensorMap none = {};\nload_tile(tile, none, 0, 0, there);"),
              HasSubstr("at bad.cu:9: load_tile's map is none that this device has encoded"));
}

TEST(Tma, ALaneIsChosenOfAWholeWarp) {
  EXPECT_THAT(complaint("if (threadIdx.x < 16) elect_one();\nelse warp_barrier();"),
              AllOf(HasSubstr("mismatched warp operation"), HasSubstr("elect_one at bad.cu:8")));
}

TEST(Tma, AColumnThatAGpuRefusesIsRefused) {
  const auto loaded_from = [](const std::string& column, const std::string& row) {
    return complaint(
        "if (threadIdx.x == 5) { mbarrier_expect_tx(there, 128);\nload_tile(tile, args.map, " +
        column + ", " + row + ", there); }\nmbarrier_wait(there, 0);");
  };
  for (const std::string column : {"-3", "1", "2", "30"})
    EXPECT_THAT(loaded_from(column, "0"),
                HasSubstr("block (0,0,0): thread (5,0,0) at bad.cu:9: load_tile's column must be a "
                          "multiple of 4 (16 bytes), and is " +
                          column));
  for (const std::string column : {"-4", "0", "4", "100"}) EXPECT_EQ(loaded_from(column, "-3"), "");
}

TEST(Tma, ABarrierForSeveralArrivalsWaitsForAll) {
  std::vector<float> to;
  EXPECT_EQ(
      complaint(
          "if (threadIdx.x == 0) mbarrier_init(there + 1, 31);\nbarrier();\n"
          "if (threadIdx.x > 0) { tile[threadIdx.x] = 1; mbarrier_arrive(there + 1); return; }\n"
          "mbarrier_wait(there + 1, 0);\nfloat sum = 0;\n"
          "for (int i = 1; i < 32; ++i) sum += tile[i];\nargs.to[0] = sum;",
          &to),
      "");
  EXPECT_EQ(to.at(0), 31.0F);
}

TEST(Tma, MapsThatADriverRefusesAreRefused) {
  const auto device = cpu::open_device("host:sm_90a");
  const DeviceBuffer buffer(*device, 4096);
  const auto refusal = [&](const TensorMapRecipe& recipe, std::int64_t stride, int offset = 0) {
    std::uint64_t map[16];
    try {
      device->encode_tensor_map(recipe, static_cast<char*>(buffer.data()) + offset, stride, map);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  TensorMapRecipe right;
  right.dims = {40, 24}, right.box = {32, 8}, right.swizzle_bytes = 128;
  EXPECT_EQ(refusal(right, 176), "");
  EXPECT_THAT(refusal(right, 180), HasSubstr("a stride of 180 bytes"));
  EXPECT_THAT(refusal(right, 176, 4), HasSubstr("address"));
  TensorMapRecipe wrong = right;
  wrong.box = {32, 257};
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("a box side of 257; allowed are 1 to 256"));
  wrong.box = {64, 8};
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("a box of 256 bytes a row"));
  wrong = right, wrong.dims = {0, 24};
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("a dimension of 0"));
  wrong = right, wrong.dims = {40};
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("rank 1"));
  wrong = right, wrong.swizzle_bytes = 16;
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("a swizzle of 16 bytes"));

  // The limits.
  constexpr std::int64_t kStride = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(right, kStride), HasSubstr("a stride of 1099511627776 bytes"));
  wrong = right, wrong.dims[1] = (std::int64_t{1} << 32) + 1;
  EXPECT_THAT(refusal(wrong, 176), HasSubstr("a dimension of 4294967297"));

  // The last of four row classes: rows are 180 bytes apart, so every fourth row starts at a
  // multiple of 16 bytes.
  TensorMapRecipe row_class;
  row_class.dims = {40, 24}, row_class.box = {32, 8}, row_class.row_classes = 4,
  row_class.row_class = 3;
  EXPECT_EQ(refusal(row_class, 180, 4), "");
  EXPECT_THAT(refusal(row_class, 178), HasSubstr("a stride of 712 bytes"));
  EXPECT_EQ(refusal(row_class, kStride / 4 - 4, 4), "");
  EXPECT_THAT(refusal(row_class, kStride / 4), HasSubstr("a stride of 1099511627776 bytes"));
  row_class.dims = {40, 3};
  EXPECT_THAT(refusal(row_class, 180), HasSubstr("a dimension of 0"));
}

}  // namespace
}  // namespace tilewise::cpu_tma_test
