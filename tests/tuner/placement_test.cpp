#include "tuner/evaluate/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/tuner/fake_kernels.hpp"
#include "tilewise/number.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::placement_test {
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

// ---- elements of other sizes, and batches ----

TEST(Placement, GuardedKeepsThePromiseOfEveryElementSizeAndStride) {
  for (const std::int64_t element : {1, 2, 4, 8}) {
    for (int alignment = static_cast<int>(element); alignment <= 16; alignment *= 2) {
      for (const std::int64_t columns : {1, 3, 16, 33, 1000}) {
        for (const std::int64_t rows : {1, 4, 7}) {
          const Placement place = guarded_placement(rows, columns, element, alignment, 3);
          const auto stride = static_cast<std::uint64_t>(place.stride * element);
          EXPECT_EQ(common_alignment({static_cast<std::uint64_t>(place.before)}, 256), alignment);
          EXPECT_EQ(common_alignment({static_cast<std::uint64_t>(place.row_bytes())}, 256),
                    alignment);
          EXPECT_EQ(common_alignment({stride}, 256), alignment);
          EXPECT_GE(place.stride, (rows + 1) * place.ld) << "a row at least between matrices";
          EXPECT_GE(place.bytes, place.before + place.extent() + 4096);
        }
      }
    }
  }
}

TEST(Placement, TightMatricesFollowOneAnother) {
  const Placement place = tight_placement(5, 7, 2, 4, 10);
  EXPECT_EQ(place.ld, 8);
  EXPECT_EQ(place.stride, 40);
  EXPECT_EQ(place.extent(), 10 * 80);
}

TEST(Pieces, OfABatchCoverTheAllocationAndEveryRowOnce) {
  for (const Placement& place :
       {guarded_placement(8, 8, 1, 1, 300), guarded_placement(37, 19, 2, 4, 5),
        tight_placement(3, 5, 8, 8, 7), guarded_placement(1, 1, 4, 4, 2)}) {
    for (const std::int64_t most : {1, 200, 5000, 1 << 20}) {
      std::int64_t offset = 0, row = 0;
      for (const Piece& piece : pieces_of(place, most)) {
        EXPECT_EQ(piece.offset, offset);
        EXPECT_LE(piece.bytes, longest_piece(place, most));
        offset += piece.bytes;
        if (piece.rows == 0) continue;
        EXPECT_EQ(piece.first_row, row);
        EXPECT_EQ(piece.offset, place.before + place.offset_of(row));
        row += piece.rows;
      }
      EXPECT_EQ(offset, place.bytes);
      EXPECT_EQ(row, place.all_rows());
    }
  }
}

TEST(Pieces, SmallMatricesAreTakenTogether) {
  const Placement place = guarded_placement(8, 8, 2, 16, 65536);
  EXPECT_LT(pieces_of(place, 1 << 20).size(), 40U);
}

TEST(Canary, IsNanInEveryTypeAndOtherThanArithmeticGives) {
  for (const DTypeInfo& info : dtypes()) {
    std::byte filled[16];
    fill_canary(filled, sizeof filled, bytes_of(info.type));
    for (int at = 0; at < 16; at += bytes_of(info.type)) {
      const double value = to_double(info.type, filled + at);
      EXPECT_EQ(std::isnan(value), !is_integer(info.type)) << info.name;
      std::byte computed[8];
      from_double(info.type, std::nan(""), computed);
      EXPECT_NE(std::memcmp(filled + at, computed, static_cast<std::size_t>(bytes_of(info.type))),
                0);
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
    EXPECT_EQ(device.live_blocks(), 3);
  }
  EXPECT_EQ(device.live_blocks(), 0);
}

}  // namespace
}  // namespace tilewise::placement_test
