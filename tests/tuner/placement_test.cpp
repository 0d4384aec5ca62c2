#include "tuner/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Pieces, CoverTheAllocationInOrderWithoutSplittingRows) {
  for (const Placement& place : {guarded_placement(37, 19, 4, 4), tight_placement(37, 19, 4, 16),
                                 tight_placement(1, 1, 4, 4), guarded_placement(3, 5000, 4, 16)}) {
    for (const std::int64_t most : {1, 200, 5000, 1 << 20}) {
      std::int64_t offset = 0, row = 0, longest = 0;
      for (const Piece& piece : pieces_of(place, most)) {
        EXPECT_EQ(piece.offset, offset);
        offset += piece.bytes;
        longest = std::max(longest, piece.bytes);
        if (piece.rows == 0) continue;
        EXPECT_EQ(piece.first_row, row);
        EXPECT_EQ(piece.offset, place.before + row * place.row_bytes());
        EXPECT_EQ(piece.bytes, piece.rows * place.row_bytes());
        EXPECT_TRUE(piece.bytes <= most || piece.rows == 1);
        row += piece.rows;
      }
      EXPECT_EQ(offset, place.bytes);
      EXPECT_EQ(row, place.rows);
      EXPECT_LE(longest, longest_piece(place, most));
    }
  }
}

TEST(Buffers, GiveEverythingBack) {
  fake::Device device;
  {
    const HostBuffer host(device, 1000);
    HostBuffer other(device, 10);
    other = HostBuffer(device, 20);
    const DeviceMatrix matrix(device, guarded_placement(6, 5, 4, 8));
    EXPECT_EQ(device.blocks, 3);
  }
  EXPECT_EQ(device.blocks, 0);
}

}  // namespace
}  // namespace tilewise
