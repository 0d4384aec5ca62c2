#include "tuner/search/tree_ranker.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kLeastResults = 40;
constexpr std::size_t kLeastOfKernel = 20;  // with fewer results a template has a mean and no trees
constexpr std::size_t kFastest = 10;
// A template is fitted again after this many new results, and at least 1 / kNewShare of the fitted
// ones.
constexpr std::size_t kLeastNew = 8, kNewShare = 16;
// A candidate that takes x times as long as the best has the weight 1 / x^kFall, at least kLittle.
constexpr double kFall = 10, kLittle = 0.02;
// This many results with the mean of all templates are added to a template's mean.
constexpr double kLikeOthers = 5;

std::vector<int> features_of(const Candidate& candidate) {
  std::vector<int> features;
  for (const auto& [name, value] : candidate.configuration.values()) features.push_back(value);
  return features;
}

}  // namespace

void TreeRanker::observe(const Candidate& candidate, double microseconds) {
  const double predicted = predict_(candidate);
  if (!(predicted > 0)) return;
  Kernel& kernel = kernels_[candidate.kernel_template];
  const double factor = std::log(microseconds * 1e-6 / predicted);
  kernel.rows.push_back({features_of(candidate), factor, 1});
  kernel.microseconds.push_back(microseconds);
  kernel.sum += factor;
  sum_ += factor;
  ++results_;
  fastest_.emplace(microseconds, candidate);
  if (fastest_.size() > kFastest) fastest_.erase(std::prev(fastest_.end()));
}

bool TreeRanker::ready() const { return results_ >= kLeastResults; }

void TreeRanker::refresh(std::mt19937_64& generator) {
  for (auto& [name, kernel] : kernels_) {
    const std::size_t wanted = kernel.fitted + std::max(kLeastNew, kernel.fitted / kNewShare);
    if (kernel.rows.size() < std::max(kLeastOfKernel, wanted)) continue;
    const double best = fastest_.begin()->first;
    for (std::size_t i = 0; i < kernel.rows.size(); ++i)
      kernel.rows[i].weight = std::max(kLittle, std::pow(best / kernel.microseconds[i], kFall));
    kernel.trees.fit(kernel.rows, generator);
    kernel.fitted = kernel.rows.size();
  }
}

double TreeRanker::seconds(const Candidate& candidate) const {
  const double predicted = predict_(candidate);
  if (!(predicted > 0)) return std::numeric_limits<double>::infinity();
  const auto found = kernels_.find(candidate.kernel_template);
  if (found != kernels_.end() && found->second.trees.fitted())
    return predicted * std::exp(found->second.trees(features_of(candidate)));
  const double mean = results_ > 0 ? sum_ / static_cast<double>(results_) : 0;
  if (found == kernels_.end()) return predicted * std::exp(mean);
  const Kernel& kernel = found->second;
  const double count = static_cast<double>(kernel.rows.size());
  return predicted * std::exp((kernel.sum + kLikeOthers * mean) / (count + kLikeOthers));
}

const Candidate& TreeRanker::fast_one(std::mt19937_64& generator) const {
  const std::size_t which = random_index(generator, fastest_.size());
  return std::next(fastest_.begin(), static_cast<std::ptrdiff_t>(which))->second;
}

}  // namespace tilewise
