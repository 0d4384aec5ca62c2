// Transfers of matrices to a device and back, in pieces.
#include "tuner/evaluate/staging.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "tests/tuner/fake_kernels.hpp"

namespace tilewise::staging_test {
namespace {

Problem make_problem(std::int64_t m, std::int64_t n) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = 7;
  return problem;
}

// C0 of a problem, uploaded with guards.
struct Uploaded {
  fake::Device device;
  TestData values;
  Placement place;
  Staging staging;
  DeviceMatrix matrix;

  Uploaded(std::int64_t rows, std::int64_t columns)
      : values(make_problem(rows, columns), DataSet::bounded, DataOf::c0, 1),
        place(guarded_placement(rows, columns, 4, 8)),
        staging(device, std::span(&place, 1), 3),
        matrix(device, place) {
    staging.upload(nullptr, matrix, values);
  }
  std::byte* all() const { return static_cast<std::byte*>(matrix.allocation()); }
  bool is_element(std::int64_t offset) const {
    const std::int64_t inside = offset - place.before;
    return inside >= 0 && inside < place.rows * place.row_bytes() &&
           inside % place.row_bytes() < place.columns * 4;
  }
  bool unchanged() { return staging.unchanged(nullptr, matrix, values); }
};

TEST(Staging, UploadPutsEveryElementInPlaceAndCanariesAround) {
  // Fewer pieces than slots, more than slots, and rows longer than a slot's usual size.
  for (const auto& [rows, columns] :
       {std::pair{37, 19}, {9000, 1200}, {3, 300'001}, {1, 9'000'001}}) {
    Uploaded on(rows, columns);
    std::vector<float> expected(static_cast<std::size_t>(rows) * columns);
    on.values.fill_all(expected.data(), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      ASSERT_EQ(std::memcmp(static_cast<std::byte*>(on.matrix.data()) + row * on.place.row_bytes(),
                            &expected[static_cast<std::size_t>(row * columns)],
                            static_cast<std::size_t>(columns) * 4),
                0)
          << rows << "x" << columns << " row " << row;
    }
    for (std::int64_t offset = 0; offset < on.place.bytes; offset += 4) {
      if (on.is_element(offset)) continue;
      const std::uint32_t word = canary_word(4);
      ASSERT_EQ(std::memcmp(on.all() + offset, &word, 4), 0) << offset;
    }
    EXPECT_TRUE(on.unchanged());
  }
}

TEST(Staging, EveryChangedByteInsideAndAroundIsSeen) {
  Uploaded on(37, 19);
  for (std::int64_t offset = 0; offset < on.place.bytes; offset += 3) {
    on.all()[offset] ^= std::byte{1};
    ASSERT_FALSE(on.unchanged()) << offset;
    on.all()[offset] ^= std::byte{1};
  }
  EXPECT_TRUE(on.unchanged());
}

TEST(Staging, AChangeInAnyOfManyPiecesIsSeen) {
  Uploaded on(5000, 2500);  // 50 MB: more pieces than slots
  for (const double share : {0.0, 0.1, 0.5, 0.77, 0.999999}) {
    const auto offset = static_cast<std::int64_t>(share * static_cast<double>(on.place.bytes - 1));
    on.all()[offset] ^= std::byte{1};
    EXPECT_FALSE(on.unchanged()) << share;
    on.all()[offset] ^= std::byte{1};
  }
}

TEST(Staging, HoldsLittleOfALargeMatrix) {
  EXPECT_LE(Uploaded(5000, 5000).device.host_bytes, 33 << 20) << "of 100 MB";
  EXPECT_LE(Uploaded(9, 7).device.host_bytes, 1 << 20);
}

TEST(Staging, DownloadHandsOverEachByteOnce) {
  Uploaded on(3000, 2500);
  std::mutex mutex;
  std::map<std::int64_t, std::int64_t> seen;  // offset -> bytes
  on.staging.download(nullptr, on.matrix, [&](const Piece& piece, const std::byte* copy) {
    const bool same =
        std::memcmp(copy, on.all() + piece.offset, static_cast<std::size_t>(piece.bytes)) == 0;
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(same) << piece.offset;
    seen[piece.offset] += piece.bytes;
  });
  std::int64_t next = 0;
  for (const auto& [offset, bytes] : seen) {
    EXPECT_EQ(offset, next);
    next = offset + bytes;
  }
  EXPECT_EQ(next, on.place.bytes);
}

TEST(Staging, WhatAJudgeThrowsArrivesAndTheNextUseWorks) {
  Uploaded on(3000, 2500);
  std::atomic<int> judged{0};
  const auto judge = [&](const Piece&, const std::byte*) {
    if (++judged == 5) throw std::runtime_error("planted");
  };
  EXPECT_THROW(on.staging.download(nullptr, on.matrix, judge), std::runtime_error);
  EXPECT_TRUE(on.unchanged());
}

TEST(Staging, ADeviceThatFailsEndsIt) {
  Uploaded on(3000, 2500);
  on.device.broken = true;
  EXPECT_THROW(on.unchanged(), Error);
  on.device.broken = false;
  EXPECT_TRUE(on.unchanged());
}

TEST(Guards, EveryWordAroundTheMatrixIsFoundWhereItIs) {
  Uploaded on(6, 5);
  for (std::int64_t offset = 0; offset < on.place.bytes; offset += 4) {
    std::uint32_t old = 0, zero = 0;
    std::memcpy(&old, on.all() + offset, 4);
    std::memcpy(on.all() + offset, &zero, 4);
    GuardCheck found;
    for (const Piece& piece : pieces_of(on.place, 64)) {
      if (!found.found) found = broken_guard(on.place, piece, on.all() + piece.offset);
    }
    ASSERT_EQ(found.found, !on.is_element(offset)) << offset;
    if (found.found) {
      ASSERT_EQ(found.offset, offset - on.place.before);
    }
    std::memcpy(on.all() + offset, &old, 4);
  }
}

// ---- every type, and batches ----

// C0 of every kind of product in a batch.
struct UploadedBatch {
  Problem problem;
  fake::Device device;
  TestData values;
  Placement place;
  Staging staging;
  DeviceMatrix matrix;

  UploadedBatch(const Problem& of, std::int64_t element)
      : problem(of),
        values(of, DataSet::bounded, DataOf::c0, 1),
        place(guarded_placement(of.m, of.n, element, static_cast<int>(element), of.batch)),
        staging(device, std::span(&place, 1), 3),
        matrix(device, place) {
    staging.upload(nullptr, matrix, values);
  }
  std::byte* all() const { return static_cast<std::byte*>(matrix.allocation()); }
  bool unchanged() { return staging.unchanged(nullptr, matrix, values); }
};

TEST(Staging, EveryTypeOfABatchLiesWhereItBelongsAndAnyChangedByteIsSeen) {
  for (const ProductKind& kind : product_kinds()) {
    Problem problem = make_problem(5, 7);
    set_types(problem, kind);
    problem.batch = 3;
    UploadedBatch on(problem, bytes_of(kind.c));
    std::vector<std::byte> expected(static_cast<std::size_t>(3 * 5 * 7 * bytes_of(kind.c)));
    on.values.fill_all(expected.data(), 0);
    for (std::int64_t row = 0; row < on.place.all_rows(); ++row) {
      ASSERT_EQ(std::memcmp(static_cast<std::byte*>(on.matrix.data()) + on.place.offset_of(row),
                            expected.data() + row * 7 * bytes_of(kind.c),
                            static_cast<std::size_t>(7 * bytes_of(kind.c))),
                0)
          << to_string(problem) << " row " << row;
    }
    EXPECT_TRUE(on.unchanged());
    for (std::int64_t offset = on.place.before - 9; offset < on.place.bytes; offset += 5) {
      on.all()[offset] ^= std::byte{1};
      ASSERT_FALSE(on.unchanged()) << to_string(problem) << " " << offset;
      on.all()[offset] ^= std::byte{1};
    }
  }
}

TEST(Staging, LargeMatricesOfABatchPassInPieces) {
  Problem problem = make_problem(900, 1300);
  set_types(problem, DType::bf16, DType::bf16, MathMode::strict);
  problem.batch = 4;
  UploadedBatch on(problem, 2);
  EXPECT_TRUE(on.unchanged());
  for (std::int64_t matrix = 0; matrix < 4; ++matrix) {
    const std::int64_t last = on.place.before + on.place.offset_of(matrix * 900 + 899) + 2 * 1299;
    on.all()[last] ^= std::byte{1};
    EXPECT_FALSE(on.unchanged()) << matrix;
    on.all()[last] ^= std::byte{1};
  }
}

}  // namespace
}  // namespace tilewise::staging_test
