#include "matmul/map_cache.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/fake_device.hpp"

namespace tilewise::map_cache_test {
namespace {

struct MapCache : testing::Test {
  /// The base address of the returned map.
  const void* base_of(std::uint64_t owner, std::int64_t index, const void* base, std::int64_t row) {
    alignas(64) std::byte map[128];
    encode_cached(device, recipe, owner, index, base, {row}, map);
    FakeTensorMap seen;
    std::memcpy(&seen, map, sizeof seen);
    EXPECT_EQ(seen.stride_bytes, row);
    return seen.base;
  }
  static TensorMapRecipe some_recipe() {
    TensorMapRecipe recipe;
    recipe.base = {Argument::Kind::a};
    recipe.stride = {Argument::Kind::lda};
    recipe.dims = {4, 4}, recipe.box = {4, 4};
    return recipe;
  }
  FakeDevice device;
  const TensorMapRecipe recipe = some_recipe();
  std::vector<float> memory = std::vector<float>(4096);
};

TEST_F(MapCache, SetsOfOperandsThatTakeTurnsAreEncodedOnce) {
  const std::uint64_t owner = next_map_owner();
  const auto round = [&] {
    const int before = device.encoded_maps;
    for (int set = 0; set < 16; ++set)
      for (int index = 0; index < 3; ++index) {
        const void* const base = &memory[static_cast<std::size_t>(set * 256 + index * 64)];
        EXPECT_EQ(base_of(owner, index, base, 80), base);
      }
    return device.encoded_maps - before;
  };
  EXPECT_EQ(round(), 48);
  EXPECT_LE(round(), 10) << "few have the same place";
}

TEST_F(MapCache, AnythingElseIsEncodedAnew) {
  const std::uint64_t owner = next_map_owner();
  base_of(owner, 0, memory.data(), 80);
  EXPECT_EQ(device.encoded_maps, 1);
  base_of(owner, 0, memory.data(), 80);
  EXPECT_EQ(device.encoded_maps, 1);
  base_of(owner, 0, memory.data(), 96);
  base_of(owner, 1, memory.data(), 80);
  base_of(owner, 0, memory.data() + 4, 80);
  base_of(next_map_owner(), 0, memory.data(), 80);
  EXPECT_EQ(device.encoded_maps, 5);
}

TEST_F(MapCache, ManyMapsAreStillRight) {
  const std::uint64_t owner = next_map_owner();
  for (int turn = 0; turn < 3; ++turn)
    for (std::size_t i = 0; i < 1000; ++i)
      ASSERT_EQ(base_of(owner, 0, &memory[i * 4], 80), &memory[i * 4]);
}

}  // namespace
}  // namespace tilewise::map_cache_test
