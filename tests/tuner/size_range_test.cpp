// Ranges of sizes: their text, and the points at which they are measured.
#include "tuner/size_range.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise::size_range_test {
namespace {

using testing::HasSubstr;

TEST(Extents, ValuesAreLogUniformFromFirstToLast) {
  const Extents extents = Extents::parse("1..4096");
  EXPECT_EQ(extents.at(0), 1);
  EXPECT_EQ(extents.at(0.5), 64);
  EXPECT_EQ(extents.at(1), 4096);
  EXPECT_TRUE(extents.contains(4096));
  EXPECT_FALSE(extents.contains(4097));
  EXPECT_FALSE(extents.fixed());
}

TEST(Extents, ItemsOfAListShareByTheirDoublings) {
  const Extents extents = Extents::parse("64,256..1024");
  EXPECT_EQ(extents.at(0), 64);
  EXPECT_EQ(extents.at(0.24), 64);
  EXPECT_GE(extents.at(0.26), 256);
  EXPECT_EQ(extents.at(1), 1024);
  EXPECT_TRUE(extents.contains(64));
  EXPECT_FALSE(extents.contains(65));
  EXPECT_EQ(extents.smallest(), 64);
  EXPECT_EQ(extents.largest(), 1024);
  EXPECT_TRUE(Extents::parse("4096,14336").fixed());
  EXPECT_EQ(Extents::parse("4096").at(0.7), 4096);
  EXPECT_EQ(extents.text(), "64,256..1024");
}

TEST(Extents, EveryPlaceGivesAValueOfTheRange) {
  for (const char* text : {"1..7", "3", "1,2,3", "5..5", "1..1099511627776", "9..10,12"}) {
    const Extents extents = Extents::parse(text);
    for (int i = 0; i <= 1000; ++i)
      EXPECT_TRUE(extents.contains(extents.at(i / 1000.0))) << text << " at " << i;
  }
}

TEST(Extents, TypicalAreSingleNumbersEndsAndPowersOfTwo) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(Extents::parse("1..20").typical(), (Numbers{1, 2, 4, 8, 16, 20}));
  EXPECT_EQ(Extents::parse("3000,1,48,96").typical(), (Numbers{1, 48, 96, 3000}));
  EXPECT_EQ(Extents::parse("5..9,8..32,7").typical(), (Numbers{5, 7, 8, 9, 16, 32}));
}

TEST(Extents, MistakesNameTheItem) {
  for (const char* text : {"", "0", "-1", "4..2", "1..", "..4", "1...4", "x", "1,,2", "1e3",
                           "1099511627777", "1..2..3", " 4"}) {
    try {
      Extents::parse(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("1..4096"));
    }
  }
}

SizeRange range_of(const char* m, const char* n, const char* k, std::vector<Layout> layouts) {
  return {Problem{},
          {{std::move(layouts), Extents::parse(m), Extents::parse(n), Extents::parse(k)}}};
}

TEST(RangePoints, AreSpreadEvenlyOverTheOctavesAndLayouts) {
  const SizeRange range = range_of("1..4096", "1..4096", "1..4096", {Layout::nn, Layout::tn});
  RangePoints points(range, 7, 1e18, 1e18);
  int octaves[3][12] = {}, layouts[2] = {}, aligned = 0;
  constexpr int kPoints = 240;
  for (int i = 0; i < kPoints; ++i) {
    const auto problem = points.next();
    ASSERT_TRUE(problem);
    EXPECT_TRUE(range.contains(*problem));
    const std::int64_t extents[] = {problem->m, problem->n, problem->k};
    for (int axis = 0; axis < 3; ++axis)
      ++octaves[axis][std::min(11, static_cast<int>(std::log2(extents[axis])))];
    ++layouts[layout_of(*problem) == Layout::tn];
    aligned += alignment_of(*problem) == Alignment{16, 16, 16};
  }
  for (const auto& axis : octaves)
    for (int octave = 5; octave < 12; ++octave)  // rounding to 16 moves smaller sizes
      EXPECT_NEAR(axis[octave], kPoints / 12.0, 8) << octave;
  EXPECT_NEAR(layouts[0], kPoints / 2, 5) << "but for repeated problems, which are left out";
  EXPECT_GT(aligned, kPoints / 3);
  EXPECT_LT(aligned, kPoints / 2);
}

TEST(RangePoints, AreNeverRepeatedAndEndWithTheRange) {
  RangePoints points(range_of("1..3", "5", "7,9", {Layout::nn}), 1, 1e18, 1e18);
  std::set<Problem> seen;
  while (const auto problem = points.next()) EXPECT_TRUE(seen.insert(*problem).second);
  EXPECT_EQ(seen.size(), 6U);
}

TEST(RangePoints, OfTooMuchWorkOrMemoryAreLeftOut) {
  RangePoints points(range_of("1..4096", "1..4096", "1..4096", {Layout::nn}), 1, 1e6, 1e5);
  for (int i = 0; i < 50; ++i) {
    const auto problem = points.next();
    ASSERT_TRUE(problem);
    EXPECT_LE(flops_of(*problem), 1e6);
    EXPECT_LE(operand_bytes(*problem), 1e5);
  }
  EXPECT_FALSE(RangePoints(range_of("4096", "4096", "4096", {Layout::nn}), 1, 1e6, 1e18).next());
}

TEST(RangePoints, OfEachBlockFollowItsWeight) {
  SizeRange range = range_of("1..64", "100", "1..64", {Layout::nn});
  range.blocks.push_back(range_of("1..64", "200", "1..64", {Layout::nt}).blocks[0]);
  range.blocks.push_back(range_of("3", "300", "5", {Layout::tn}).blocks[0]);
  range.blocks[1].weight = 3;
  EXPECT_THAT(range.layouts(), testing::ElementsAre(Layout::nn, Layout::nt, Layout::tn));
  RangePoints points(range, 1, 1e18, 1e18);
  int of_block[4] = {};
  for (int i = 0; i < 41; ++i) {
    const auto problem = points.next();
    ASSERT_TRUE(problem);
    EXPECT_TRUE(range.contains(*problem));
    ++of_block[problem->n / 100];
  }
  // The last one has a single size.
  EXPECT_THAT(of_block, testing::ElementsAre(0, 10, 30, 1));
  Problem mixed = *points.next();
  mixed.n = mixed.n == 100 ? 200 : 100;  // the sizes of one block in the layout of another
  EXPECT_FALSE(range.contains(mixed));
}

TEST(RangePoints, OfOneBlockAreThoseOfItAlone) {
  SizeRange two = range_of("1..4096", "1..4096", "1..4096", {Layout::nn});
  RangePoints alone(two, 5, 1e18, 1e18);
  two.blocks.push_back(range_of("7", "7", "7", {Layout::tt}).blocks[0]);
  RangePoints with_other(two, 5, 1e18, 1e18);
  for (int i = 0; i < 20; ++i) {
    auto problem = with_other.next();
    if (layout_of(*problem) == Layout::tt) problem = with_other.next();
    EXPECT_EQ(problem, alone.next());
  }
}

TEST(RangePoints, FollowFromTheSeed) {
  const SizeRange range = range_of("1..4096", "1..4096", "1..4096", {Layout::nn});
  RangePoints one(range, 1, 1e18, 1e18), same(range, 1, 1e18, 1e18), other(range, 2, 1e18, 1e18);
  const auto first = one.next();
  EXPECT_EQ(first, same.next());
  EXPECT_NE(first, other.next());
}

}  // namespace
}  // namespace tilewise::size_range_test
