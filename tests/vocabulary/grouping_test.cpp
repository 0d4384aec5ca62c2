// Grouped problems: rows by distribution, how the device understands numbers of rows, texts.
#include <gmock/gmock.h>

#include <random>

#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::grouping_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Problem grouped(std::int64_t m, std::int64_t groups, Distribution distribution = Distribution::even,
                Grouping grouping = Grouping::rows) {
  Problem problem = typed_problem<float, float>(Layout::nt, m, 24, 40, MathMode::strict, groups);
  problem.grouping = grouping;
  problem.distribution = distribution;
  return problem;
}

TEST(Grouping, RowsByDistribution) {
  EXPECT_THAT(group_rows_of(grouped(11, 3)), ElementsAre(4, 8, 11));
  // 11 x 6/11, 3/11, 2/11.
  EXPECT_THAT(group_rows_of(grouped(11, 3, Distribution::zipf)), ElementsAre(6, 9, 11));
  EXPECT_THAT(group_rows_of(grouped(11, 3, Distribution::one_hot)), ElementsAre(0, 11, 11));
  EXPECT_THAT(group_rows_of(grouped(10, 3, Distribution::even, Grouping::counts)),
              ElementsAre(5, 5, 5));
  for (const std::int64_t groups : {1, 7, 300})
    for (const Distribution distribution :
         {Distribution::even, Distribution::zipf, Distribution::one_hot}) {
      const std::vector<std::int32_t> ends = group_rows_of(grouped(1000, groups, distribution));
      EXPECT_EQ(std::ssize(ends), groups);
      EXPECT_EQ(ends.back(), 1000);
      EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
    }
}

TEST(Grouping, NoNumbersGiveARowTwoProductsOrLeaveC) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int32_t> any(-20, 120);
  for (const Grouping grouping : {Grouping::rows, Grouping::counts})
    for (int round = 0; round < 100; ++round) {
      const Problem problem = grouped(100, 9, Distribution::even, grouping);
      std::vector<std::int32_t> numbers;
      for (int i = 0; i < 9; ++i) numbers.push_back(any(random));
      std::int64_t before = 0;
      for (const RowRange& range : row_ranges(problem, numbers.data())) {
        EXPECT_LE(range.begin, range.end);
        EXPECT_LE(range.end, 100);
        EXPECT_GE(range.begin, grouping == Grouping::rows ? before : 0);
        before = range.end;
      }
    }
}

TEST(Grouping, TileRowsAreBoundedByTheMostThereCanBe) {
  std::mt19937 random(4);
  for (const std::int64_t groups : {1, 3, 50})
    for (const std::int64_t tile : {1, 16, 128}) {
      const Problem problem = grouped(200, groups);
      std::int64_t most = 0;
      for (int round = 0; round < 300; ++round) {
        std::vector<std::int32_t> ends;
        for (std::int64_t i = 0; i < groups; ++i)
          ends.push_back(static_cast<std::int32_t>(random() % 201));
        std::sort(ends.begin(), ends.end());
        std::int64_t tiles = 0;
        for (const RowRange& rows : row_ranges(problem, ends.data()))
          tiles += (rows.end - rows.begin + tile - 1) / tile;
        most = std::max(most, tiles);
      }
      EXPECT_LE(most, row_tiles(problem, tile)) << groups << " products, " << tile;
    }
  EXPECT_EQ(row_tiles(grouped(200, 3), 16), (200 + 3 * 15) / 16);
  EXPECT_EQ(row_tiles(grouped(2, 50), 16), 2);  // no more products have rows than there are rows
  EXPECT_EQ(row_tiles(grouped(200, 3, Distribution::even, Grouping::counts), 16), 3 * 13);
  EXPECT_EQ(expected_row_tiles(grouped(200, 4), 16), 4 * 4);
}

TEST(Grouping, RowsOfProducts) {
  const ProductRows rows(grouped(11, 3, Distribution::one_hot));
  EXPECT_EQ(rows.of(0).end, 0);
  for (const std::int64_t row : {0, 5, 10}) EXPECT_EQ(rows.product_of(row), 1);
  const ProductRows zipf(grouped(11, 3, Distribution::zipf));
  EXPECT_EQ(zipf.product_of(5), 0);
  EXPECT_EQ(zipf.product_of(6), 1);
  EXPECT_EQ(zipf.product_of(10), 2);
  Problem batch = grouped(11, 3);
  batch.grouping = Grouping::none;
  EXPECT_EQ(ProductRows(batch).product_of(22), 2);
  EXPECT_EQ(ProductRows(batch).of(1).begin, 11);
}

TEST(Grouping, WorkIsThatOfAllRows) {
  EXPECT_EQ(flops_of(grouped(100, 5)), 2.0 * 100 * 24 * 40);
  EXPECT_EQ(operand_bytes(grouped(100, 5)), 4.0 * (100 * 40 + 5 * 24 * 40 + 100 * 24));
}

TEST(Grouping, MatricesOfProductsWithoutRowsAreNotRead) {
  const auto bytes = [](std::int64_t m, double products) {
    return 4.0 * (double(m) * 40 + products * 24 * 40 + double(m) * 24);
  };
  EXPECT_EQ(expected_bytes(grouped(100, 5)), bytes(100, 5));
  EXPECT_EQ(expected_bytes(grouped(3, 5)), bytes(3, 3));
  EXPECT_EQ(expected_bytes(grouped(100, 5, Distribution::one_hot)), bytes(100, 1));
  // 7, 2, 1, 1 and 0 rows.
  EXPECT_EQ(expected_bytes(grouped(11, 5, Distribution::zipf)), bytes(11, 5 - 1));
  Problem plain = grouped(100, 5, Distribution::one_hot);
  plain.grouping = Grouping::none;
  EXPECT_EQ(expected_bytes(plain), operand_bytes(plain));
  Problem depth = grouped(100, 5, Distribution::one_hot);
  depth.grouping = Grouping::depth;
  EXPECT_EQ(expected_bytes(depth), operand_bytes(depth));
}

TEST(Grouping, ProductsByCountsAreTunedByRows) {
  const Problem rows = grouped(100, 5, Distribution::zipf);
  EXPECT_EQ(tuned_as(rows), rows);
  EXPECT_EQ(tuned_as(grouped(7, 3, Distribution::zipf, Grouping::counts)),
            grouped(11, 3, Distribution::zipf));
  EXPECT_EQ(tuned_as(grouped(0, 3, Distribution::even, Grouping::counts)).m, 0);
  EXPECT_EQ(
      tuned_as(grouped(std::int64_t{1} << 30, 1 << 30, Distribution::even, Grouping::counts)).m,
      std::numeric_limits<std::int32_t>::max());
  // The rows of a product begin anywhere in a row of A as stored.
  Problem transposed = grouped(8, 4, Distribution::even, Grouping::counts);
  set_layout(transposed, Layout::tn);
  set_alignment(transposed, {16, 16, 16});
  EXPECT_EQ(alignment_of(tuned_as(transposed)).a, 4);
  EXPECT_EQ(tune_options(grouped(7, 3, Distribution::zipf, Grouping::counts)),
            tune_options(grouped(11, 3, Distribution::zipf)));
}

TEST(Grouping, TextsAreRead) {
  for (const Grouping grouping :
       {Grouping::none, Grouping::rows, Grouping::counts, Grouping::depth})
    for (const Distribution distribution :
         {Distribution::even, Distribution::zipf, Distribution::one_hot})
      for (const char* epilogue : {"", "relu(acc + x[j])"})
        for (const char* order : {"", "fused+parts512"}) {
          Problem problem = grouped(64, 4, distribution, grouping);
          if (grouping == Grouping::none) problem.distribution = Distribution::even;
          if (*epilogue) set_epilogue(problem, Epilogue(epilogue));
          set_order(problem, order);
          EXPECT_EQ(problem_from_json(to_json(problem)), problem) << to_json(problem);
          Problem read = problem;
          set_grouping(read, "");
          set_variant(read, variant_text(problem));
          EXPECT_EQ(read, problem) << variant_text(problem);
        }
  EXPECT_EQ(variant_text(grouped(64, 4, Distribution::zipf)), "grouped rows zipf");
  EXPECT_THAT(to_string(grouped(64, 4)), HasSubstr("batch 4 grouped by rows, even"));
  EXPECT_THAT(tune_options(grouped(64, 4, Distribution::zipf)),
              HasSubstr("--groups 4 --distribution zipf"));
}

TEST(Grouping, BadTextsAreRefused) {
  Problem problem;
  for (const char* text : {"rows", "none even", "rows odd", "row even", "rows even more"})
    EXPECT_THROW(set_grouping(problem, text), Error) << text;
  EXPECT_THROW(set_variant(problem, "grouped rows"), Error);
}

TEST(Grouping, AllGroupsOfOneNAndKHaveOneOrder) {
  const Problem key = order_key(grouped(64, 4));
  EXPECT_EQ(order_key(grouped(9, 300, Distribution::zipf, Grouping::counts)), key);
  EXPECT_EQ(order_key(key), key);
  EXPECT_NE(order_key(typed_problem<float, float>(Layout::nt, 64, 24, 40)), key);
}

}  // namespace
}  // namespace tilewise::grouping_test
