#include "tilewise/problem.hpp"

#include <gmock/gmock.h>

#include <random>
#include <unordered_set>

#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"

namespace tilewise::problem_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The message of the Error(invalid_argument) that `call` throws, or "" without one.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

std::string refusal_of_sizes(const std::string& text) {
  return refusal([&] { parse_sizes(text); });
}

Problem problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem result;
  set_layout(result, layout);
  result.m = m;
  result.n = n;
  result.k = k;
  return result;
}

TEST(ParseSizes, KeepsTheOrderAndDropsDuplicates) {
  EXPECT_THAT(parse_sizes("1024, 4096,1024x512x2048,4096x4096x4096 ,1024"),
              ElementsAre(Size{1024, 1024, 1024}, Size{4096, 4096, 4096}, Size{1024, 512, 2048}));
}

TEST(ParseSizes, AcceptsBothEndsOfTheRange) {
  EXPECT_THAT(parse_sizes("1,1099511627776"),
              ElementsAre(Size{1, 1, 1}, Size{std::int64_t{1} << 40, std::int64_t{1} << 40,
                                              std::int64_t{1} << 40}));
}

TEST(ParseSizes, NamesTheBadItemAndWhatIsAllowed) {
  for (const char* item : {"0", "-3", "abc", "1099511627777", "99999999999999999999", "1e3", "12.5",
                           "1x2", "1x2x3x4", "1x0x3", "1xx3", "0x10", "+5"}) {
    const std::string message = refusal_of_sizes("256," + std::string(item) + ",512");
    EXPECT_THAT(message, HasSubstr("\"" + std::string(item) + "\"")) << item;
    EXPECT_THAT(message, HasSubstr("MxNxK")) << item;
    EXPECT_THAT(message, HasSubstr("2^40")) << item;
  }
}

TEST(ParseSizes, RefusesNothingBetweenCommasAndNothingAtAll) {
  EXPECT_THAT(refusal_of_sizes("256,"), HasSubstr("empty"));
  EXPECT_THAT(refusal_of_sizes(",256"), HasSubstr("empty"));
  EXPECT_THAT(refusal_of_sizes(""), HasSubstr("no sizes"));
  EXPECT_THAT(refusal_of_sizes("  "), HasSubstr("no sizes"));
}

TEST(ParseNames, RoundTripAndNameTheChoices) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    EXPECT_EQ(parse_layout(to_string(layout)), layout);
  }
  EXPECT_EQ(parse_dtype("f32"), DType::f32);
  EXPECT_EQ(parse_math_mode("strict"), MathMode::strict);
  EXPECT_THAT(refusal([] { parse_layout("NN"); }), HasSubstr("nn, nt, tn, tt"));
  EXPECT_THAT(refusal([] { parse_dtype("float"); }), HasSubstr("f32"));
  EXPECT_THAT(refusal([] { parse_math_mode("quick"); }), HasSubstr("strict"));
}

TEST(DTypes, F32RoundsAsIeeeSays) {
  EXPECT_EQ(bytes_of(DType::f32), 4);
  const auto above = static_cast<double>(std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(dtype_info(DType::f32).unit_roundoff, (above - 1.0) / 2);
}

TEST(ProblemText, IsOneLineForPeople) {
  Problem p = problem(Layout::nt, 1024, 512, 2048);
  set_alignment(p, {16, 8, 4});
  EXPECT_EQ(size_text(p), "1024x512x2048");
  EXPECT_EQ(to_string(p), "nt 1024x512x2048 f32 strict align 16,8,4");
  p.batch = 7;
  EXPECT_EQ(to_string(p), "nt 1024x512x2048 f32 strict batch 7 align 16,8,4");
}

TEST(ProblemCounts, FlopsAndBytesPassInt64) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(flops_of(problem(Layout::nn, huge, huge, huge)), 0x1p121);
  EXPECT_EQ(operand_bytes(problem(Layout::tt, huge, huge, huge)), 3 * 0x1p82);
  Problem p = problem(Layout::nn, 3, 5, 7);
  p.batch = 2;
  EXPECT_EQ(flops_of(p), 2 * 3 * 5 * 7 * 2);
  EXPECT_EQ(operand_bytes(p), 2 * 4 * (21 + 35 + 15));
  EXPECT_DOUBLE_EQ(tflops_of(p, 2.0), 420 / 2e-6 / 1e12);
  EXPECT_EQ(tflops_of(p, 0), 0);
}

TEST(LeadingDimensions, FollowTheStorageOfEachLayout) {
  const auto shape = [](Layout layout) {
    const Problem p = problem(layout, 3, 5, 7);
    return std::vector{rows_a(p), min_lda(p), rows_b(p), min_ldb(p), min_ldc(p)};
  };
  EXPECT_THAT(shape(Layout::nn), ElementsAre(3, 7, 7, 5, 5));
  EXPECT_THAT(shape(Layout::nt), ElementsAre(3, 7, 5, 7, 5));
  EXPECT_THAT(shape(Layout::tn), ElementsAre(7, 3, 7, 5, 5));
  EXPECT_THAT(shape(Layout::tt), ElementsAre(7, 3, 5, 7, 5));
}

TEST(CommonAlignment, IsTheLargestPowerOfTwoThatDividesAll) {
  EXPECT_EQ(common_alignment({}), 16);
  EXPECT_EQ(common_alignment({0, 0}), 16);
  EXPECT_EQ(common_alignment({256, 48, 32}), 16);
  EXPECT_EQ(common_alignment({256, 24}), 8);
  EXPECT_EQ(common_alignment({256, 24, 20}), 4);
  EXPECT_EQ(common_alignment({1}), 1);
  EXPECT_EQ(common_alignment({1024, 0}, 128), 128);
  EXPECT_EQ(common_alignment({~std::uint64_t{0} - 7}), 8);
}

TEST(CommonAlignment, HoldsForStridesPast32Bits) {
  // A batch stride of m x lda elements, past 2^31: its low bits decide.
  const std::uint64_t stride = std::uint64_t{70000} * 65541 * 4;
  ASSERT_GT(stride, std::uint64_t{1} << 31);
  EXPECT_EQ(common_alignment({stride}), 16);
  EXPECT_EQ(common_alignment({(std::uint64_t{1} << 40) + 8, stride}), 8);
}

TEST(NaturalAlignment, IsThatOfTheRowLength) {
  const auto of = [](Layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
    return alignment_of(typed_problem(layout, m, n, k, DType::f32, DType::f32));
  };
  EXPECT_EQ(of(Layout::nn, 1024, 1024, 1024), (Alignment{16, 16, 16}));
  // nn: rows of A have k elements, of B and C n.
  EXPECT_EQ(of(Layout::nn, 8, 6, 5), (Alignment{4, 8, 8}));
  EXPECT_EQ(of(Layout::tt, 8, 6, 5), (Alignment{16, 4, 8}));
  EXPECT_EQ(of(Layout::nn, 3, (std::int64_t{1} << 40) - 2, 1), (Alignment{4, 8, 8}));
}

TEST(ProblemHash, EqualValuesAgreeAndEveryPartCounts) {
  const Problem base = problem(Layout::nn, 64, 64, 64);
  const std::hash<Problem> hash;
  EXPECT_EQ(hash(base), hash(problem(Layout::nn, 64, 64, 64)));
  std::vector<Problem> others(8, base);
  set_layout(others[0], Layout::tt);
  others[1].m = 65;
  others[2].n = 65;
  others[3].k = 65;
  others[4].batch = 2;
  others[5].a.alignment = 4;
  others[6].b.alignment = 4;
  others[7].c.alignment = 4;
  std::unordered_set<std::size_t> seen{hash(base)};
  for (const Problem& other : others) EXPECT_TRUE(seen.insert(hash(other)).second);
}

TEST(ProblemHash, SpreadsSimilarProblemsOverBuckets) {
  std::unordered_set<std::size_t> low_bits;
  int count = 0;
  for (std::int64_t m = 1; m <= 16; ++m) {
    for (std::int64_t n = 1; n <= 16; ++n, ++count) {
      low_bits.insert(std::hash<Problem>{}(problem(Layout::nn, m * 256, n * 256, 256)) % 1024);
    }
  }
  // 256 balls in 1024 urns hit about 226 urns if the low bits are good.
  EXPECT_GT(low_bits.size(), 190U) << count;
}

TEST(Outcomes, RoundTripByName) {
  for (const Outcome outcome : {Outcome::ok, Outcome::compile_error, Outcome::launch_error,
                                Outcome::wrong_result, Outcome::timeout}) {
    EXPECT_EQ(parse_outcome(to_string(outcome)), outcome);
  }
  EXPECT_THAT(refusal([] { parse_outcome("fine"); }), HasSubstr("wrong_result"));
}

TEST(Errors, KindsHaveNames) {
  EXPECT_STREQ(to_string(ErrorKind::invalid_argument), "invalid_argument");
  EXPECT_STREQ(to_string(ErrorKind::io), "io");
  EXPECT_STREQ(to_string(ErrorKind::transient), "transient");
  EXPECT_EQ(Error(ErrorKind::no_device, "x").kind(), ErrorKind::no_device);
}

TEST(SumBound, CountsPromotionsApart) {
  Problem problem;
  set_types(problem, DType::e4m3, DType::f32, MathMode::strict);
  problem.k = 128;
  EXPECT_DOUBLE_EQ(sum_bound(problem), 130 * 0x1p-13 / (1 - 130 * 0x1p-13));
  problem.k = 128 * 64;  // 64 sums of 128, added up in f32
  EXPECT_DOUBLE_EQ(sum_bound(problem),
                   130 * 0x1p-13 / (1 - 130 * 0x1p-13) + 66 * 0x1p-24 / (1 - 66 * 0x1p-24));
  set_types(problem, DType::bf16, DType::f32, MathMode::strict);
  const double nu = (128 * 64 + 2) * 0x1p-23;
  EXPECT_DOUBLE_EQ(sum_bound(problem), nu / (1 - nu));
  problem.b.type = DType::f16;
  EXPECT_THROW(sum_bound(problem), Error);
}

}  // namespace
}  // namespace tilewise::problem_test
