#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check_call_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kBig = std::numeric_limits<std::int64_t>::max();

/// An address for comparisons; it is never dereferenced.
void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

struct Asked {
  Problem problem;
  Call call;
};

/// 4 x 6 = (4 x 8) (8 x 6), contiguous, far apart.
Asked good() {
  Asked asked;
  asked.problem.m = 4;
  asked.problem.n = 6;
  asked.problem.k = 8;
  asked.call.a = at(0x10000);
  asked.call.b = at(0x20000);
  asked.call.c = at(0x30000);
  asked.call.lda = 8;
  asked.call.ldb = 6;
  asked.call.ldc = 6;
  return asked;
}

/// The message of the refusal; empty if the call is accepted.
std::string refusal(const Asked& asked) {
  try {
    check_call(asked.problem, asked.call);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(CheckCall, AcceptsAnOrdinaryCall) { EXPECT_EQ(refusal(good()), ""); }

TEST(CheckCall, RefusesNegativeSizes) {
  Asked asked = good();
  asked.problem.n = -3;
  EXPECT_THAT(refusal(asked), HasSubstr("n = -3 is negative"));
  asked = good();
  asked.problem.batch = -1;
  EXPECT_THAT(refusal(asked), HasSubstr("batch = -1"));
}

TEST(CheckCall, LeadingDimensionsAreAtLeastARowAsStored) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    Asked asked = good();
    set_layout(asked.problem, layout);
    asked.call.lda = min_lda(asked.problem);
    asked.call.ldb = min_ldb(asked.problem);
    EXPECT_EQ(refusal(asked), "") << to_string(layout);
    --asked.call.lda;
    EXPECT_THAT(refusal(asked), AllOf(HasSubstr("lda = "), HasSubstr("shorter than a row of A")));
    ++asked.call.lda;
    --asked.call.ldb;
    EXPECT_THAT(refusal(asked), HasSubstr("shorter than a row of B"));
  }
  Asked asked = good();
  asked.call.ldc = 5;
  EXPECT_THAT(refusal(asked), AllOf(HasSubstr("ldc = 5"), HasSubstr("6 elements")));
}

TEST(CheckCall, AnAccuracyIsFromZeroToOne) {
  Asked asked = good();
  for (const double accuracy : {0.0, 1e-300, 1e-8, 1.0}) {
    asked.call.accuracy = accuracy;
    EXPECT_EQ(refusal(asked), "") << accuracy;
  }
  for (const double accuracy : {-1e-8, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    asked.call.accuracy = accuracy;
    EXPECT_THAT(refusal(asked), HasSubstr("allowed is 0 to 1")) << accuracy;
  }
}

TEST(CheckCall, RefusesNullOnlyWhereItWouldBeTouched) {
  Asked asked = good();
  asked.call.a = nullptr;
  EXPECT_THAT(refusal(asked), HasSubstr("A is a null pointer"));
  asked.call.alpha = 0;
  asked.call.b = nullptr;
  EXPECT_EQ(refusal(asked), "");
  asked.call.alpha_device = at(0x40000);
  EXPECT_THAT(refusal(asked), HasSubstr("A is a null pointer"));

  asked = good();
  asked.problem.k = 0;
  asked.call.lda = 0;
  asked.call.a = asked.call.b = nullptr;
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = nullptr;
  EXPECT_THAT(refusal(asked), HasSubstr("C is a null pointer"));
  asked.problem.m = 0;
  EXPECT_EQ(refusal(asked), "");
}

TEST(CheckCall, RefusesPointersInsideAnElement) {
  Asked asked = good();
  asked.call.b = at(0x20002);
  EXPECT_THAT(refusal(asked), AllOf(HasSubstr("address of B"), HasSubstr("off by 2")));
  asked = good();
  asked.call.beta_device = at(0x40001);
  EXPECT_THAT(refusal(asked), HasSubstr("device address of beta"));
}

TEST(CheckCall, SeesOverlapToTheLastElement) {
  Asked asked = good();
  // A is 4 x 8 floats: 128 bytes. C directly after it is apart, one element earlier it overlaps.
  asked.call.c = at(0x10000 + 128);
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = at(0x10000 + 124);
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps A"));
  // C is 4 x 6: 96 bytes, directly before B or one element into it.
  asked.call.c = at(0x20000 - 96);
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = at(0x20000 - 92);
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps B"));
  // C may overlap a matrix that is not read.
  asked.call.alpha = 0;
  EXPECT_EQ(refusal(asked), "");
}

TEST(CheckCall, AAndBMayBeTheSame) {
  Asked asked = good();
  asked.problem.n = 8;
  asked.problem.m = 8;
  asked.call.ldb = asked.call.ldc = 8;
  asked.call.b = asked.call.a;
  EXPECT_EQ(refusal(asked), "");
}

TEST(CheckCall, PartsOfTheRowsOfOneMatrixAreApart) {
  Asked asked = good();
  asked.call.lda = asked.call.ldc = 32;
  asked.call.c = at(0x10000 + 4 * 8);  // A has the columns 0 to 7, C 8 to 13
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = at(0x10000 + 4 * 7);
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps A: they share elements"));
  asked.call.c = at(0x10000 + 4 * (2 * 32 + 27));  // its last column is the first of A's row 3
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps A"));
  asked.call.c = at(0x10000 + 4 * (2 * 32 + 26));
  EXPECT_EQ(refusal(asked), "");
}

TEST(CheckCall, TheUpdateOfAFactorizationWithinOneMatrixIsApart) {
  // C is the block after 8 rows and columns, A the columns before it, B the rows above it.
  constexpr std::int64_t ld = 40;
  Asked asked = good();
  asked.call.lda = asked.call.ldb = asked.call.ldc = ld;
  asked.call.a = at(0x10000 + 4 * 8 * ld);
  asked.call.b = at(0x10000 + 4 * 8);
  asked.call.c = at(0x10000 + 4 * (8 * ld + 8));
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = at(0x10000 + 4 * (7 * ld + 8));
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps B"));
}

TEST(CheckCall, BatchesInEachOthersRowsAreApart) {
  Asked asked = good();
  asked.problem.batch = 3;
  asked.call.lda = asked.call.ldc = 3 * 16;
  asked.call.stride_a = asked.call.stride_c = 16;
  asked.call.c = at(0x10000 + 4 * 8);
  EXPECT_EQ(refusal(asked), "");
  asked.call.c = at(0x10000 + 4 * 11);  // the last column of each C is the first of the next A
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps A"));
}

TEST(CheckCall, ExtentsPast32BitsAreFineAndPastTheAddressSpaceAreNot) {
  Asked asked = good();
  asked.call.lda = (std::int64_t{1} << 30) + 1;  // 4 rows: past 2^31 elements
  asked.call.c = at(std::uint64_t{1} << 40);
  EXPECT_EQ(refusal(asked), "");
  asked.call.b = at((std::uint64_t{1} << 40) - 4 * 48);  // ends where C begins
  EXPECT_EQ(refusal(asked), "");
  asked.call.b = at((std::uint64_t{1} << 40) - 4 * 48 + 4);
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps B"));

  asked = good();
  asked.call.lda = kBig / 2;
  EXPECT_THAT(refusal(asked), HasSubstr("the extent of A passes the address space"));
  asked = good();
  asked.call.lda = kBig / 4;  // elements fit 63 bits, bytes do not
  EXPECT_THAT(refusal(asked), HasSubstr("the extent of A"));
  asked = good();
  asked.call.c = at(~std::uint64_t{0} - 63);  // the last element wraps around
  EXPECT_THAT(refusal(asked), HasSubstr("the extent of C"));
}

TEST(CheckCall, BatchStrides) {
  Asked asked = good();
  asked.problem.batch = 3;
  asked.call.stride_c = 24;  // one after the other
  EXPECT_EQ(refusal(asked), "");
  asked.call.stride_c = 23;
  EXPECT_THAT(refusal(asked), AllOf(HasSubstr("batch stride of C is 23"), HasSubstr("overlap")));
  asked.call.ldc = 18;  // next to each other in common rows
  asked.call.stride_c = 6;
  EXPECT_EQ(refusal(asked), "");
  asked.call.stride_c = 5;
  EXPECT_THAT(refusal(asked), HasSubstr("overlap one another"));
  asked = good();
  asked.problem.batch = 3;
  asked.call.stride_c = 24;
  asked.call.stride_a = -1;
  EXPECT_THAT(refusal(asked), HasSubstr("batch stride of A is -1"));
  asked.call.stride_a = 0x10000 / 4;  // the third A lies on C, the second on B
  EXPECT_THAT(refusal(asked), HasSubstr("C overlaps A"));
  asked.call.stride_a = kBig;
  EXPECT_THAT(refusal(asked), HasSubstr("the extent of A"));
  asked.problem.batch = 1;  // then strides are ignored
  EXPECT_EQ(refusal(asked), "");
}

TEST(CheckCall, WritesC) {
  Asked asked = good();
  const auto writes = [&] { return writes_c(asked.problem, asked.call); };
  asked.call.beta = 1;
  EXPECT_TRUE(writes());
  asked.call.alpha = 0;
  EXPECT_FALSE(writes());
  asked.call.beta = -1;
  EXPECT_TRUE(writes());
  asked.call.beta = 1 + 1e-12;
  EXPECT_FALSE(writes()) << "one as an f32";
  set_types(asked.problem, DType::f64, DType::f64, MathMode::strict);
  EXPECT_TRUE(writes());
  asked.call.beta = 1;
  EXPECT_FALSE(writes());
  asked.call.beta_device = at(0x40000);
  EXPECT_TRUE(writes());
  asked.problem.n = 0;
  EXPECT_FALSE(writes());

  asked = good();
  asked.problem.k = 0;
  asked.call.beta = 1;
  asked.call.alpha_device = at(0x40000);
  EXPECT_FALSE(writes());
}

TEST(CheckCall, ReadsOperands) {
  Asked asked = good();
  EXPECT_TRUE(reads_operands(asked.problem, asked.call));
  asked.call.alpha = -0.0;
  EXPECT_FALSE(reads_operands(asked.problem, asked.call));
  asked.call.alpha = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(reads_operands(asked.problem, asked.call));
  asked.call.alpha = 1e-60;
  EXPECT_FALSE(reads_operands(asked.problem, asked.call)) << "zero as an f32";
  asked.problem.accumulator = DType::f64;
  EXPECT_TRUE(reads_operands(asked.problem, asked.call));
  asked.problem.k = 0;
  EXPECT_FALSE(reads_operands(asked.problem, asked.call));
}

TEST(AlignmentOf, LooksAtAddressLeadingDimensionAndStride) {
  Asked asked = good();
  asked.call.ldb = 8;
  EXPECT_EQ(call_alignment(asked.problem, asked.call), (Alignment{16, 16, 8}));
  asked.call.a = at(0x10008);
  asked.call.ldc = 7;
  EXPECT_EQ(call_alignment(asked.problem, asked.call), (Alignment{8, 16, 4}));
  asked.problem.batch = 2;
  asked.call.stride_b = 1;
  EXPECT_EQ(call_alignment(asked.problem, asked.call), (Alignment{8, 4, 4}));
}

}  // namespace
}  // namespace tilewise::check_call_test
