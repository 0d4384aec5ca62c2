// The learned model: the trees alone, and the cost model corrected by them.
#include "tuner/search/tree_ranker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tilewise/error.hpp"

namespace tilewise::tree_ranker_test {
namespace {

using Row = BoostedTrees::Row;

double wanted(const std::vector<int>& x) {
  return (x[0] > 3 ? 2.0 : 0.0) + 0.5 * x[1] + (x[0] > 3 && x[2] == 1 ? -3.0 : 0.0);
}

std::vector<Row> random_rows(std::mt19937_64& generator, int count) {
  std::vector<Row> rows;
  for (int i = 0; i < count; ++i) {
    Row row;
    for (const unsigned values : {8U, 4U, 2U, 16U})
      row.features.push_back(static_cast<int>(generator() % values));
    row.value = wanted(row.features);
    rows.push_back(row);
  }
  return rows;
}

TEST(BoostedTrees, LearnWhatDependsOnFeaturesTogether) {
  std::mt19937_64 generator(1);
  const std::vector<Row> rows = random_rows(generator, 400), others = random_rows(generator, 200);
  BoostedTrees trees;
  EXPECT_FALSE(trees.fitted());
  trees.fit(rows, generator);
  EXPECT_TRUE(trees.fitted());
  double worst = 0;
  for (const Row& row : others)
    worst = std::max(worst, std::abs(trees(row.features) - wanted(row.features)));
  EXPECT_LT(worst, 0.5) << "of values from 0 to 3.5";
}

TEST(BoostedTrees, AreTheSameForTheSameGenerator) {
  std::mt19937_64 generator(2);
  const std::vector<Row> rows = random_rows(generator, 100);
  const auto answer = [&](std::uint64_t seed) {
    std::mt19937_64 own(seed);
    BoostedTrees trees;
    trees.fit(rows, own);
    return trees({5, 1, 1, 3});
  };
  EXPECT_EQ(answer(7), answer(7));
  EXPECT_NE(answer(7), answer(8));
}

TEST(BoostedTrees, AreTheSameAfterStorage) {
  std::mt19937_64 generator(4);
  const std::vector<Row> rows = random_rows(generator, 300);
  BoostedTrees trees;
  trees.fit(rows, generator, {.trees = 30, .depth = 6, .least_rows = 2});
  const std::vector<std::uint8_t> bytes = trees.to_bytes();
  const BoostedTrees again = BoostedTrees::from_bytes(bytes, 4);
  for (const Row& row : rows) EXPECT_EQ(again(row.features), trees(row.features));
  EXPECT_EQ(again.to_bytes(), bytes);
  EXPECT_THROW(BoostedTrees::from_bytes(bytes, 2), Error)
      << "splits on a feature that is not there";
  EXPECT_THROW(BoostedTrees::from_bytes(std::span(bytes).first(bytes.size() - 1), 4), Error);
  std::vector<std::uint8_t> not_finite = bytes;  // the mean comes first
  for (std::size_t i = 0; i < sizeof(double); ++i) not_finite[i] = 0xff;
  EXPECT_THROW(BoostedTrees::from_bytes(not_finite, 4), Error);
}

TEST(BoostedTrees, ForgetWhatTheyWereFittedToBefore) {
  std::mt19937_64 generator(3);
  BoostedTrees trees;
  trees.fit(random_rows(generator, 50), generator);
  const std::vector<Row> one{{{1, 2}, 4.5, 1}};
  trees.fit(one, generator);
  EXPECT_DOUBLE_EQ(trees({1, 2}), 4.5);
  EXPECT_DOUBLE_EQ(trees({900, -900}), 4.5);
}

TEST(BoostedTrees, HeavyRowsCountMore) {
  std::mt19937_64 generator(4);
  std::vector<Row> rows;
  for (int i = 0; i < 60; ++i) rows.push_back({{0}, i % 2 ? 1.0 : 0.0, i % 2 ? 9.0 : 1.0});
  BoostedTrees trees;
  trees.fit(rows, generator);
  EXPECT_NEAR(trees({0}), 0.9, 0.02);
}

TEST(BoostedTrees, TakeFeaturesOfManyValues) {
  std::mt19937_64 generator(5);
  std::vector<Row> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back({{i * 7}, i < 100 ? 1.0 : 0.0, 1});
  BoostedTrees trees;
  trees.fit(rows, generator);
  EXPECT_NEAR(trees({50 * 7}), 1, 0.05);
  EXPECT_NEAR(trees({900 * 7}), 0, 0.05);
}

Candidate candidate_of(const std::string& kernel, int x, int y) {
  return {kernel, Configuration{{"X", x}, {"Y", y}}};
}
double predicted(const Candidate& candidate) {
  return candidate.kernel_template == "unknown" ? 0 : 1e-6 * (10 + candidate.configuration.at("X"));
}
/// The cost model is wrong by a factor that depends only on Y.
double measured(const Candidate& candidate) {
  return predicted(candidate) * 1e6 * (1 + candidate.configuration.at("Y"));
}

TEST(TreeRanker, LearnsByWhatFactorTheModelIsWrong) {
  std::mt19937_64 generator(6);
  TreeRanker model(predicted);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(model.ready(), i >= 40);
    const Candidate c =
        candidate_of("a", static_cast<int>(generator() % 8), static_cast<int>(generator() % 3));
    model.observe(c, measured(c));
    model.refresh(generator);
  }
  for (int x = 0; x < 4; ++x) {
    const Candidate fast = candidate_of("a", x, 0);
    EXPECT_NEAR(model.seconds(fast) * 1e6 / measured(fast), 1, 0.05) << x;
    // For slower candidates only the order matters.
    for (int y = 1; y < 3; ++y)
      EXPECT_GT(model.seconds(candidate_of("a", x, y)), 1.15 * model.seconds(fast)) << x << y;
  }
}

TEST(TreeRanker, TakesATemplateItKnowsLittleOfToBeLikeTheOthers) {
  std::mt19937_64 generator(7);
  TreeRanker model(predicted);
  EXPECT_DOUBLE_EQ(model.seconds(candidate_of("a", 0, 0)), 1e-5) << "as predicted";
  for (int i = 0; i < 100; ++i)
    model.observe(candidate_of("a", i % 8, 1), 2e6 * 1e-6 * (10 + i % 8));
  model.refresh(generator);
  EXPECT_NEAR(model.seconds(candidate_of("b", 0, 0)), 2e-5, 1e-7);
  for (int i = 0; i < 10; ++i) model.observe(candidate_of("b", i, 1), 8.0 * (10 + i));
  model.refresh(generator);
  const double expected = model.seconds(candidate_of("b", 0, 0)) * 1e5;
  EXPECT_GT(expected, 4);
  EXPECT_LT(expected, 8);
}

TEST(TreeRanker, SaysNothingOfWhatCannotBePredicted) {
  TreeRanker model(predicted);
  for (int i = 0; i < 60; ++i) model.observe(candidate_of("unknown", i, 0), 1);
  EXPECT_FALSE(model.ready());
  EXPECT_EQ(model.seconds(candidate_of("unknown", 0, 0)), std::numeric_limits<double>::infinity());
}

TEST(TreeRanker, TheFastOnesAreTheFastestTen) {
  std::mt19937_64 generator(8);
  TreeRanker model(predicted);
  for (int i = 99; i >= 0; --i) model.observe(candidate_of("a", i, 0), 10.0 + i);
  for (int i = 0; i < 100; ++i) EXPECT_LT(model.fast_one(generator).configuration.at("X"), 10);
}

}  // namespace
}  // namespace tilewise::tree_ranker_test
