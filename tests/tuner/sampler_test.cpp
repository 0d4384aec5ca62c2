#include "tuner/evaluate/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tilewise::sampler_test {
namespace {

// Adds samples until the sampler has enough. Returns their number.
template <typename Next>
int feed(Sampler& sampler, const Next& next, double seconds = 0.0001) {
  for (int count = 1;; ++count) {
    if (sampler.add(next(count), seconds)) return count;
    if (count > 100000) return -1;
  }
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  const std::vector<double> samples = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 4);
  EXPECT_DOUBLE_EQ(relative_spread(samples), (3.25 - 1.75) / 2 / 2.5);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Sampler, SteadyTimesNeedTheFewestSamples) {
  TimingOptions options;
  Sampler sampler(options, 0);
  EXPECT_EQ(feed(sampler, [](int) { return 100.0; }), options.min_samples);
  EXPECT_EQ(sampler.median(), 100);
  EXPECT_EQ(sampler.spread(), 0);
}

TEST(Sampler, NoisyTimesNeedMoreAndEndKnownWell) {
  TimingOptions options;
  options.max_samples = 10000;
  options.max_seconds = 1e9;
  std::mt19937 random(1);
  std::normal_distribution<double> noise(100, 1);
  Sampler sampler(options, 0);
  const int count = feed(sampler, [&](int) { return noise(random); });
  EXPECT_GT(count, options.min_samples);
  EXPECT_LT(count, 200);
  EXPECT_NEAR(sampler.median(), 100, 100 * 3 * options.target_spread);
}

TEST(Sampler, OneOutlierDoesNotMoveTheMedian) {
  Sampler sampler({}, 0);
  feed(sampler, [](int count) { return count == 1 ? 5000.0 : 100.0; });
  EXPECT_EQ(sampler.median(), 100);
}

TEST(Sampler, WildTimesEndAtTheGreatestCount) {
  TimingOptions options;
  options.max_seconds = 1e9;
  Sampler sampler(options, 0);
  EXPECT_EQ(feed(sampler, [](int count) { return count % 2 ? 100.0 : 300.0; }),
            options.max_samples);
}

TEST(Sampler, WildTimesEndWhenTheTimeIsUp) {
  TimingOptions options;
  options.max_seconds = 1;
  Sampler sampler(options, 0);
  EXPECT_EQ(feed(
                sampler, [](int count) { return count % 2 ? 100.0 : 300.0; }, 0.125),
            8);
}

TEST(Sampler, VerySlowOnesEndBeforeTheLeastCount) {
  TimingOptions options;
  options.max_seconds = 1;
  Sampler sampler(options, 0);
  EXPECT_EQ(feed(
                sampler, [](int) { return 3e6; }, 3),
            2);
}

TEST(Sampler, OnesThatWouldNotRaceEndAfterThree) {
  Sampler behind({}, 90.8);
  EXPECT_EQ(feed(behind, [](int) { return 100.0; }), 3);
  Sampler close({}, 91);
  EXPECT_EQ(feed(close, [](int) { return 100.0; }), TimingOptions{}.min_samples);
}

TEST(Sampler, OneFastSampleKeepsANoisyOneIn) {
  Sampler noisy({}, 90);
  EXPECT_GE(feed(noisy, [](int count) { return count == 2 ? 98.0 : 120.0 + count % 2; }),
            TimingOptions{}.min_samples);
}

TEST(Sampler, MeasurementKeepsThe32FirstSamples) {
  TimingOptions options;
  options.target_spread = 0;
  Sampler sampler(options, 0);
  feed(sampler, [](int count) { return 100.0 + count; });
  const Measurement measurement = sampler.measurement();
  EXPECT_EQ(measurement.samples, options.max_samples);
  ASSERT_EQ(measurement.samples_us.size(), 32U);
  EXPECT_EQ(measurement.samples_us.front(), 101);
  EXPECT_EQ(measurement.median_us, 150.5);
}

}  // namespace
}  // namespace tilewise::sampler_test
