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
constexpr int kDrawsOfEach = 30;
// With 1,000, as few as a seventh of the draws of simt succeed.
constexpr int kAttempts = 10'000;
constexpr int kDescentSteps = 12;
constexpr double kLeastStep = 0.999;

using Expected = std::pair<double, Candidate>;  // seconds, candidate

constexpr double kNone = std::numeric_limits<double>::infinity();

Expected with_time(Candidate candidate, const Problem& problem, const Corrections* corrections,
                   const DeviceInfo& device) {
  const Cost cost = estimate(plan_of(candidate, problem, device), device);
  const double factor = corrections ? corrections->factor(candidate, problem, cost) : 1;
  return {cost.seconds * factor, std::move(candidate)};
}

/// The expected seconds of the best candidate that the descent finds from these and random ones;
/// infinity without one.
double best_of_descent(std::vector<Expected> starts, const SearchSpace& space,
                       const Problem& problem, const Corrections* corrections,
                       const DeviceInfo& device) {
  const auto sooner = [](const Expected& x, const Expected& y) { return x.first < y.first; };
  double best = kNone;
  for (const Expected& start : starts) best = std::min(best, start.first);
  std::mt19937_64 generator(1);
  for (const KernelTemplate* kernel : space.templates())
    for (int i = 0; i < kDrawsOfEach; ++i)
      if (auto drawn = space.random_of(*kernel, generator, kAttempts))
        starts.push_back(with_time(*std::move(drawn), problem, corrections, device));
  std::stable_sort(starts.begin(), starts.end(), sooner);
  starts.resize(std::min(starts.size(), kStarts));
  for (Expected& at : starts) {
    for (int step = 0; step < kDescentSteps; ++step) {
      Expected next = at;
      for (Candidate& neighbour : space.neighbours(at.second)) {
        Expected other = with_time(std::move(neighbour), problem, corrections, device);
        if (other.first < kLeastStep * next.first) next = std::move(other);
      }
      if (!(next.first < at.first)) break;
      at = std::move(next);
    }
    best = std::min(best, at.first);
  }
  return best;
}

}  // namespace

double expected_loss(const Problem& problem, const Resolver& stored, const Corrections& corrections,
                     const DeviceInfo& device, const std::vector<const KernelTemplate*>& templates,
                     const Subspace& subspace) {
  std::vector<Expected> starts;
  double served = kNone;
  for (Resolver::Expected& one : stored.expected(problem, kOfStored)) {
    starts.push_back(with_time(std::move(one.candidate), problem, &corrections, device));
    served = std::min(served, starts.back().first);
  }
  const SearchSpace space(problem, device, templates, subspace);
  const double best = best_of_descent(std::move(starts), space, problem, &corrections, device);
  return best > 0 && best < kNone ? served / best - 1 : 0;
}

double expected_seconds(const Problem& problem, const Corrections* corrections,
                        const DeviceInfo& device) {
  if (!can_estimate(device)) return 0;
  std::vector<const KernelTemplate*> every;
  for (const KernelTemplate& kernel : catalog()) every.push_back(&kernel);
  // Few random candidates have the problem's order otherwise.
  Subspace subspace;
  if (problem.order) {
    subspace["SPLIT_K"] = {1};
    if (problem.order->part > 0)
      subspace["SPLIT_K"].push_back(static_cast<int>(
          std::min<std::int64_t>(1 << 20, (problem.k - 1) / problem.order->part + 1)));
  }
  const SearchSpace space(problem, device, every, subspace);
  std::vector<Expected> starts;
  for (Candidate& usual : space.defaults())
    starts.push_back(with_time(std::move(usual), problem, corrections, device));
  const double best = best_of_descent(std::move(starts), space, problem, corrections, device);
  return best < kNone ? best : 0;
}

}  // namespace tilewise
