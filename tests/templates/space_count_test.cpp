#include "templates/space/space_count.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <thread>

#include "templates/space/search_space.hpp"

namespace tilewise::space_count_test {
namespace {

using Sizes = std::vector<std::size_t>;
using Conditions = std::vector<PointCondition>;

/// Limits under which wide conditions are sampled: no sum and no list is small enough.
constexpr CountLimits kSampled{.combinations = 30, .listed = 0};
/// Limits under which all combinations of wide conditions are checked.
constexpr CountLimits kListed{.combinations = 30};

double brute_force(const Sizes& sizes, const Conditions& conditions) {
  SpacePoint point(sizes.size(), 0);
  double count = 0;
  std::function<void(std::size_t)> visit = [&](std::size_t axis) {
    if (axis == sizes.size()) {
      for (const PointCondition& condition : conditions)
        if (!condition.holds(point)) return;
      ++count;
      return;
    }
    for (std::size_t i = 0; i < sizes[axis]; ++i) {
      point[axis] = static_cast<std::uint16_t>(i);
      visit(axis + 1);
    }
  };
  visit(0);
  return count;
}

/// A condition that holds for about three of four combinations, selected by `salt`.
PointCondition scattered(std::vector<std::size_t> reads, std::uint64_t salt) {
  const auto holds = [reads, salt](const SpacePoint& point) {
    std::uint64_t hash = salt;
    for (const std::size_t axis : reads)
      hash = (hash ^ (point[axis] + 1U)) * 0x9E3779B97F4A7C15U, hash ^= hash >> 29;
    return hash % 4 != 0;
  };
  return {reads, holds};
}

struct Case {
  Sizes sizes;
  Conditions conditions;
};
Case random_case(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  Case made;
  for (std::size_t axes = 3 + generator() % 4; axes > 0; --axes)
    made.sizes.push_back(1 + generator() % 4);
  for (std::size_t conditions = generator() % 7; conditions > 0; --conditions) {
    std::vector<std::size_t> reads;
    for (std::size_t axis = 0; axis < made.sizes.size(); ++axis)
      if (generator() % 2 == 0) reads.push_back(axis);
    std::shuffle(reads.begin(), reads.end(), generator);
    // A condition without parameters accepts all combinations or none.
    made.conditions.push_back(scattered(std::move(reads), generator()));
  }
  return made;
}

TEST(CountPoints, IsExactWhateverTheConditionsRead) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto [sizes, conditions] = random_case(seed);
    const double expected = brute_force(sizes, conditions);
    for (const CountLimits& limits : {CountLimits{}, kListed}) {
      const PointCount count = count_points(sizes, conditions, limits);
      EXPECT_TRUE(count.exact);
      EXPECT_EQ(count.points, expected) << "seed " << seed;
      EXPECT_EQ(count.standard_error, 0);
    }
  }
}

TEST(CountPoints, EstimatesAreUnbiasedAndTheirErrorsTrue) {
  double sum = 0, squares = 0;
  int estimates = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const auto [sizes, conditions] = random_case(seed);
    CountLimits limits = kSampled;
    limits.draws = 400;
    limits.seed = seed;
    const PointCount count = count_points(sizes, conditions, limits);
    if (count.exact) continue;
    ASSERT_GT(count.standard_error, 0);
    const double z = (count.points - brute_force(sizes, conditions)) / count.standard_error;
    EXPECT_LT(std::abs(z), 5) << "seed " << seed;
    sum += z, squares += z * z, ++estimates;
  }
  ASSERT_GT(estimates, 200);
  EXPECT_LT(std::abs(sum / estimates), 0.2);
  EXPECT_NEAR(std::sqrt(squares / estimates), 1, 0.15);
}

TEST(CountPoints, NothingAndEverything) {
  const auto constant = [](std::vector<std::size_t> reads, bool answer) {
    return PointCondition{std::move(reads), [answer](const SpacePoint&) { return answer; }};
  };
  EXPECT_EQ(count_points({}, {}).points, 1);
  EXPECT_EQ(count_points({3, 4, 5}, {}).points, 60);
  EXPECT_EQ(count_points({3, 0, 5}, {}).points, 0);
  EXPECT_EQ(count_points({3, 4}, {constant({}, true)}).points, 12);
  EXPECT_EQ(count_points({3, 4}, {constant({}, false)}).points, 0);
  EXPECT_EQ(count_points({3, 4}, {constant({1}, false)}).points, 0);
  // If all draws fail or all pass, the error is still above 0.
  for (const bool answer : {false, true}) {
    const PointCount count = count_points({10, 10, 10}, {constant({0, 1, 2}, answer)}, kSampled);
    EXPECT_FALSE(count.exact);
    EXPECT_EQ(count.points, answer ? 1000 : 0);
    EXPECT_GT(count.standard_error, 0.01);
    EXPECT_LT(count.standard_error, 1);
  }
}

TEST(CountPoints, LargeSpacesTakeSumsNotPoints) {
  // Chains of 40 axes of 8 values; neighbours differ by at most 1.
  const Sizes sizes(40, 8);
  Conditions conditions;
  std::vector<double> ways(8, 1);
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) {
    conditions.push_back({{axis, axis + 1}, [axis](const SpacePoint& point) {
                            return std::abs(int{point[axis]} - int{point[axis + 1]}) <= 1;
                          }});
    std::vector<double> next(8, 0);
    for (int from = 0; from < 8; ++from)
      for (int to = std::max(0, from - 1); to <= std::min(7, from + 1); ++to)
        next[std::size_t(to)] += ways[std::size_t(from)];
    ways = next;
  }
  double expected = 0;
  for (const double w : ways) expected += w;
  ASSERT_GT(expected, 1e18);
  const PointCount count = count_points(sizes, conditions);
  EXPECT_TRUE(count.exact);
  EXPECT_NEAR(count.points / expected, 1, 1e-14);
}

TEST(CountPoints, TheSeedDecidesTheDraws) {
  const Sizes sizes(8, 4);
  const Conditions conditions{scattered({0, 1, 2, 3, 4, 5, 6, 7}, 1), scattered({0, 1}, 2)};
  CountLimits limits = kSampled;
  const double first = count_points(sizes, conditions, limits).points;
  EXPECT_EQ(count_points(sizes, conditions, limits).points, first);
  limits.seed = 2;
  EXPECT_NE(count_points(sizes, conditions, limits).points, first);
}

Problem problem_of(std::int64_t size, DType type = DType::f32) {
  Problem problem;
  problem.m = problem.n = problem.k = size;
  set_types(problem, type, default_result(type), MathMode::strict);
  return problem;
}

double visited(const SearchSpace& space) {
  double count = 0;
  space.for_each([&](const Candidate&) { return ++count < 1e6; });
  return count;
}

const DeviceInfo& device() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

TEST(CountOfATemplate, IsWhatTheListingVisits) {
  int templates = 0;
  for (const std::int64_t size : {17, 64})
    for (const DType type : {DType::f32, DType::f16})
      for (const KernelTemplate& kernel : catalog()) {
        Problem problem = problem_of(size, type);
        problem.batch = kernel.name == "small" ? 1000 : 1;
        if (!kernel.supports(problem, device()) || kernel.name == "simt" || kernel.name == "mma")
          continue;
        ++templates;
        const SearchSpace space(problem, device(), {&kernel});
        const PointCount count = space.count_of(kernel);
        EXPECT_TRUE(count.exact) << kernel.name;
        EXPECT_EQ(count.points, visited(space)) << kernel.name << " " << to_string(problem);
      }
  EXPECT_GE(templates, 15);
}

TEST(CountOfATemplate, OfNarrowedSpacesIsExactAndItsEstimateNear) {
  const struct {
    const char* kernel;
    DType type;
    const char* subspace;
  } cases[] = {
      {"simt", DType::f32,
       "TILE_M=64,128;TILE_N=64;TILE_K=16,32;THREAD_M=4,8;THREAD_N=4;SPLIT_K=1;GROUP_M=1;FMA_ORDER="
       "0;SPECIALIZE_SIZE=0;MAX_REGISTERS=0;UNROLL=8;PREFETCH=2,5,7"},
      {"simt", DType::f32,
       "TILE_M=128;TILE_N=128;THREAD_M=8;THREAD_N=8;WARP_M=4;TILE_K=8,32;GROUP_M=4;FMA_ORDER=1;"
       "SPECIALIZE_SIZE=0,1;SPLIT_K=0,1"},
      {"mma", DType::f16,
       "TILE_M=64,128,256;TILE_N=128;WARP_M=32,64;WARP_N=64;STAGES=2,3,4;GROUP_M=1;SPECIALIZE_SIZE="
       "0;SPLIT_K="
       "1,2"},
  };
  for (const auto& [name, type, subspace] : cases) {
    const KernelTemplate& kernel = find_template(name);
    const SearchSpace space(problem_of(1024, type), device(), {&kernel},
                            parse_values(subspace, {&kernel}));
    const double expected = visited(space);
    ASSERT_GT(expected, 100) << subspace;
    ASSERT_LT(expected, 1e6) << subspace;
    const PointCount exact = space.count_of(kernel);
    EXPECT_TRUE(exact.exact) << subspace;
    EXPECT_EQ(exact.points, expected) << subspace;
    const PointCount estimate = space.count_of(kernel, {.combinations = 1000, .listed = 0});
    EXPECT_FALSE(estimate.exact) << subspace;
    EXPECT_LT(std::abs(estimate.points - expected), 4 * estimate.standard_error) << subspace;
    EXPECT_LT(estimate.standard_error, 0.1 * expected) << subspace;
  }
}

TEST(CountOfATemplate, OfTheWholeOfSimtIsWithinPercents) {
  const KernelTemplate& simt = find_template("simt");
  const SearchSpace space(problem_of(1024), device(), {&simt});
  const PointCount count = space.count_of(simt);
  EXPECT_FALSE(count.exact);
  EXPECT_GT(count.points, 1e9);
  EXPECT_LT(count.standard_error, 0.03 * count.points);
  // Other limits omit fewer conditions and draw other samples.
  const PointCount other = space.count_of(simt, {.combinations = 1e5, .listed = 0, .seed = 9});
  EXPECT_LT(std::abs(count.points - other.points),
            4 * std::hypot(count.standard_error, other.standard_error));
}

TEST(CountOfATemplate, ThreadsMayCountOneSpace) {
  const KernelTemplate& mma = find_template("mma");
  const SearchSpace space(problem_of(512, DType::f16), device(), {&mma},
                          parse_values("TILE_M=64,128;TILE_N=128;WARP_M=32;WARP_N=64", {&mma}));
  const double expected =
      SearchSpace(problem_of(512, DType::f16), device(), {&mma},
                  parse_values("TILE_M=64,128;TILE_N=128;WARP_M=32;WARP_N=64", {&mma}))
          .count_of(mma)
          .points;
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { equal += space.count_of(mma).points == expected; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 4);
  EXPECT_GT(expected, 1000);
}

}  // namespace
}  // namespace tilewise::space_count_test
