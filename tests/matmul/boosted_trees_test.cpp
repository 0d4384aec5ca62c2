// Regression by boosted trees.
#include "matmul/boosted_trees.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tilewise/error.hpp"

namespace tilewise::boosted_trees_test {
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

// Learning must cost far less than a compile.
TEST(BoostedTrees, LearnFromAThousandResultsInAMoment) {
  std::mt19937_64 generator(9);
  std::vector<Row> rows;
  for (int i = 0; i < 1000; ++i) {
    Row row;
    for (int f = 0; f < 26; ++f) row.features.push_back(static_cast<int>(generator() % 6));
    row.value = row.features[3] * 0.1 + row.features[7] * row.features[9] * 0.02;
    rows.push_back(row);
  }
  BoostedTrees trees;
  const auto begin = std::chrono::steady_clock::now();
  trees.fit(rows, generator);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(),
            2.0);  // 0.02 s on one core of 2026; sanitizers and busy machines take longer
}

}  // namespace
}  // namespace tilewise::boosted_trees_test
