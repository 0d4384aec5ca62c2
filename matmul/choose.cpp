// What a Resolver expects of stored candidates, and its choice among them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "matmul/resolve.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

double log_of(std::int64_t x) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(x, 1)));
}

}  // namespace

LogSizes::LogSizes(const Problem& problem)
    : sizes{log_of(problem.m), log_of(problem.n), log_of(problem.k), log_of(problem.batch)},
      alignments{log_of(problem.alignment.a), log_of(problem.alignment.b),
                 log_of(problem.alignment.c)} {}

double LogSizes::distance(const LogSizes& other) const {
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) sum += std::abs(sizes[i] - other.sizes[i]);
  return sum;
}

double LogSizes::alignment_gap(const LogSizes& other) const {
  double sum = 0;
  for (std::size_t i = 0; i < alignments.size(); ++i)
    sum += std::abs(alignments[i] - other.alignments[i]);
  return sum;
}

double distance_between(const Problem& x, const Problem& y) {
  return LogSizes(x).distance(LogSizes(y));
}

double Resolver::own_ratio(std::size_t winner) const {
  std::atomic<double>& known = (*own_ratios_)[winner];
  double value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    const Record& record = winners_[winner].record;
    value = measured_over_modelled(record, own_cost(record, device_));
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

/// Null where there are none for the problem's types.
const Corrections* Resolver::corrections_for(const Problem& problem) const {
  if (!learned_->source) return nullptr;
  const std::lock_guard lock(learned_->mutex);
  const auto [known, fresh] = learned_->of_kind.try_emplace(kind_text(problem));
  if (fresh) known->second = learned_->source(problem);
  return known->second ? &*known->second : nullptr;
}

/// By how much a winner's measured time differs from what corrections of many measurements say.
double Resolver::residual(std::size_t winner, const Corrections& corrections) const {
  std::atomic<double>& known = (*residuals_)[winner];
  double value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    const Record& record = winners_[winner].record;
    const std::optional<Cost> cost = own_cost(record, device_);
    value = cost ? measured_over_modelled(record, cost) /
                       corrections.factor(record.candidate, record.problem, *cost)
                 : 1;
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

/// The expected time of an offer's candidate, in us; sets the cost model's share.
double Resolver::expect(Offer& offer, const Plan& plan, const Problem& problem,
                        const GivenPackings& given, const Corrections* corrections) const {
  const auto winner = static_cast<std::size_t>(offer.winner - winners_.data());
  const Cost cost = estimate(plan, device_);
  offer.model_us = 1e6 * (given.none() ? cost : cost_of(plan, device_, given)).seconds;
  if (!corrections || !corrections->has(offer.candidate.kernel_template))
    return offer.model_us * own_ratio(winner);
  offer.samples = corrections->samples();
  return offer.model_us * corrections->factor(offer.candidate, problem, cost) *
         std::pow(residual(winner, *corrections), std::exp(-offer.distance));
}

std::vector<Resolver::Offer> Resolver::offers(const Problem& problem, const RefusedKernels& refused,
                                              std::size_t count, const GivenPackings& given,
                                              bool without_own) const {
  using Place = std::tuple<double, bool, double, std::size_t>;
  // Of each candidate the nearest record. What does not serve this problem is not asked again.
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<Place> near(candidate_count_, Place{kNone, false, 0, 0});
  const LogSizes logs(problem);
  for (std::size_t i = 0; i < problems_.size(); ++i) {
    const Problem& of = problems_[i];
    if (!same_types(of, problem) || superseded_[i] || (without_own && of == problem)) continue;
    const Place place{logs_[i].distance(logs), of.layout != problem.layout,
                      logs_[i].alignment_gap(logs), i};
    Place& nearest = near[candidate_numbers_[i]];
    if (place < nearest) nearest = place;
  }
  std::erase_if(near, [](const Place& place) { return std::get<0>(place) == kNone; });
  // A heap: of a thousand winners the nearest hundred or so are looked at.
  std::make_heap(near.begin(), near.end(), std::greater<>());
  const Corrections* corrections = corrections_for(problem);
  std::vector<Offer> offers;
  std::unordered_set<std::size_t> seen;  // hashes: equal ones of different candidates are rare
  for (; !near.empty() && offers.size() < kCompared; near.pop_back()) {
    std::pop_heap(near.begin(), near.end(), std::greater<>());
    const auto& [distance, other_layout, gap, i] = near.back();
    const Candidate& stored = winners_[i].record.candidate;
    if (seen.contains(hashes_[i])) continue;
    std::optional<Candidate> candidate = form_for(winners_[i].record, problem, device_);
    if (!candidate || has_one_of(refused, *candidate, problem, device_)) continue;
    // Forms of two candidates may be one.
    if (*candidate != stored && !seen.insert(hash_of(*candidate)).second) continue;
    seen.insert(hashes_[i]);
    Offer offer{.winner = &winners_[i], .candidate = *std::move(candidate), .distance = distance};
    const Plan plan = plan_of(offer.candidate, problem, device_);
    offer.expected_us = expect(offer, plan, problem, given, corrections);
    if (offer.model_us == 0 && other_layout) continue;
    offers.push_back(std::move(offer));
  }
  const auto faster = [](const Offer& x, const Offer& y) { return x.expected_us < y.expected_us; };
  std::stable_sort(offers.begin(), offers.end(), faster);
  const std::size_t compared = offers.size();
  offers.resize(std::min(compared, count));
  for (Offer& offer : offers) {
    offer.compared = compared;
    if (offer.model_us == 0) continue;
    Offer fitted = offer;
    const auto expect_of = [&](const Candidate& other, const Plan& plan) {
      fitted.candidate = other;
      return expect(fitted, plan, problem, given, corrections);
    };
    if (!fit_to_size(offer.candidate, offer.expected_us, problem, device_, expect_of)) continue;
    const Plan plan = plan_of(offer.candidate, problem, device_);
    offer.expected_us = expect(offer, plan, problem, given, corrections);
  }
  std::stable_sort(offers.begin(), offers.end(), faster);
  return offers;
}

std::vector<Resolver::Expected> Resolver::expected(const Problem& problem,
                                                   std::size_t count) const {
  std::vector<Expected> expected;
  for (Offer& offer : offers(problem, {}, count)) {
    const auto same = [&](const Expected& one) { return one.candidate == offer.candidate; };
    if (std::none_of(expected.begin(), expected.end(), same))
      expected.push_back({std::move(offer.candidate), offer.expected_us});
  }
  return expected;
}

}  // namespace tilewise
