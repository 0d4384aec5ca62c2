// The certainty of the winner of a race: known answers of Student's t, and made-up races.
#include "tuner/certainty.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tuner/evaluate/sampler.hpp"

namespace tilewise::certainty_test {
namespace {

Record raced(const std::string& name, const std::vector<double>& rounds) {
  Record record;
  record.candidate.kernel_template = name;
  record.measurement = measurement_of(rounds);
  record.measurement->method = kRaceMethod;
  record.environment.date = "2026-11-25T12:00:00Z";
  return record;
}

// Values from tables of the t distribution.
TEST(Certainty, StudentsDistributionHasItsKnownValues) {
  EXPECT_NEAR(student_probability(1, 1), 0.75, 1e-12) << "the Cauchy distribution";
  EXPECT_NEAR(student_probability(1, 2), 0.5 + 0.5 / std::sqrt(3.0), 1e-12);
  EXPECT_NEAR(student_quantile(0.975, 1), 12.706, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 2), 2.920, 5e-4);
  EXPECT_NEAR(student_quantile(0.975, 5), 2.571, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 6), 1.943, 5e-4);
  EXPECT_NEAR(student_quantile(0.99, 6), 3.143, 5e-4);
  EXPECT_NEAR(student_quantile(0.995, 29), 2.756, 5e-4);
  EXPECT_NEAR(student_quantile(0.025, 6), -2.447, 5e-4);
  EXPECT_NEAR(student_probability(0, 6), 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(student_probability(std::nan(""), 6)));
}

// The logarithms of the ratios are 0.01, 0.03, 0.02. Mean 0.02, standard error 0.01 / sqrt(3): t =
// 3.4641.
TEST(Certainty, OfTwoItIsThePairedTTest) {
  const Record winner = raced("a", {100, 200, 150});
  const std::vector<Record> all{
      winner, raced("b", {100 * std::exp(0.01), 200 * std::exp(0.03), 150 * std::exp(0.02)})};
  const auto found = certainty_of(winner, all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rivals, 1U);
  EXPECT_EQ(found->rounds, 3U);
  EXPECT_NEAR(found->fastest, 0.5 + 0.5 * 3.4641016 / std::sqrt(2 + 12.0), 1e-6);
  EXPECT_EQ(found->alike, 0U) << "2.920 standard errors are less than the mean";
  EXPECT_EQ(found->gain_at_most, 0);
  const auto other = certainty_of(all[1], all);
  ASSERT_TRUE(other);
  EXPECT_NEAR(other->fastest, 1 - found->fastest, 1e-12);
  EXPECT_EQ(other->alike, 1U);
  EXPECT_NEAR(other->gain_at_most, 1 - std::exp(-0.02 - 2.91999 * 0.01 / std::sqrt(3.0)), 1e-6);
}

TEST(Certainty, ProbabilitiesOfRivalsMultiplyAndTheBoundCountsThem) {
  const Record winner = raced("a", {100, 100, 100});
  const Record b = raced("b", {101, 99, 100}), c = raced("c", {99, 100, 101});
  const std::vector<Record> two{winner, b}, three{winner, b, c};
  const auto of_two = certainty_of(winner, two), of_three = certainty_of(winner, three);
  ASSERT_TRUE(of_two && of_three);
  EXPECT_NEAR(of_three->fastest, of_two->fastest * of_two->fastest, 1e-12);
  EXPECT_GT(of_three->gain_at_most, of_two->gain_at_most);
  EXPECT_EQ(of_three->alike, 2U);
}

TEST(Certainty, WithoutSpreadTheTimesDecide) {
  const Record winner = raced("a", {100, 100, 100});
  const std::vector<Record> slower{winner, raced("b", {101, 101, 101})};
  EXPECT_EQ(certainty_of(winner, slower)->fastest, 1);
  const std::vector<Record> equal{winner, raced("b", {100, 100, 100})};
  EXPECT_EQ(certainty_of(winner, equal)->fastest, 0.5);
  EXPECT_EQ(certainty_of(winner, equal)->gain_at_most, 0);
  EXPECT_EQ(certainty_of(winner, equal)->alike, 1U);
}

TEST(Certainty, RecordsOfTheSameRaceAloneTakePart) {
  const Record winner = raced("a", {100, 101, 102});
  Record searched = raced("b", {99, 99, 99}), earlier = searched, wrong = searched;
  searched.measurement->method = "graph";
  earlier.environment.date = "2026-11-24T12:00:00Z";
  wrong.outcome = Outcome::wrong_result;
  const Record shorter = raced("c", {99, 99, 99, 99});
  const std::vector<Record> all{winner, searched, earlier, wrong, shorter};
  EXPECT_FALSE(certainty_of(winner, all)) << "it was raced alone";
  EXPECT_FALSE(certainty_of(searched, all)) << "it was not raced";
}

// The guarantee of the bound: in 95 of 100 made-up races of equal and nearly equal kernels, whose
// winner is selected by its median, the true gain is within the bound.
TEST(Certainty, TheBoundHoldsThoughTheWinnerIsSelectedByTheSameData) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> noise(0, 0.01), heat(0, 0.05);
  int held = 0, surely = 0, right = 0;
  constexpr int kRaces = 1000;
  for (int race = 0; race < kRaces; ++race) {
    std::vector<std::vector<double>> rounds(5);
    for (int round = 0; round < 7; ++round) {
      const double all = heat(generator);
      for (std::size_t i = 0; i < rounds.size(); ++i)
        rounds[i].push_back(100 *
                            std::exp(0.004 * static_cast<double>(i) + all + noise(generator)));
    }
    std::vector<Record> records;
    std::size_t best = 0;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      records.push_back(raced(std::to_string(i), rounds[i]));
      if (records[i].measurement->median_us < records[best].measurement->median_us) best = i;
    }
    const Certainty certainty = *certainty_of(records[best], records);
    const double gain = 1 - std::exp(-0.004 * static_cast<double>(best));  // kernel 0 is fastest
    held += gain <= certainty.gain_at_most;
    surely += certainty.fastest > 0.9;
    right += certainty.fastest > 0.9 && best == 0;
  }
  EXPECT_GE(held, 950);
  EXPECT_GE(right, surely * 0.9);
}

}  // namespace
}  // namespace tilewise::certainty_test
