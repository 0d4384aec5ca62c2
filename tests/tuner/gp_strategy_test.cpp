// The strategy `model`: Bayesian optimisation by Gaussian processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "tuner/search/strategy.hpp"

namespace tilewise::gp_strategy_test {
namespace {

constexpr int kParameters = 12;

std::string parameter(int i) { return "P" + std::to_string(10 + i); }

KernelTemplate template_of(const std::string& name, int parameters = kParameters) {
  KernelTemplate t;
  t.name = name;
  t.supports = [](const Problem&, const DeviceInfo&) { return true; };
  for (int i = 0; i < parameters; ++i) t.parameters.push_back({parameter(i), {1, 2, 4, 8}, ""});
  t.default_configuration = [parameters](const Problem&, const DeviceInfo&) {
    Configuration c;
    for (int i = 0; i < parameters; ++i) c.set(parameter(i), 1);
    return c;
  };
  return t;
}

/// At least 100 us; pairs of parameters interact. The template `slow` takes five times as long.
double microseconds(const Candidate& candidate) {
  const auto level = [&](int i) { return std::log2(candidate.configuration.at(parameter(i))); };
  double time = candidate.kernel_template == "slow" ? 500 : 100;
  for (int i = 0; i + 1 < kParameters; i += 2)
    time *= 1 + 0.08 * std::abs(level(i) + level(i + 1) - i % 5) + 0.04 * std::abs(level(i) - 1);
  return time;
}

struct Searched {
  std::vector<Candidate> proposed;
  double best = 1e30;
};

Searched searched(Strategy& strategy, int evaluations, std::size_t under_way = 1) {
  Searched result;
  std::deque<Candidate> waiting;
  for (int i = 0; i < evaluations; ++i) {
    while (waiting.size() < under_way) {
      waiting.push_back(*strategy.next());
      result.proposed.push_back(waiting.back());
    }
    result.best = std::min(result.best, microseconds(waiting.front()));
    strategy.observe(waiting.front(), microseconds(waiting.front()));
    waiting.pop_front();
  }
  return result;
}

double mean_best(const SearchSpace& space, const std::string& name, int evaluations,
                 std::size_t under_way, const Predict& predict = {}) {
  double mean = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    mean +=
        searched(*make_strategy(name, space, seed, false, predict), evaluations, under_way).best /
        3;
  return mean;
}

TEST(Model, FindsBetterOnesThanALocalSearch) {
  const KernelTemplate kernel = template_of("made_up");
  const SearchSpace space({}, {}, {&kernel});
  for (const std::size_t under_way : {1u, 16u})
    EXPECT_LT(mean_best(space, "model", 70, under_way), mean_best(space, "local", 70, under_way))
        << under_way;
}

TEST(Model, ProposalsUnderWayDiffer) {
  const KernelTemplate kernel = template_of("made_up");
  const SearchSpace space({}, {}, {&kernel});
  const auto strategy = make_strategy("model", space, 1);
  searched(*strategy, 30);
  std::set<Candidate> together;
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(together.insert(*strategy->next()).second);
}

TEST(Model, BeginsWithDefaultsThenSuggestions) {
  const KernelTemplate kernel = template_of("made_up");
  const SearchSpace space({}, {}, {&kernel});
  std::mt19937_64 generator(7);
  const Candidate suggested = *space.random(generator);
  const auto strategy = make_strategy("model", space, 1);
  strategy->suggest(suggested);
  EXPECT_EQ(strategy->next(), space.defaults().front());
  EXPECT_EQ(strategy->next(), suggested);
}

TEST(Model, LeavesATemplateThatLoses) {
  const KernelTemplate good = template_of("good"), slow = template_of("slow");
  const SearchSpace space({}, {}, {&good, &slow});
  const auto proposed = searched(*make_strategy("model", space, 1), 100).proposed;
  const auto lost = std::count_if(proposed.begin(), proposed.end(), [](const Candidate& each) {
    return each.kernel_template == "slow";
  });
  EXPECT_GE(lost, 4) << "each has its chance";
  EXPECT_LT(lost, 15);
}

TEST(Model, LeavesOutDefaultsThatCouldCostTheBudget) {
  const KernelTemplate good = template_of("good"), slow = template_of("slow");
  const SearchSpace space({}, {}, {&slow, &good});
  const Predict predict = [](const Candidate& c) {
    return c.kernel_template == "slow" ? 1.0 : 1e-6 * microseconds(c);
  };
  const auto strategy = make_strategy("model", space, 1, false, predict);
  for (const Candidate& candidate : searched(*strategy, 50).proposed)
    EXPECT_EQ(candidate.kernel_template, "good");
}

/// The prediction is the mean: a right prediction finds good candidates at once, a wrong one is
/// corrected.
TEST(Model, APredictionIsItsMean) {
  const KernelTemplate kernel = template_of("made_up");
  const SearchSpace space({}, {}, {&kernel});
  const Predict right = [](const Candidate& c) { return 3e-6 * microseconds(c); };
  const Predict wrong = [](const Candidate& c) { return 1e-3 / microseconds(c); };
  const double without = mean_best(space, "model", 25, 1);
  EXPECT_LT(mean_best(space, "model", 25, 1, right), 0.9 * without);
  EXPECT_LT(mean_best(space, "model", 60, 1, wrong), without);
}

TEST(Model, SearchesOnBesideFailures) {
  const KernelTemplate kernel = template_of("made_up");
  const SearchSpace space({}, {}, {&kernel});
  const auto strategy = make_strategy("model", space, 1);
  double best = 1e30;
  for (int i = 0; i < 100; ++i) {
    const Candidate candidate = *strategy->next();
    const bool fails = candidate.configuration.at(parameter(0)) == 8;
    if (!fails) best = std::min(best, microseconds(candidate));
    strategy->observe(candidate, fails ? std::nullopt : std::optional(microseconds(candidate)));
  }
  EXPECT_LT(best, 125);
}

}  // namespace
}  // namespace tilewise::gp_strategy_test
