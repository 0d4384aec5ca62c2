#pragma once
// The tile loads of templates/tma.cuh, checked on any machine like warp_checks.hpp.
#include <algorithm>

#include "tests/device/warp_checks.hpp"
#include "tilewise/error.hpp"

namespace tilewise::test {

/// Loads two neighbouring boxes one after the other into the same stage: phases 0 and 1 of the
/// mbarrier.
inline const char* const kTiles = R"(#include "words/tma.cuh"
struct Args { TensorMap map; float* to; int x; int y; };
constexpr int kBytes = BOX_X * BOX_Y * 4;
KERNEL(64, 1) tiles(ARGUMENTS Args args) {
  char* shared = reinterpret_cast<char*>(shared_floats());
  Mbarrier* there = reinterpret_cast<Mbarrier*>(shared + PLACE + (kBytes + 127) / 128 * 128);
  if (threadIdx.x == 0) mbarrier_init(there, 1), mbarriers_ready();
  barrier();
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) {
      mbarrier_expect_tx(there, kBytes);
      load_tile(shared + PLACE, args.map, args.x + round * BOX_X, args.y, there);
    }
    mbarrier_wait(there, round);
    for (int i = threadIdx.x; i < BOX_X * BOX_Y; i += 64)
      args.to[round * BOX_X * BOX_Y + i] = *reinterpret_cast<float*>(shared + swizzled<SWIZZLE>(PLACE + i * 4));
    fence_proxy_async();
    barrier();
  }
}
)";

struct TilesArguments {
  alignas(64) std::uint64_t map[16];
  void* to;
  int x, y;
};

/// place: byte offset of the box in shared memory, a multiple of 128.
inline Defines tiles_defines(int swizzle, int place = 0) {
  return {
      {"BOX_X", swizzle ? swizzle / 4 : 12}, {"BOX_Y", 10}, {"SWIZZLE", swizzle}, {"PLACE", place}};
}

/// Checks a matrix of 24 rows of 40 floats, 44 apart, with elements 1, 2, 3, ... Columns are
/// multiples of 4 floats, as load_tile requires; boxes are clipped at every edge.
inline void check_tiles(const Machine& machine, int swizzle, int place = 0) {
  constexpr int kColumns = 40, kRows = 24, kStride = 44;
  constexpr std::uint32_t kBytes = 4096;
  const int width = swizzle ? swizzle / 4 : 12, height = 10;
  std::vector<float> matrix(kRows * kStride, -1.0F);
  for (int i = 0; i < kRows * kColumns; ++i)
    matrix[static_cast<std::size_t>(i / kColumns * kStride + i % kColumns)] =
        static_cast<float>(i + 1);
  const DeviceBuffer from = machine.upload(matrix);
  TensorMapRecipe recipe;
  recipe.dims = {kColumns, kRows};
  recipe.box = {width, height};
  recipe.swizzle_bytes = swizzle;
  const auto kernel = machine.load("tiles", kTiles, tiles_defines(swizzle, place), kBytes);
  for (const auto& [x, y] :
       {std::pair{0, 0}, {-4, 5}, {32, 20}, {4, -12}, {36, -3}, {-16, 23}, {100, 3}}) {
    const DeviceBuffer to =
        machine.upload(std::vector<float>(static_cast<std::size_t>(2 * width * height), 77.0F));
    TilesArguments arguments{{}, to.data(), x, y};
    machine.device.encode_tensor_map(recipe, from.data(), kStride * 4, arguments.map);
    machine.device.launch(*kernel, {{1, 1, 1}, {64, 1, 1}, {}, kBytes, false}, &arguments, nullptr);
    const auto got = machine.download<float>(to);
    for (int i = 0; i < 2 * width * height; ++i) {
      const int column = x + i / (width * height) * width + i % width;
      const int row = y + i % (width * height) / width;
      const bool inside = column >= 0 && column < kColumns && row >= 0 && row < kRows;
      ASSERT_EQ(got[static_cast<std::size_t>(i)],
                inside ? static_cast<float>(row * kColumns + column + 1) : 0.0F)
          << "swizzle " << swizzle << ", tile at " << x << ", " << y << ", element " << i;
    }
  }
}

/// Checks that strides below 2^40 bytes and dimensions up to 2^32 can be encoded, but no larger
/// ones. Encoding reads no memory.
inline void check_map_limits(Device& device) {
  constexpr std::int64_t kStride = std::int64_t{1} << 40, kSide = std::int64_t{1} << 32;
  const DeviceBuffer buffer(device, 4096);
  const auto encoded = [&](std::vector<std::int64_t> dims, const MapStrides& strides) {
    std::uint64_t map[16];
    TensorMapRecipe recipe;
    recipe.box = {32, 8};
    if (dims.size() == 3) recipe.box.push_back(1);
    recipe.dims = std::move(dims);
    try {
      device.encode_tensor_map(recipe, buffer.data(), strides, map);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(encoded({40, 24}, kStride - 16));
  EXPECT_FALSE(encoded({40, 24}, kStride));
  EXPECT_TRUE(encoded({40, 24, 3}, {176, kStride - 16}));
  EXPECT_FALSE(encoded({40, 24, 3}, {176, kStride}));
  EXPECT_TRUE(encoded({kSide, 2}, kSide * 4));
  EXPECT_FALSE(encoded({kSide + 4, 2}, kSide * 4 + 16));
  EXPECT_TRUE(encoded({40, kSide}, 176));
  EXPECT_FALSE(encoded({40, kSide + 1}, 176));
  EXPECT_TRUE(encoded({4, 2, kSide}, {16, 32}));
  EXPECT_FALSE(encoded({4, 2, kSide + 1}, {16, 32}));
}

/// Checks f32 that TMA rounds to tf32 during the copy; each result is that of an H200.
inline void check_rounded_tiles(const Machine& machine) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kAnswers[] = {
      {0x00000000, 0x00000000}, {0x80000000, 0x80000000}, {0x7f800000, 0x7f800000},
      {0xff800000, 0xff800000}, {0x7fc00000, 0x7fffe000}, {0x7f800001, 0x7fffe000},
      {0xffffffff, 0x7fffe000}, {0x00000001, 0x00000000}, {0x00001000, 0x00000000},
      {0x00001001, 0x00002000}, {0x00003000, 0x00004000}, {0x007fffff, 0x00800000},
      {0x7f7fffff, 0x7f800000}, {0x7f7fefff, 0x7f7fe000}, {0xff7fffff, 0xff800000},
      {0x80001800, 0x80002000}, {0x3f801000, 0x3f800000}, {0x3f803000, 0x3f804000},
      {0x3f801001, 0x3f802000}, {0xc2345fff, 0xc2346000}};
  constexpr int kWidth = 12, kHeight = 10;
  constexpr std::uint32_t kBytes = 4096;
  std::vector<std::uint32_t> matrix(2 * kWidth * kHeight);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = kAnswers[i % std::size(kAnswers)].first;
  const DeviceBuffer from = machine.upload(matrix);
  TensorMapRecipe recipe;
  recipe.dims = {2 * kWidth, kHeight};
  recipe.box = {kWidth, kHeight};
  recipe.rounded = true;
  const auto kernel = machine.load("tiles", kTiles, tiles_defines(0), kBytes);
  const DeviceBuffer to = machine.upload(matrix);
  TilesArguments arguments{{}, to.data(), 0, 0};
  machine.device.encode_tensor_map(recipe, from.data(), 2 * kWidth * 4, arguments.map);
  machine.device.launch(*kernel, {{1, 1, 1}, {64, 1, 1}, {}, kBytes, false}, &arguments, nullptr);
  const auto got = machine.download<std::uint32_t>(to);
  for (int i = 0; i < 2 * kWidth * kHeight; ++i) {
    const int column = i / (kWidth * kHeight) * kWidth + i % kWidth;
    const int place = i % (kWidth * kHeight) / kWidth * 2 * kWidth + column;
    const auto& [word, rounded] = kAnswers[static_cast<std::size_t>(place) % std::size(kAnswers)];
    ASSERT_EQ(got[static_cast<std::size_t>(i)], rounded) << std::hex << "of " << word;
  }
}

/// Stores a box of 1, 2, 3, ... at (x, y), and then one of 1001, 1002, ... at the box below.
inline const char* const kStores = R"(#include "words/tma.cuh"
struct Args { TensorMap map; int x; int y; };
KERNEL(64, 1) stores(ARGUMENTS Args args) {
  char* shared = reinterpret_cast<char*>(shared_floats());
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) stores_read<0>();
    barrier();
    for (int i = threadIdx.x; i < BOX_X * BOX_Y; i += 64)
      *reinterpret_cast<float*>(shared + swizzled<SWIZZLE>(PLACE + i * 4)) = 1000 * round + i + 1;
    fence_proxy_async();
    barrier();
    if (threadIdx.x == 0) {
      store_tile(args.map, args.x, args.y + round * BOX_Y, shared + PLACE);
      stores_commit();
    }
  }
  if (threadIdx.x == 0) stores_read<0>();
}
)";

/// Checks stores. The hardware stores whole 16 bytes: of a matrix with 37 columns it writes 40.
inline void check_stores(const Machine& machine, int swizzle, int columns, int place = 0) {
  constexpr int kRows = 24, kStride = 44;
  const int written = (columns + 3) / 4 * 4;
  constexpr std::uint32_t kBytes = 4096;
  const int width = swizzle ? swizzle / 4 : 12, height = 10;
  TensorMapRecipe recipe;
  recipe.dims = {columns, kRows};
  recipe.box = {width, height};
  recipe.swizzle_bytes = swizzle;
  const auto kernel = machine.load("stores", kStores, tiles_defines(swizzle, place), kBytes);
  for (const auto& [x, y] : {std::pair{0, 0}, {4, 3}, {32, 8}, {0, 14}, {36, 20}}) {
    const DeviceBuffer to = machine.upload(std::vector<float>(kRows * kStride, -1.0F));
    struct alignas(64) Arguments {
      std::uint64_t map[16];
      int x, y;
    } arguments{{}, x, y};
    machine.device.encode_tensor_map(recipe, to.data(), kStride * 4, arguments.map);
    machine.device.launch(*kernel, {{1, 1, 1}, {64, 1, 1}, {}, kBytes, false}, &arguments, nullptr);
    const auto got = machine.download<float>(to);
    for (int i = 0; i < kRows * kStride; ++i) {
      const int column = i % kStride - x, row = i / kStride - y;
      const bool stored =
          i % kStride < written && column >= 0 && column < width && row >= 0 && row < 2 * height;
      ASSERT_EQ(got[static_cast<std::size_t>(i)],
                stored ? static_cast<float>(row / height * 1000 + row % height * width + column + 1)
                       : -1.0F)
          << "swizzle " << swizzle << ", box at " << x << ", " << y << ", element " << i;
    }
  }
}

/// Checks rows of any length with four row classes: a matrix of 11 rows of 21 floats, 23 apart,
/// `begin` floats after an aligned address. A tile's elements before the row are not checked; those
/// after the matrix are zeros.
inline void check_row_classes(const Machine& machine, int begin) {
  constexpr int kColumns = 21, kRows = 11, kStride = 23, kRowClasses = 4, kWidth = 12, kHeight = 10;
  constexpr std::uint32_t kBytes = 4096;
  std::vector<float> matrix(static_cast<std::size_t>(begin + kRows * kStride), -1.0F);
  for (int i = 0; i < kRows * kColumns; ++i)
    matrix[static_cast<std::size_t>(begin + i / kColumns * kStride + i % kColumns)] =
        static_cast<float>(i + 1);
  const DeviceBuffer from = machine.upload(matrix);
  const auto kernel = machine.load("tiles", kTiles, tiles_defines(0), kBytes);
  TensorMapRecipe recipe;
  recipe.dims = {kColumns, kRows};
  recipe.box = {kWidth, kHeight};
  recipe.row_classes = kRowClasses;
  for (recipe.row_class = 0; recipe.row_class < kRowClasses; ++recipe.row_class) {
    const int before = (begin + recipe.row_class * kStride) % 4;
    const DeviceBuffer to =
        machine.upload(std::vector<float>(static_cast<std::size_t>(2 * kWidth * kHeight), 77.0F));
    TilesArguments arguments{{}, to.data(), 0, -2};
    machine.device.encode_tensor_map(recipe, static_cast<const float*>(from.data()) + begin,
                                     kStride * 4, arguments.map);
    machine.device.launch(*kernel, {{1, 1, 1}, {64, 1, 1}, {}, kBytes, false}, &arguments, nullptr);
    const auto got = machine.download<float>(to);
    for (int i = 0; i < 2 * kWidth * kHeight; ++i) {
      const int column = i / (kWidth * kHeight) * kWidth + i % kWidth - before;
      const int of_class = i % (kWidth * kHeight) / kWidth - 2;
      const int row = of_class * kRowClasses + recipe.row_class;
      if (column < 0) continue;
      const bool inside = column < kColumns && of_class >= 0 && row < kRows;
      ASSERT_EQ(got[static_cast<std::size_t>(i)],
                inside ? static_cast<float>(row * kColumns + column + 1) : 0.0F)
          << "from " << begin << ", row class " << recipe.row_class << ", element " << i;
    }
  }
}

/// Three warps: elect_one elects one lane of each, the same one twice, and each warp has its
/// number.
inline const char* const kElectOne = R"(#include "words/tma.cuh"
struct Args { int* to; };
KERNEL(96, 1) chosen(ARGUMENTS Args args) {
  const int warp = warp_number();
  for (int time = 0; time < 2; ++time) {
    if (elect_one()) args.to[time * 96 + threadIdx.x] = 10 + warp;
    warp_barrier();
  }
}
)";

inline void check_elect_one(const Machine& machine) {
  const auto kernel = machine.load("chosen", kElectOne);
  const DeviceBuffer to = machine.upload(std::vector<int>(2 * 96, 0));
  machine.launch(*kernel, 96, {to.data()});
  const auto got = machine.download<int>(to);
  for (int group = 0; group < 2 * 3; ++group) {
    const auto first = got.begin() + group * 32;
    EXPECT_EQ(std::count(first, first + 32, 0), 31) << "time and warp " << group;
    EXPECT_EQ(std::count(first, first + 32, 10 + group % 3), 1) << "time and warp " << group;
  }
}

}  // namespace tilewise::test
