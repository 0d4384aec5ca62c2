#include "tuner/expected_loss.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "templates/kernel_template.hpp"

namespace tilewise {
namespace {

// The descent starts from the best of these: stored candidates, and random ones of each template.
constexpr std::size_t kOfStored = 3, kStarts = 6;
constexpr int kDrawsOfEach = 30, kAttempts = 1000;
constexpr int kDescentSteps = 12;
constexpr double kLeastStep = 0.999;

using Expected = std::pair<double, Candidate>;  // seconds, candidate

}  // namespace

double expected_loss(const Problem& problem, const Resolver& stored, const Corrections& corrections,
                     const DeviceInfo& device, const std::vector<const KernelTemplate*>& templates,
                     const Subspace& subspace) {
  const auto with_time = [&](Candidate candidate) -> Expected {
    const Cost cost = estimate(plan_of(candidate, problem, device), device);
    return {cost.seconds * corrections.factor(candidate, problem, cost), std::move(candidate)};
  };
  const auto sooner = [](const Expected& x, const Expected& y) { return x.first < y.first; };
  std::vector<Expected> starts;
  for (Resolver::Expected& one : stored.expected(problem, kOfStored))
    starts.push_back(with_time(std::move(one.candidate)));
  double served = std::numeric_limits<double>::infinity();
  for (const Expected& start : starts) served = std::min(served, start.first);

  const SearchSpace space(problem, device, templates, subspace);
  std::mt19937_64 generator(1);
  for (const KernelTemplate* kernel : space.templates())
    for (int i = 0; i < kDrawsOfEach; ++i)
      if (auto drawn = space.random_of(*kernel, generator, kAttempts))
        starts.push_back(with_time(*std::move(drawn)));
  std::stable_sort(starts.begin(), starts.end(), sooner);
  starts.resize(std::min(starts.size(), kStarts));
  double best = served;
  for (Expected& at : starts) {
    for (int step = 0; step < kDescentSteps; ++step) {
      Expected next = at;
      for (Candidate& neighbour : space.neighbours(at.second)) {
        Expected other = with_time(std::move(neighbour));
        if (other.first < kLeastStep * next.first) next = std::move(other);
      }
      if (!(next.first < at.first)) break;
      at = std::move(next);
    }
    best = std::min(best, at.first);
  }
  return best > 0 && best < std::numeric_limits<double>::infinity() ? served / best - 1 : 0;
}

}  // namespace tilewise
