#include "tuner/placement.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/tuner/fake_device.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {
namespace {

int address_alignment(const Placement& place) {
  return common_alignment(
      {static_cast<std::uint64_t>(place.before), static_cast<std::uint64_t>(place.row_bytes())},
      256);
}

TEST(Placement, GuardedIsAlignedExactlyAsPromised) {
  for (const int alignment : {4, 8, 16}) {
    for (const std::int64_t columns : {1, 3, 4, 31, 32, 33, 1023, 1024, 5000}) {
      const Placement place = guarded_placement(5, columns, 4, alignment);
      EXPECT_EQ(common_alignment({static_cast<std::uint64_t>(place.before)}, 256), alignment);
      EXPECT_EQ(common_alignment({static_cast<std::uint64_t>(place.row_bytes())}, 256), alignment);
      EXPECT_GT(place.ld, columns);
      EXPECT_GE(place.before, std::max<std::int64_t>(4096, place.row_bytes()));
      EXPECT_GE(place.bytes - place.before - 5 * place.row_bytes(),
                std::max<std::int64_t>(4096, place.row_bytes()));
    }
  }
}

TEST(Placement, TightKeepsThePromiseAndWastesLittle) {
  for (const int alignment : {4, 8, 16}) {
    for (const std::int64_t columns : {1, 3, 4, 31, 32, 33, 1023, 1024, 5000}) {
      const Placement place = tight_placement(5, columns, 4, alignment);
      EXPECT_GE(address_alignment(place), alignment);
      if (alignment < 16) {
        EXPECT_EQ(address_alignment(place), alignment) << columns;
      }
      EXPECT_LT(place.ld, columns + alignment / 4);
      EXPECT_GE(place.ld, columns);
      EXPECT_LE(place.before, 8);
    }
  }
}

class Upload : public testing::TestWithParam<std::int64_t> {  // bytes of staging
 protected:
  fake::Device device;
  Placement place = guarded_placement(37, 19, 4, 4);
  std::vector<float> values = std::vector<float>(37 * 19);
  void SetUp() override {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5F;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(values)); }
};
INSTANTIATE_TEST_SUITE_P(Staging, Upload, testing::Values(80, 200, 1 << 20));

TEST_P(Upload, PutsEveryElementInPlaceAndPoisonAround) {
  const HostBuffer staging(device, GetParam());
  const DeviceMatrix matrix(device, place);
  upload(device, nullptr, staging, matrix, bytes());
  const auto* at = static_cast<const float*>(matrix.data());
  for (std::int64_t i = 0; i < 37; ++i) {
    for (std::int64_t j = 0; j < 19; ++j) {
      ASSERT_EQ(at[i * place.ld + j], values[static_cast<std::size_t>(i * 19 + j)]);
    }
  }
  EXPECT_FALSE(broken_guard(place, static_cast<const std::byte*>(matrix.allocation())).found);
  EXPECT_TRUE(unchanged(device, nullptr, staging, matrix, bytes()));
}

TEST_P(Upload, EveryChangedByteIsSeen) {
  const HostBuffer staging(device, GetParam());
  const DeviceMatrix matrix(device, place);
  upload(device, nullptr, staging, matrix, bytes());
  auto* first = static_cast<std::byte*>(matrix.data());
  for (std::int64_t offset = 0; offset < 37 * place.row_bytes(); ++offset) {
    first[offset] ^= std::byte{1};
    ASSERT_FALSE(unchanged(device, nullptr, staging, matrix, bytes())) << offset;
    first[offset] ^= std::byte{1};
  }
}

TEST(Guards, EveryWordAroundTheMatrixIsWatched) {
  fake::Device device;
  const Placement place = guarded_placement(6, 5, 4, 8);
  const HostBuffer staging(device, 1 << 16);
  const DeviceMatrix matrix(device, place);
  const std::vector<float> values(30, 1);
  upload(device, nullptr, staging, matrix, std::as_bytes(std::span(values)));
  auto* all = static_cast<std::byte*>(matrix.allocation());
  for (std::int64_t offset = 0; offset < place.bytes; offset += 4) {
    const std::int64_t inside = offset - place.before;
    const bool element =
        inside >= 0 && inside < 6 * place.row_bytes() && inside % place.row_bytes() < 5 * 4;
    std::uint32_t old = 0, zero = 0;
    std::memcpy(&old, all + offset, 4);
    std::memcpy(all + offset, &zero, 4);
    const GuardCheck found = broken_guard(place, all);
    ASSERT_EQ(found.found, !element) << offset;
    if (!element) {
      ASSERT_EQ(found.offset, inside);
    }
    std::memcpy(all + offset, &old, 4);
  }
}

TEST(Buffers, GiveEverythingBack) {
  fake::Device device;
  {
    const HostBuffer staging(device, 1000);
    HostBuffer other(device, 10);
    other = HostBuffer(device, 20);
    const DeviceMatrix matrix(device, guarded_placement(6, 5, 4, 8));
    EXPECT_EQ(device.blocks, 3);
  }
  EXPECT_EQ(device.blocks, 0);
}

}  // namespace
}  // namespace tilewise
