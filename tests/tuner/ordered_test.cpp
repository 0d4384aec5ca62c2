// The cost model before a strategy: a right model finds the best sooner, a wrong one still finds
// it.
#include "tuner/search/ordered.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tilewise::ordered_test {
namespace {

constexpr int kParameters = 12;

std::string parameter(int i) { return "P" + std::to_string(10 + i); }

KernelTemplate template_of(int parameters, int values) {
  KernelTemplate t;
  t.name = "made_up";
  t.supports = [](const Problem&, const DeviceInfo&) { return true; };
  for (int i = 0; i < parameters; ++i) {
    t.parameters.push_back({parameter(i), {}, ""});
    for (int value = 0; value < values; ++value) t.parameters.back().values.push_back(value);
  }
  t.default_configuration = [parameters](const Problem&, const DeviceInfo&) {
    Configuration c;
    for (int i = 0; i < parameters; ++i) c.set(parameter(i), 0);
    return c;
  };
  return t;
}

/// At least 100 us; every parameter matters.
double microseconds(const Candidate& candidate) {
  double time = 100;
  int i = 0;
  for (const auto& [name, value] : candidate.configuration.values())
    time *= 1 + 0.1 * std::abs(value - (7 * ++i + 2) % 4);
  return time;
}

double right(const Candidate& candidate) { return microseconds(candidate) * 1e-6; }
double wrong(const Candidate& candidate) { return 1 / microseconds(candidate); }
double blind(const Candidate&) { return 0; }

double best_after(Strategy& strategy, int evaluations) {
  double best = 1e30;
  for (int i = 0; i < evaluations; ++i) {
    const auto candidate = strategy.next();
    if (!candidate) break;
    best = std::min(best, microseconds(*candidate));
    strategy.observe(*candidate, microseconds(*candidate));
  }
  return best;
}

/// The mean over seeds of the best time after `evaluations`; without a prediction, of the strategy
/// alone.
double mean_best(const SearchSpace& space, const std::string& strategy, int evaluations,
                 Predict predict) {
  constexpr int seeds = 10;
  double mean = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto chosen = make_strategy(strategy, space, seed);
    if (predict) chosen = make_ordered(std::move(chosen), space, seed, predict);
    mean += best_after(*chosen, evaluations) / seeds;
  }
  return mean;
}

class EachModel : public testing::TestWithParam<double (*)(const Candidate&)> {};

TEST_P(EachModel, ProposesEveryCandidateOnce) {
  const KernelTemplate kernel = template_of(3, 6);
  const SearchSpace space({}, {}, {&kernel});
  for (const char* name : {"local", "random"}) {
    const auto strategy = make_ordered(make_strategy(name, space, 1), space, 1, GetParam());
    std::set<Candidate> proposed;
    while (const auto candidate = strategy->next()) {
      EXPECT_TRUE(proposed.insert(*candidate).second) << to_string(*candidate) << " came twice";
      if (proposed.size() % 3 == 0) strategy->observe(*candidate, std::nullopt);
      if (proposed.size() % 3 == 1) strategy->observe(*candidate, microseconds(*candidate));
    }
    EXPECT_EQ(proposed.size(), 216u) << name;
    EXPECT_EQ(strategy->next(), std::nullopt);
  }
}

TEST_P(EachModel, NeverProposesWhatAnEarlierRunMeasured) {
  const KernelTemplate kernel = template_of(2, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto strategy = make_ordered(make_strategy("local", space, 1), space, 1, GetParam());
  const Candidate known = space.defaults().front();
  strategy->observe(known, 5.0);
  int count = 0;
  for (; const auto candidate = strategy->next(); ++count) EXPECT_NE(*candidate, known);
  EXPECT_EQ(count, 15);
}

TEST_P(EachModel, IsDeterministicForASeed) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto run = [&](std::uint64_t seed) {
    const auto strategy =
        make_ordered(make_strategy("local", space, seed), space, seed, GetParam());
    std::vector<Candidate> proposed;
    for (int i = 0; i < 100; ++i) {
      proposed.push_back(*strategy->next());
      strategy->observe(proposed.back(), microseconds(proposed.back()));
    }
    return proposed;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, testing::Values(right, wrong, blind));

TEST(Ordered, BeginsWithTheBestPredictedThenTheDefaults) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto strategy = make_ordered(make_strategy("local", space, 1), space, 1, right);
  const Candidate first = *strategy->next();
  EXPECT_EQ(*strategy->next(), space.defaults().front());
  for (int i = 0; i < 30; ++i) EXPECT_LE(right(first), right(*strategy->next()));
}

TEST(Ordered, BeginsWithTheDefaultsWhereNothingCanBePredicted) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto strategy = make_ordered(make_strategy("local", space, 1), space, 1, blind);
  EXPECT_EQ(*strategy->next(), space.defaults().front());
}

TEST(Ordered, WhatCouldCostTheWholeBudgetComesLast) {
  // All values of a parameter except two are ruinous, including the default.
  const KernelTemplate kernel = template_of(3, 6);
  const SearchSpace space({}, {}, {&kernel});
  const auto time = [](const Candidate& candidate) {
    return candidate.configuration.at(parameter(0)) < 4 ? 1000.0 : 100.0;
  };
  for (const char* name : {"local", "random"}) {
    for (const std::size_t observed : {1U, 5U}) {  // one in this many is observed
      const auto strategy = make_ordered(make_strategy(name, space, 1), space, 1, time);
      std::vector<double> times;
      while (const auto candidate = strategy->next()) {
        times.push_back(time(*candidate));
        if (times.size() % observed == 0) strategy->observe(*candidate, times.back());
      }
      EXPECT_EQ(times.size(), 216u) << name;
      EXPECT_TRUE(std::is_sorted(times.begin(), times.end())) << name;
    }
  }
}

TEST(Ordered, SuggestionsReachTheStrategy) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  std::mt19937_64 generator(7);
  const Candidate transferred = *space.random(generator);
  const auto strategy = make_ordered(make_strategy("local", space, 1), space, 1, blind);
  strategy->suggest(transferred);
  std::vector<Candidate> first;
  for (int i = 0; i < 6; ++i) first.push_back(*strategy->next());
  EXPECT_THAT(first, testing::Contains(transferred));
}

TEST(Ordered, ARightModelFindsGoodOnesSooner) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  EXPECT_LT(mean_best(space, "random", 25, right), 0.8 * mean_best(space, "random", 25, {}));
  EXPECT_LT(mean_best(space, "local", 25, right), 0.9 * mean_best(space, "local", 25, {}));
}

TEST(Ordered, AWrongModelCostsTimeButHidesNothing) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  EXPECT_LT(mean_best(space, "local", 400, wrong), 1.15 * mean_best(space, "local", 400, {}));
}

TEST(Ordered, MostOfWhatLooksHopelessWaits) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  // Half of the space takes three times as long.
  const auto time = [](const Candidate& candidate) {
    return candidate.configuration.at(parameter(0)) < 2 ? 100.0 : 300.0;
  };
  const auto strategy = make_ordered(make_strategy("random", space, 3), space, 3, time);
  int hopeless = 0;
  constexpr int start = 30, evaluations = 400;
  for (int i = 0; i < start + evaluations; ++i) {
    const auto candidate = strategy->next();
    hopeless += i >= start && time(*candidate) > 200;
    strategy->observe(*candidate, time(*candidate));
  }
  // The strategy proposes a ninth of the slow half and all of the fast half. The model's own
  // proposals are never slow.
  EXPECT_GT(hopeless, evaluations / 40);
  EXPECT_LT(hopeless, evaluations / 7);
}

/// The time depends on pairs of parameters. The model covers half of them.
double tangled(const Candidate& candidate) {
  double time = 100;
  const auto value = [&](int i) { return candidate.configuration.at(parameter(i)); };
  for (int i = 0; i + 1 < kParameters; i += 2)
    time *= 1 + 0.15 * std::abs((value(i) + 2 * value(i + 1)) % 7 - i % 5);
  return time;
}
double half_right(const Candidate& candidate) {
  double time = 1e-4;
  const auto value = [&](int i) { return candidate.configuration.at(parameter(i)); };
  for (int i = 0; i + 1 < kParameters / 2; i += 2)
    time *= 1 + 0.15 * std::abs((value(i) + 2 * value(i + 1)) % 7 - i % 5);
  return time;
}

TEST(Ordered, LearnsWhatTheModelIsWrongAbout) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto mean_after = [&](const Predict& predict) {
    double mean = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      auto strategy = make_strategy("local", space, seed);
      if (predict) strategy = make_ordered(std::move(strategy), space, seed, predict);
      double best = 1e30;
      for (int i = 0; i < 100; ++i) {
        const Candidate candidate = *strategy->next();
        best = std::min(best, tangled(candidate));
        strategy->observe(candidate, tangled(candidate));
      }
      mean += best / 8;
    }
    return mean;
  };
  EXPECT_LT(mean_after(half_right), 102);  // 105.6 without learning
  EXPECT_GT(mean_after({}), 105);
}

/// The mean over eight seeds of `local` of the best time after `evaluations`.
double mean_of_local(const SearchSpace& space, decltype(make_strategy)& make, int evaluations) {
  double mean = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto strategy = make("local", space, seed, false, {});
    double best = 1e30;
    for (int i = 0; i < evaluations; ++i) {
      const Candidate candidate = *strategy->next();
      best = std::min(best, tangled(candidate));
      strategy->observe(candidate, tangled(candidate));
    }
    mean += best / 8;
  }
  return mean;
}

TEST(Ordered, LearnsTimesWhereNothingIsPredicted) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  // It learns after 40 results; until then only the strategy proposes.
  EXPECT_EQ(mean_of_local(space, make_search_strategy, 40),
            mean_of_local(space, make_strategy, 40));
  // The means are 105.9 and 107.8; the best is 100.
  EXPECT_LT(mean_of_local(space, make_search_strategy, 100),
            mean_of_local(space, make_strategy, 100) - 1);
}

TEST(Ordered, TheModelKeepsProposing) {
  const KernelTemplate kernel = template_of(kParameters, 4);
  const SearchSpace space({}, {}, {&kernel});
  const auto fast_ones = [&](Predict predict) {
    const auto strategy = make_ordered(make_strategy("random", space, 5), space, 5, predict);
    int fast = 0;
    constexpr int start = 100, evaluations = 120;
    for (int i = 0; i < start + evaluations; ++i) {
      const auto candidate = strategy->next();
      fast += i >= start && microseconds(*candidate) < 150;
      // Fast enough that nothing is set aside, and too few for the learned model.
      if (i < 30) strategy->observe(*candidate, 1e6);
    }
    return fast;
  };
  EXPECT_GE(fast_ones(right), 15);  // of 20; hardly any of the random ones are fast
  EXPECT_LE(fast_ones(blind), 3);
}

}  // namespace
}  // namespace tilewise::ordered_test
