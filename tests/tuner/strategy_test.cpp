#include "tuner/search/strategy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise::strategy_test {
namespace {

constexpr int kParameters = 20;

std::string parameter(int i) { return "P" + std::to_string(10 + i); }

KernelTemplate base_template(const std::string& name) {
  KernelTemplate t;
  t.name = name;
  t.supports = [](const Problem&, const DeviceInfo&) { return true; };
  return t;
}

/// Twenty parameters of four values; every third is coupled to its neighbour.
KernelTemplate large_template(const std::string& name = "large") {
  KernelTemplate t = base_template(name);
  for (int i = 0; i < kParameters; ++i) t.parameters.push_back({parameter(i), {0, 1, 2, 3}, ""});
  for (int i = 0; i + 1 < kParameters; i += 3) {
    const std::string x = parameter(i), y = parameter(i + 1);
    t.constraints.push_back(
        {x + "_near_" + y, {x, y}, "differ by at most 1", [x, y](const auto& in) {
           return std::abs(in.configuration.at(x) - in.configuration.at(y)) <= 1;
         }});
  }
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    Configuration c;
    for (int i = 0; i < kParameters; ++i) c.set(parameter(i), 0);
    return c;
  };
  return t;
}

KernelTemplate small_template(const std::string& name, int values) {
  KernelTemplate t = base_template(name);
  Parameter a{"A", {}, ""}, b{"B", {}, ""};
  for (int v = 0; v < values; ++v) {
    a.values.push_back(v);
    b.values.push_back(v);
  }
  t.parameters = {a, b};
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"A", 0}, {"B", 0}};
  };
  return t;
}

/// At least 100 us. Each parameter and each pair of neighbours matters, four of ten candidates are
/// slower by a factor of 3, and templates other than `large` are never good.
double microseconds(const Candidate& candidate) {
  if (candidate.kernel_template != "large")
    return 900 + 10.0 * candidate.configuration.at("A") + candidate.configuration.at("B");
  double time = 100;
  for (int i = 0; i < kParameters; ++i) {
    const int value = candidate.configuration.at(parameter(i));
    const int next = candidate.configuration.at(parameter((i + 1) % kParameters));
    time *= 1 + 0.04 * std::abs(value - (i * 7 + 2) % 4) + 0.02 * ((value * next + i) % 3);
  }
  const int cliff =
      candidate.configuration.at(parameter(0)) + candidate.configuration.at(parameter(5));
  return cliff >= 4 || cliff == 1 ? 3 * time : time;
}

/// The best time after `evaluations`, with `ahead` candidates in flight.
double best_after(Strategy& strategy, int evaluations, std::size_t ahead) {
  std::deque<Candidate> under_way;
  double best = 1e30;
  for (int i = 0; i < evaluations; ++i) {
    while (under_way.size() < ahead)
      if (auto candidate = strategy.next())
        under_way.push_back(*candidate);
      else
        break;
    if (under_way.empty()) break;
    best = std::min(best, microseconds(under_way.front()));
    strategy.observe(under_way.front(), microseconds(under_way.front()));
    under_way.pop_front();
  }
  return best;
}

class EachStrategy : public testing::TestWithParam<std::string> {};

TEST_P(EachStrategy, UsesUpASmallSpaceProposingEachOnce) {
  const KernelTemplate one = small_template("one", 12), two = small_template("two", 4);
  const SearchSpace space({}, {}, {&one, &two});
  const auto strategy = make_search_strategy(GetParam(), space, 1);
  std::set<Candidate> proposed;
  while (const auto candidate = strategy->next()) {
    EXPECT_TRUE(space.contains(*candidate));
    EXPECT_TRUE(proposed.insert(*candidate).second) << to_string(*candidate) << " came twice";
    // Some candidates are rejected, some results are never observed.
    if (proposed.size() % 3 == 0) strategy->observe(*candidate, std::nullopt);
    if (proposed.size() % 3 == 1) strategy->observe(*candidate, microseconds(*candidate));
  }
  EXPECT_EQ(proposed.size(), 144u + 16u);
  EXPECT_EQ(strategy->next(), std::nullopt);
}

TEST_P(EachStrategy, NeverProposesWhatAnEarlierRunMeasured) {
  const KernelTemplate one = small_template("one", 4);
  const SearchSpace space({}, {}, {&one});
  const auto strategy = make_search_strategy(GetParam(), space, 1);
  const Candidate known{"one", {{"A", 0}, {"B", 0}}}, failed{"one", {{"A", 2}, {"B", 1}}};
  strategy->observe(known, 5.0);
  strategy->observe(failed, std::nullopt);
  int count = 0;
  for (; const auto candidate = strategy->next(); ++count) {
    EXPECT_NE(*candidate, known);
    EXPECT_NE(*candidate, failed);
  }
  EXPECT_EQ(count, 14);
}

TEST_P(EachStrategy, IsDeterministicForASeed) {
  const KernelTemplate large = large_template(), one = small_template("one", 3);
  const bool lists = GetParam() == "exhaustive";  // large is too large for it
  const SearchSpace space({}, {}, {lists ? &one : &large, &one});
  const auto first = make_search_strategy(GetParam(), space, 42),
             second = make_search_strategy(GetParam(), space, 42);
  for (int i = 0; i < 120; ++i) {
    const auto candidate = first->next();
    ASSERT_EQ(candidate, second->next());
    if (!candidate) break;
    first->observe(*candidate, microseconds(*candidate));
    second->observe(*candidate, microseconds(*candidate));
  }
}

TEST_P(EachStrategy, SurvivesNothingButRejections) {
  const KernelTemplate one = small_template("one", 6);
  const SearchSpace space({}, {}, {&one});
  const auto strategy = make_search_strategy(GetParam(), space, 1);
  int count = 0;
  for (; const auto candidate = strategy->next(); ++count)
    strategy->observe(*candidate, std::nullopt);
  EXPECT_EQ(count, 36);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EachStrategy,
                         testing::Values("local", "model", "random", "exhaustive"));

TEST(Strategies, AreATableAndUnknownNamesAreRefused) {
  const KernelTemplate one = small_template("one", 2);
  const SearchSpace space({}, {}, {&one});
  std::string names;
  for (const StrategyInfo& info : strategies()) {
    EXPECT_TRUE(info.make(space, 1, false, {})->next());
    EXPECT_FALSE(info.summary.empty());
    names += info.name + " ";
  }
  EXPECT_EQ(names, "local model random exhaustive ");
  try {
    make_strategy("guess", space, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("local, model, random, exhaustive"));
  }
}

TEST(Exhaustive, RefusesASpaceTooLargeToList) {
  const KernelTemplate large = large_template();
  const SearchSpace space({}, {}, {&large});
  EXPECT_THROW(make_strategy("exhaustive", space, 1), Error);
}

TEST(Random, SeedsDiffer) {
  const KernelTemplate large = large_template();
  const SearchSpace space({}, {}, {&large});
  EXPECT_NE(make_strategy("random", space, 1)->next(), make_strategy("random", space, 2)->next());
}

TEST(Local, StartsWithTheDefaults) {
  const KernelTemplate large = large_template(), one = small_template("one", 3);
  const SearchSpace space({}, {}, {&large, &one});
  const auto strategy = make_strategy("local", space, 1);
  const std::vector<Candidate> first{*strategy->next(), *strategy->next()};
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(space.defaults()));
}

TEST(Local, TriesWhatIsSuggestedRightAfterTheDefaults) {
  const KernelTemplate large = large_template();
  const SearchSpace space({}, {}, {&large});
  std::mt19937_64 generator(7);
  const Candidate one = *space.random(generator), other = *space.random(generator),
                  known = *space.random(generator);
  const auto strategy = make_strategy("local", space, 1);
  strategy->observe(known, 5.0);
  for (const Candidate& candidate : {one, known, other, one, space.defaults()[0]})
    strategy->suggest(candidate);
  EXPECT_EQ(strategy->next(), space.defaults()[0]);
  EXPECT_EQ(strategy->next(), one);
  EXPECT_EQ(strategy->next(), other);
  EXPECT_FALSE(std::set<Candidate>({known, one, other}).count(*strategy->next()));
}

TEST(Local, ABriefSearchSoonTriesNeighboursOfTheBest) {
  const KernelTemplate large = large_template(), one = small_template("one", 40);
  const SearchSpace space({}, {}, {&large, &one});
  int soon[2] = {};  // neighbours of the best among the first candidates
  for (const bool brief : {false, true}) {
    const auto strategy = make_strategy("local", space, 1, brief);
    std::optional<Candidate> best;
    for (int i = 0; i < 24; ++i) {
      const auto candidate = strategy->next();
      if (best) {
        const std::vector<Candidate> near = space.neighbours(*best);
        soon[brief] += std::find(near.begin(), near.end(), *candidate) != near.end();
      }
      if (!best || microseconds(*candidate) < microseconds(*best)) best = candidate;
      strategy->observe(*candidate, microseconds(*candidate));
    }
  }
  EXPECT_LE(soon[false], 2);
  EXPECT_GE(soon[true], 4);
}

TEST(Local, IsClearlyBetterThanRandomOnALargeCoupledSpace) {
  const KernelTemplate large = large_template(), one = small_template("one", 6),
                       two = small_template("two", 6);
  const SearchSpace space({}, {}, {&large, &one, &two});
  double local = 0, random = 0, good = 0;
  constexpr int kRepeats = 10;
  for (std::uint64_t seed = 1; seed <= kRepeats; ++seed) {
    good += best_after(*make_strategy("local", space, seed), 1500, 8) / kRepeats;
    local += best_after(*make_strategy("local", space, seed), 250, 8) / kRepeats;
    random += best_after(*make_strategy("random", space, seed), 250, 8) / kRepeats;
  }
  EXPECT_LT(local, 1.10 * good) << "250 evaluations reach what 1500 do";
  EXPECT_GT(random, 1.25 * good) << "else the landscape is too easy to show anything";
}

TEST(Local, WastesLittleOnTemplatesThatLose) {
  const KernelTemplate large = large_template(), one = small_template("one", 40),
                       two = small_template("two", 40);
  const SearchSpace space({}, {}, {&large, &one, &two});
  const auto strategy = make_strategy("local", space, 3);
  int losers = 0;
  for (int i = 0; i < 400; ++i) {
    const auto candidate = strategy->next();
    losers += candidate->kernel_template != "large";
    strategy->observe(*candidate, microseconds(*candidate));
  }
  EXPECT_LT(losers, 30);
  EXPECT_GT(losers, 6) << "each has its chance";
}

}  // namespace
}  // namespace tilewise::strategy_test
